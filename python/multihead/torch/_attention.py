# SPDX-License-Identifier: MIT
"""scaled_dot_product_attention for PyTorch's tensors.

A call goes one of three ways: straight to the extension if no gradient is needed and nothing is
traced, through an autograd function if one is, and through a custom operator under torch.compile,
torch.export, dispatch modes and for subclasses of Tensor.
"""
from __future__ import annotations

from typing import Callable, Literal, Optional, TypedDict, Union, Unpack, overload

import torch
from torch import Tensor

from .. import _multihead
from . import _ops
from ._autograd import Attention
from ._calls import Options, forward, output_like

_attention: Callable[..., Tensor] = _multihead.attention
_is_compiling = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_transform_level = torch._C._functorch.maybe_current_level
_dispatch_modes = torch._C._len_torch_dispatch_stack
_is_tracing = torch._C._is_tracing
_is_autocast = torch._C._is_any_autocast_enabled
_PLAIN = frozenset((Tensor, torch.nn.Parameter))  # types whose operations nobody overrides


def is_traced() -> bool:
    """Whether operations are recorded, so that they have to be operators."""
    if _transform_level() is not None:
        raise NotImplementedError(
            "multihead: found a transform of torch.func, expected none: they work with PyTorch's "
            "own scaled_dot_product_attention after multihead.torch.activate()")
    return _is_compiling() or _dispatch_modes() > 0 or _is_tracing()


def _needs_grad(*tensors: Optional[Tensor]) -> bool:
    if _is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                return True
    return False


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """As PyTorch's own attention: in the lower precision under autocast."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(x if x.dtype == torch.float64 else x.to(dtype) for x in tensors)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor] = None,
           bias: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
           options: Options = Options(), *, weights: bool = False, lse: bool = False,
           heads_last: bool = False, average_weights: bool = False,
           ) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """(out, weights or None, lse or None), by whichever way the call has to go.

    `heads_last`: out (B, H, T, Ev) is a view of contiguous (B, T, H, Ev). `average_weights`: those
    of (B, H, T, E) are (B, T, S), the mean over heads.
    """
    w: Optional[Tensor]
    if is_traced() or type(query) not in _PLAIN or type(key) not in _PLAIN \
            or type(value) not in _PLAIN:
        out, found_lse, w = _ops.attention(query, key, value, mask, bias, sinks, options, weights)
        if heads_last:
            out = out.transpose(1, 2).contiguous().transpose(1, 2)
    elif _needs_grad(query, key, value, mask, bias, sinks):
        out, w, found_lse = Attention.apply(  # type: ignore[no-untyped-call]
            query, key, value, mask, bias, sinks, options, weights, heads_last)
    else:
        results = forward(query, key, value, mask, bias, sinks, options, lse=lse, weights=weights,
                          heads_last=heads_last, average_weights=average_weights)
        return results[0], results[1] if weights else None, results[-1] if lse else None
    if not weights or w is None:
        w = None
    elif average_weights:
        w = w.mean(1)
    return out, w, found_lse if lse else None


def draw_seed() -> Tensor:
    """A seed from PyTorch's generator: torch.manual_seed makes dropout reproducible."""
    return torch.randint(0, 2**62, (), dtype=torch.int64)


