# SPDX-License-Identifier: MIT
"""What a call of attention is made of, and the extension's forward and backward for it.

The direct call, the autograd function and the custom operators share these, so that all three
compute the same bits.
"""
from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from .. import _multihead

# What the kernels compute: dtypes on the CPU, and heads up to this width.
COMPUTED = frozenset((torch.float32, torch.bfloat16, torch.float16))
MAX_HEAD_DIM = 1024


class Options(NamedTuple):
    """The options of a call that are not differentiable, in the order of the operators' schema."""

    alibi: Optional[Tensor] = None  # slopes (H), f32; an empty tensor: the published ones
    key_lengths: Optional[Tensor] = None
    prefix_lengths: Optional[Tensor] = None
    query_documents: Optional[Tensor] = None
    key_documents: Optional[Tensor] = None
    query_starts: Optional[Tensor] = None
    key_starts: Optional[Tensor] = None
    seed: Optional[Tensor] = None  # of dropout, int64
    dropout: float = 0.0
    causal: str = "none"  # "top-left", "bottom-right", or "offset"
    offset: int = 0
    window_left: int = -1
    window_right: int = -1
    scale: Optional[float] = None
    softcap: float = 0.0
    precision: str = "auto"
    empty_row: str = "zero"
    dropped_weights: bool = False  # weights after dropout, as nn.MultiheadAttention returns them


_ARRAYS = ("key_lengths", "prefix_lengths", "query_documents", "key_documents", "query_starts",
           "key_starts")
_NO_ARRAYS = (None,) * len(_ARRAYS)


def extension_options(o: Options) -> dict[str, Any]:
    """The keyword arguments of the extension's functions."""
    found: dict[str, Any] = {}
    if o.alibi is not None:
        found["alibi"] = o.alibi if o.alibi.numel() else True
    arrays = o[1:1 + len(_ARRAYS)]
    if arrays != _NO_ARRAYS:
        found.update((name, x) for name, x in zip(_ARRAYS, arrays) if x is not None)
    if o.dropout:
        found["dropout"] = o.dropout
        found["seed"] = 0 if o.seed is None else int(o.seed.item())
    if o.causal != "none":
        found["causal"] = int(o.offset) if o.causal == "offset" else o.causal
    if o.window_left >= 0 or o.window_right >= 0:
        found["window"] = (o.window_left, o.window_right)
    if o.scale is not None:
        found["scale"] = o.scale
    if o.softcap:
        found["softcap"] = o.softcap
    if o.precision != "auto":
        found["precision"] = o.precision
    if o.empty_row != "zero":
        found["empty_row"] = o.empty_row
    return found


def masks_of(mask: Optional[Tensor], bias: Optional[Tensor]) -> Any:
    """The extension's `mask`: None, a tensor, or a tuple of both."""
    if mask is None:
        return bias
    return mask if bias is None else (mask, bias)


def output_like(query: Tensor, value: Tensor, heads_last: bool) -> Tensor:
    """An empty `out`: (..., H, T, Ev) in the memory order of `query`, as PyTorch's own; or, if the
    heads are merged next, in that of (B, T, H, Ev)."""
    width = value.shape[-1]
    if heads_last:
        batch, heads, rows, _ = query.shape
        return query.new_empty((batch, rows, heads, width)).transpose(1, 2)
    if width == query.shape[-1]:
        return torch.empty_like(query)
    return query.new_empty((*query.shape[:-1], width))


def forward(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
            bias: Optional[Tensor], sinks: Optional[Tensor], options: Options, *, lse: bool,
            weights: bool, heads_last: bool = False,
            average_weights: bool = False) -> tuple[Tensor, ...]:
    """(out, weights if wanted, lse if wanted), of tensors without a graph."""
    further = extension_options(options)
    if weights:
        further["weights"] = True
        if options.dropped_weights:
            further["dropped_weights"] = True
        if average_weights:
            further["average_weights"] = True
    if options.query_starts is not None:  # rows outside of all sequences are not written
        out = output_like(query, value, heads_last).zero_()
        further["out"] = out
        if lse:
            further["lse"] = query.new_full(query.shape[:-1], -torch.inf, dtype=torch.float32)
    elif heads_last:
        further["out"] = output_like(query, value, True)
    if lse:
        further.setdefault("lse", True)
    if sinks is not None:
        further["sinks"] = sinks
    found = _multihead.attention(query, key, value, masks_of(mask, bias), **further)
    return found if isinstance(found, tuple) else (found,)


def backward(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
             bias: Optional[Tensor], sinks: Optional[Tensor], options: Options, out: Tensor,
             lse: Tensor, dout: Tensor, wanted: list[bool]) -> list[Optional[Tensor]]:
    """The gradients of query, key, value, mask, bias and sinks, None where not wanted."""
    packed = options.query_starts is not None
    empty_like = torch.zeros_like if packed else torch.empty_like
    found: list[Optional[Tensor]] = [
        empty_like(x) if want else None for x, want in zip((query, key, value), wanted)]
    for x, want in zip((mask, bias), wanted[3:5]):
        found.append(torch.empty(x.shape, dtype=torch.float32)
                     if want and x is not None else None)
    found.append(torch.empty_like(sinks) if wanted[5] and sinks is not None else None)
    of_masks = tuple(g for x, g in zip((mask, bias), found[3:5]) if x is not None)
    _multihead.attention_backward(query, key, value, out, lse, dout, masks_of(mask, bias),
                                  sinks=sinks, gradients=(*found[:3], found[5], *of_masks),
                                  **extension_options(options))
    for i, x in ((3, mask), (4, bias)):
        g = found[i]
        if g is not None and x is not None:
            found[i] = g.to(x.dtype)
    return found
