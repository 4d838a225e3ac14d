# SPDX-License-Identifier: MIT
"""multihead for PyTorch programs.

``scaled_dot_product_attention`` has PyTorch's signature and more; ``activate`` puts its kernels
under torch.nn.functional's, ``accelerate`` under nn.MultiheadAttention and its layers.
"""
from __future__ import annotations

from ._attention import scaled_dot_product_attention
from ._modules import MultiheadAttention, TransformerEncoderLayer, accelerate
from ._registry import activate, is_active, restore

__all__ = ["MultiheadAttention", "TransformerEncoderLayer", "accelerate", "activate", "is_active",
           "restore", "scaled_dot_product_attention"]
