# SPDX-License-Identifier: MIT
"""Multi-head attention and Transformers on CPUs.

attention                   scaled dot-product attention of arrays, and its gradients
MultiheadAttention, ...     torch.nn's modules, with training by hand
load                        pretrained models: embed, generate, translate, and what heads attend to
view                        the viewer for attention weights of one's own
"""
from ._multihead import (
    attention,
    attention_backward,
    explain,
    get_num_threads,
    isa,
    set_num_threads,
    version as __version__,
)
from ._head_patterns import Head
from .files import load_file, save_file
from .generation import GeneratedToken, GenerateOptions, Generation, TokenScore
from .kv_cache import KVCache
from .layers import (
    LayerNorm,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .models import Candidate, Label, Model, load
from .modules import Module, MultiheadAttention, manual_seed
from .scores import BleuScore, bleu, chrf
from .speech import SpeechSegment, SpokenWord, TranscribeOptions, Transcription
from .tokenizers import Encoding, Tokenizer
from .traces import AttentionGroup, HeadLink, Trace, view
from .training import AdamW, Parameter, Tape, cross_entropy
from .translation import TranslateOptions, Translation

__all__ = [
    # attention
    "attention", "attention_backward", "explain", "KVCache",
    # modules
    "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerDecoder", "Transformer", "LayerNorm", "Module", "manual_seed",
    # training
    "Tape", "Parameter", "AdamW", "cross_entropy",
    # models
    "load", "Model", "Generation", "GeneratedToken", "GenerateOptions", "TokenScore", "Translation",
    "TranslateOptions", "Transcription", "TranscribeOptions", "SpeechSegment", "SpokenWord",
    "Candidate", "Label", "Tokenizer", "Encoding", "bleu", "chrf", "BleuScore",
    # traces
    "view", "Trace", "AttentionGroup", "Head", "HeadLink",
    # files
    "load_file", "save_file",
    # threads and the CPU
    "set_num_threads", "get_num_threads", "isa",
]
