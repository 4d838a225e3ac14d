# SPDX-License-Identifier: MIT
"""Multi-head attention and Transformers on CPUs."""
from ._multihead import attention, attention_backward, explain, get_num_threads, isa, set_num_threads, version as __version__

__all__ = ["attention", "attention_backward", "explain", "get_num_threads", "isa", "set_num_threads"]
