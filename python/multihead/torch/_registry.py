# SPDX-License-Identifier: MIT
"""PyTorch's own attention on these kernels, by PyTorch's registry of implementations.

``aten::_scaled_dot_product_flash_attention_for_cpu`` and its backward are replaced together: the
logsumexp that one returns is what the other reads. It has PyTorch's convention, so that a graph
that was built while active may be differentiated after ``restore``, and the other way round.
"""
from __future__ import annotations

import threading
import warnings
from types import TracebackType
from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn import attention as torch_attention

from .. import _multihead
from ._calls import COMPUTED, MAX_HEAD_DIM

NAME = "multihead"
_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"
_lock = threading.Lock()


def _options(is_causal: bool, scale: Optional[float]) -> dict[str, Any]:
    found: dict[str, Any] = {"causal": "top-left"} if is_causal else {}
    if scale is not None:
        found["scale"] = scale
    return found


def _is_computed(dropout: float, mask: Optional[Tensor], *tensors: Tensor) -> bool:
    return (dropout == 0 and all(x.dtype in COMPUTED for x in tensors)
            and (mask is None or mask.dtype in COMPUTED or mask.dtype is torch.bool)
            and tensors[0].numel() > 0 and tensors[1].numel() > 0
            and tensors[0].shape[-1] <= MAX_HEAD_DIM)


class _Handle:
    """The replaced kernels, until it is removed: what PyTorch's registry keeps."""

    def __init__(self) -> None:
        # The kernels that compute what this package does not.
        self._forward = torch.library.get_kernel(f"aten::{_FORWARD}", "CPU")
        self._backward = torch.library.get_kernel(f"aten::{_BACKWARD}", "CPU")
        self.library: Optional[torch.library.Library] = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():  # that a kernel is replaced, which is what was asked for
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            self.library.impl(_FORWARD, self.forward, "CPU", with_keyset=True)
            self.library.impl(_BACKWARD, self.backward, "CPU", with_keyset=True)

    def remove(self) -> None:
        if self.library is not None:
            self.library._destroy()
            self.library = None

    def forward(self, keys: Any, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0,
                is_causal: bool = False, *, attn_mask: Optional[Tensor] = None,
                scale: Optional[float] = None) -> tuple[Tensor, Tensor]:
        if not _is_computed(dropout_p, attn_mask, query, key, value):
            other: tuple[Tensor, Tensor] = self._forward.call_boxed(
                keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
            return other
        batch, heads, rows, _ = query.shape
        lse = torch.empty((batch, rows, heads)).transpose(1, 2)
        out, lse = _multihead.attention(query, key, value, attn_mask, lse=lse,
                                        **_options(is_causal, scale))
        if attn_mask is not None:
            lse.masked_fill_(lse == -torch.inf, 0)  # as PyTorch has it for a row without a key
        return out, lse

    def backward(self, keys: Any, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor,
                 out: Tensor, logsumexp: Tensor, dropout_p: float, is_causal: bool, *,
                 attn_mask: Optional[Tensor] = None,
                 scale: Optional[float] = None) -> tuple[Tensor, Tensor, Tensor]:
        if not _is_computed(dropout_p, attn_mask, query, key, value, grad_out):
            other: tuple[Tensor, Tensor, Tensor] = self._backward.call_boxed(
                keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal,
                attn_mask=attn_mask, scale=scale)
            return other
        dq, dk, dv = (torch.empty_permuted(x.shape, (0, 2, 1, 3), dtype=x.dtype)
                      for x in (query, key, value))
        masks = () if attn_mask is None else (None,)
        _multihead.attention_backward(query, key, value, out, logsumexp, grad_out, attn_mask,
                                      gradients=(dq, dk, dv, None, *masks),
                                      **_options(is_causal, scale))
        return dq, dk, dv


class Activation:
    """What :func:`activate` returns: ``with activate(): ...`` restores PyTorch's kernels at the end
    if they were in place at the beginning."""

    def __init__(self, was_active: bool) -> None:
        self._was_active = was_active

    def __enter__(self) -> Activation:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if not self._was_active:
            restore()


def is_active() -> bool:
    """Whether torch.nn.functional's attention runs on these kernels.

    >>> import multihead.torch as mht
    >>> mht.is_active()
    False
    """
    return torch_attention.current_flash_attention_impl() == NAME


def activate() -> Activation:
    """Runs unmodified PyTorch programs on these kernels, forward and backward.

    ``torch.nn.functional.scaled_dot_product_attention`` comes here wherever PyTorch would choose
    its flash kernel for the CPU: four dimensions, E = Ev, no dropout, no gradient of the mask.
    Other calls, float64 among them, run PyTorch's own kernels as before, and so does the inference
    path of nn.MultiheadAttention and nn.TransformerEncoderLayer: see :func:`accelerate`. Calling it
    again changes nothing; as a context manager it ends with its block.

    >>> import torch, multihead.torch as mht
    >>> q = torch.ones(1, 2, 3, 4)
    >>> with mht.activate():
    ...     mht.is_active(), torch.nn.functional.scaled_dot_product_attention(q, q, q).shape
    (True, torch.Size([1, 2, 3, 4]))
    >>> mht.is_active()
    False
    """
    with _lock:
        was_active = is_active()
        if not was_active:
            torch_attention.register_flash_attention_impl(NAME, register_fn=_Handle)
            torch_attention.activate_flash_attention_impl(NAME)
        return Activation(was_active)


def restore() -> None:
    """Puts PyTorch's kernels back; nothing happens if they are in place.

    >>> import multihead.torch as mht
    >>> _ = mht.activate()
    >>> mht.restore(); mht.restore()
    >>> mht.is_active()
    False
    """
    with _lock:
        if is_active():
            torch_attention.restore_flash_attention_impl()
