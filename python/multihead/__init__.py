# SPDX-License-Identifier: MIT
"""Multi-head attention and Transformers on CPUs."""
from ._multihead import attention, attention_backward, explain, get_num_threads, isa, set_num_threads, version as __version__
from .files import load_file, save_file
from .kv_cache import KVCache
from .layers import LayerNorm, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer
from .modules import MultiheadAttention, manual_seed
from .training import AdamW, Parameter, Tape, cross_entropy

__all__ = ["attention", "attention_backward", "explain", "get_num_threads", "isa", "set_num_threads"]
__all__ += ["load_file", "save_file", "KVCache", "MultiheadAttention", "manual_seed"]
__all__ += ["LayerNorm", "Transformer", "TransformerDecoder", "TransformerDecoderLayer"]
__all__ += ["TransformerEncoder", "TransformerEncoderLayer"]
__all__ += ["AdamW", "Parameter", "Tape", "cross_entropy"]