def _broadcast(query: Tensor, key: Tensor, value: Tensor,
               mask: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
    """Leading dimensions as PyTorch broadcasts them; more than two are made one."""
    rank = max(query.dim(), key.dim(), value.dim())
    if min(query.dim(), key.dim(), value.dim()) < 2:
        return query, key, value, mask  # the extension names the one that is wrong
    if rank <= 4 and query.dim() == key.dim() == value.dim() and \
            query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
        return query, key, value, mask
    kept = 3 if rank > 2 else 2  # heads may differ: grouped queries
    lead = torch.broadcast_shapes(*(x.shape[:-kept] for x in (query, key, value)))
    shapes = [(*(1,) * (kept - x.dim()), *x.shape[-kept:]) for x in (query, key, value)]
    if mask is not None and mask.dim() > 4:
        shape = torch.broadcast_shapes(mask.shape[:-3], lead)
        mask = mask.expand(*shape, *mask.shape[-3:]).reshape(-1, *mask.shape[-3:])
    q, k, v = (x.reshape(*(1,) * (kept - x.dim()), *x.shape).expand(*lead, *shape)
               .reshape(-1, *shape[-3:])
               for x, shape in zip((query, key, value), shapes))
    return q, k, v, mask


def _options(dropout_p: float, is_causal: bool, scale: Optional[float],
             further: Further) -> Options:
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p: found {dropout_p}, expected 0 to 1")
    causal = further.get("causal")
    if is_causal and causal is not None:
        raise ValueError("is_causal and causal: found both, expected one of them")
    rule, offset = "top-left" if is_causal else "none", 0
    if isinstance(causal, str):
        rule = causal
    elif causal is not None:
        rule, offset = "offset", causal
    window = further.get("window")
    left, right = window if window is not None else (None, None)
    alibi = further.get("alibi")
    slopes: Optional[Tensor] = None
    if alibi is not None and alibi is not False:
        slopes = torch.empty(0) if alibi is True else alibi
    return Options(alibi=slopes, key_lengths=further.get("key_lengths"),
                   prefix_lengths=further.get("prefix_lengths"),
                   query_documents=further.get("query_documents"),
                   key_documents=further.get("key_documents"),
                   query_starts=further.get("query_starts"), key_starts=further.get("key_starts"),
                   dropout=float(dropout_p), seed=draw_seed() if 0 < dropout_p < 1 else None,
                   causal=rule, offset=offset, window_left=-1 if left is None else left,
                   window_right=-1 if right is None else right, scale=scale,
                   softcap=further.get("softcap") or 0.0,
                   precision=further.get("precision", "auto"))


Result = Union[Tensor, tuple[Tensor, ...]]


class Further(TypedDict, total=False):
    """Options that PyTorch's attention does not have."""

    bias: Optional[Tensor]
    causal: Union[None, str, int]
    window: Optional[tuple[Optional[int], Optional[int]]]
    softcap: Optional[float]
    sinks: Optional[Tensor]
    alibi: Union[None, bool, Tensor]
    key_lengths: Optional[Tensor]
    prefix_lengths: Optional[Tensor]
    query_documents: Optional[Tensor]
    key_documents: Optional[Tensor]
    query_starts: Optional[Tensor]
    key_starts: Optional[Tensor]
    precision: str


_FURTHER = frozenset(Further.__annotations__)


@overload
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
    enable_gqa: bool = False, weights: Literal[False] = False, lse: Literal[False] = False,
    **further: Unpack[Further]) -> Tensor: ...


