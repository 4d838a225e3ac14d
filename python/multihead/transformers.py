# SPDX-License-Identifier: MIT
"""Attention of Hugging Face's models: importing this registers it as "multihead".

    import multihead.transformers
    model = AutoModel.from_pretrained(folder, attn_implementation="multihead")

Everything that models ask of an attention function is there: grouped queries, soft caps, sinks,
windows, T5's position bias, packed batches, dropout, gradients, torch.compile; and weights, with
``model(..., output_attentions=True)``. (``config.output_attentions=True`` is refused by
transformers itself for all implementations but "eager".) float32, bfloat16, float16 on the CPU.

>>> import multihead.transformers
>>> from transformers import BertConfig, BertModel
>>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
...                     intermediate_size=8)
>>> model = BertModel._from_config(config, attn_implementation="multihead").eval()
>>> import torch
>>> out = model(torch.tensor([[1, 2, 3]]), output_attentions=True)
>>> out.last_hidden_state.shape, out.attentions[0].shape
(torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]))
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from .torch._attention import attend, draw_seed
from .torch._calls import Options

NAME = "multihead"

_collector: Any = None  # of outputs that a model does not hand on as arguments: GPT-2's attentions
try:
    from transformers.utils import output_capturing

    _collector = output_capturing._active_collector
except (ImportError, AttributeError):
    pass

__all__ = ["NAME", "attention_forward"]


def _wants_weights(kwargs: dict[str, Any]) -> bool:
    if kwargs.get("output_attentions"):
        return True
    wanted = None if _collector is None else _collector.get()
    return wanted is not None and any("attentions" in name for name in wanted)


def _documents(starts: Tensor, length: int) -> Tensor:
    """The sequence that each row of a packed batch belongs to, (1, length)."""
    return torch.bucketize(torch.arange(length), starts[1:], right=True).unsqueeze(0)


def _packing(kwargs: dict[str, Any], query: Tensor, key: Tensor,
             weights: bool) -> dict[str, Any]:
    """Options for sequences back to back; by document ids where weights are wanted."""
    q, k = kwargs.get("cu_seq_lens_q"), kwargs.get("cu_seq_lens_k")
    if q is None or k is None:
        return {}
    q, k = q.to(torch.int64).contiguous(), k.to(torch.int64).contiguous()
    if weights:
        return {"query_documents": _documents(q, query.shape[2]),
                "key_documents": _documents(k, key.shape[2])}
    return {"query_starts": q, "key_starts": k}


def _pattern(causal: bool, window: Optional[int], query: Tensor, key: Tensor) -> dict[str, Any]:
    """Options for what a mask would contain: PyTorch's causal rule, and the window of a layer."""
    found: dict[str, Any] = {"causal": "top-left"} if causal else {}
    if window is not None and key.shape[2] > window:
        if query.shape[2] == 1:  # a token after all others
            found = {"causal": "bottom-right"}
        found.update(window_left=window - 1, window_right=window - 1)
    return found


def attention_forward(module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
                      attention_mask: Optional[Tensor], dropout: float = 0.0,
                      scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      position_bias: Optional[Tensor] = None, cache: Any = None,
                      **kwargs: Any) -> tuple[Tensor, Optional[Tensor]]:
    """What transformers calls: query (B, H, T, E), key (B, G, S, E), value (B, G, S, Ev).

    Returns out (B, T, H, Ev), and the weights (B, H, T, S) if they are asked for. A mask is used
    alone, since windows, padding and packing are in it already.
    """
    if cache is not None:  # continuous batching
        key, value = cache.update(key_states=key, value_states=value,
                                  layer_idx=module.layer_idx, kwargs=kwargs)
    weights = _wants_weights(kwargs)
    options: dict[str, Any] = {}
    if attention_mask is None:
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        options = _pattern(bool(causal) and query.shape[2] > 1, kwargs.get("sliding_window"),
                           query, key)
        options.update(_packing(kwargs, query, key, weights))
    sinks = kwargs.get("s_aux", kwargs.get("sinks"))
    out, found, _ = attend(
        query, key, value, attention_mask, position_bias,
        None if sinks is None else sinks.float().contiguous(),
        Options(scale=scaling, softcap=kwargs.get("softcap") or 0.0, dropout=dropout,
                seed=draw_seed() if dropout else None, dropped_weights=True, **options),
        weights=weights, heads_last=True)
    return out.transpose(1, 2), None if found is None else found.to(query.dtype)


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, sdpa_mask)