@overload
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
    enable_gqa: bool = False, weights: bool = False, lse: bool = False,
    **further: Unpack[Further]) -> Result: ...


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
    enable_gqa: bool = False, weights: bool = False, lse: bool = False,
    **further: Unpack[Further]) -> Result:
    """softmax(scale * query key^T + mask) value, as torch.nn.functional's, and more.

    The arguments up to ``enable_gqa`` are PyTorch's, with the same meaning: query (..., T, E), key
    (..., S, E), value (..., S, Ev); a bool mask is True where a query may attend, a float mask is
    added. float32, bfloat16 and float16 on the CPU. Grouped queries need no ``enable_gqa``, and a
    mask may be given together with ``is_causal``: both hold. A query without a key gets 0.

    Further options: ``bias`` is added as a float ``attn_mask`` is, beside one. ``causal`` is
    "top-left", "bottom-right" or an offset, instead of ``is_causal``. ``window`` (left, right)
    limits the keys of a query, None without limit. ``softcap`` c gives c tanh(score / c).
    ``sinks`` (H) adds exp(sink) to a head's softmax sum. ``alibi`` is True for the published slopes
    or a tensor (H). ``key_lengths``, ``prefix_lengths`` (B), ``query_documents`` (B, T) and
    ``key_documents`` (B, S), ``query_starts`` and ``key_starts`` (packed sequences, of int64) are
    those of :func:`multihead.attention`.

    Returns out (..., T, Ev), or a tuple of it and those of ``weights`` (..., T, S; before dropout)
    and ``lse`` (..., T) that are asked for. Everything that is returned is differentiable once, in
    query, key, value, a float mask, bias and sinks. Dropout takes its seed from PyTorch's
    generator: ``torch.manual_seed`` makes it reproducible, with other elements than PyTorch's.

    >>> import torch, multihead.torch as mht
    >>> q, k, v = (torch.ones(1, 2, 3, 4) for _ in range(3))
    >>> mht.scaled_dot_product_attention(q, k, v, is_causal=True).shape
    torch.Size([1, 2, 3, 4])
    >>> out, w = mht.scaled_dot_product_attention(q, k, v, window=(1, 0), weights=True)
    >>> w[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.5000, 0.5000]])
    """
    if not (further or weights or lse or dropout_p) \
            and type(query) is type(key) is type(value) is Tensor and not _is_compiling() \
            and _transform_level() is None and not _dispatch_modes() and not _is_tracing() \
            and not _is_autocast():
        gradients = _is_grad_enabled() and (
            query.requires_grad or key.requires_grad or value.requires_grad
            or (attn_mask is not None and attn_mask.requires_grad))
        try:
            if gradients:
                if query.dim() > 4:
                    raise ValueError  # one batch dimension is made of several below
                found: Tensor = Attention.apply(  # type: ignore[no-untyped-call]
                    query, key, value, attn_mask, None, None, _plain(is_causal, scale), False,
                    False)[0]
                return found
            if is_causal:
                return _attention(query, key, value, attn_mask, causal="top-left", scale=scale)
            if scale is not None:
                return _attention(query, key, value, attn_mask, scale=scale)
            return _attention(query, key, value, attn_mask)
        except ValueError:  # perhaps shapes that PyTorch broadcasts
            if query.shape[:-3] == key.shape[:-3] == value.shape[:-3] and query.dim() <= 4:
                raise
    return _general(query, key, value, attn_mask, dropout_p, is_causal, scale, weights, lse, further)


_UNMASKED, _CAUSAL = Options(), Options(causal="top-left")


def _plain(is_causal: bool, scale: Optional[float]) -> Options:
    if scale is None:
        return _CAUSAL if is_causal else _UNMASKED
    return Options(causal="top-left" if is_causal else "none", scale=scale)


def _general(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor],
             dropout_p: float, is_causal: bool, scale: Optional[float], weights: bool, lse: bool,
             further: Further) -> Result:
    """Any options, shapes that are broadcast, autocast and traced calls."""
    for name in further:
        if name not in _FURTHER:
            raise TypeError(f"scaled_dot_product_attention() has no argument '{name}'")
    options = _options(dropout_p, is_causal, scale, further)
    query, key, value = _autocast(query, key, value)
    shape = query.shape
    q, k, v, mask = _broadcast(query, key, value, attn_mask)
    sinks = further.get("sinks")
    if sinks is not None:
        sinks = sinks.float().contiguous()
    drop_all = dropout_p == 1
    out, w, found_lse = attend(q, k, v, mask, further.get("bias"), sinks,
                               options._replace(dropout=0.0) if drop_all else options,
                               weights=weights, lse=lse)
    if drop_all:
        out = out * 0
    results = [x for x in (out, w, found_lse) if x is not None]
    if q is not query:
        lead = torch.broadcast_shapes(shape[:-3], key.shape[:-3], value.shape[:-3])
        heads = shape[-3:-2] if len(shape) > 2 else q.shape[-3:-2] if lead or q.dim() > 2 else ()
        results = [x.reshape(*lead, *heads, *x.shape[q.dim() - 2:]) for x in results]
    return results[0] if len(results) == 1 else tuple(results)


__all__ = ["scaled_dot_product_attention", "attend", "draw_seed", "is_traced", "output_like"]
