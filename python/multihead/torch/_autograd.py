# SPDX-License-Identifier: MIT
"""Attention with gradients, in eager mode."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _weights_gradient
from ._calls import Options, backward, forward


def add_gradients(a: list[Optional[Tensor]], b: list[Optional[Tensor]]) -> list[Optional[Tensor]]:
    return [y if x is None else x if y is None else x + y for x, y in zip(a, b)]


class Attention(torch.autograd.Function):
    """(out, weights or None, lse) of (query, key, value, mask, bias, sinks).

    Backward recomputes the scores from lse, so that O(T + S) is kept.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
                bias: Optional[Tensor], sinks: Optional[Tensor], options: Options, weights: bool,
                heads_last: bool) -> tuple[Tensor, Optional[Tensor], Tensor]:
        found = forward(query, key, value, mask, bias, sinks, options, lse=True, weights=weights,
                        heads_last=heads_last)
        out, lse = found[0], found[-1]
        w = found[1] if weights else None
        ctx.save_for_backward(query, key, value, mask, bias, sinks, out, lse, w)
        ctx.options = options
        ctx.set_materialize_grads(False)
        return out, w, lse

    @staticmethod
    def backward(ctx: Any, dout: Optional[Tensor], dweights: Optional[Tensor],
                 dlse: Optional[Tensor]) -> tuple[Any, ...]:
        query, key, value, mask, bias, sinks, out, lse, w = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:6])
        inputs = (query, key, value, mask, bias, sinks, ctx.options)
        found: list[Optional[Tensor]] = [None] * 6
        if dout is not None and torch.is_grad_enabled():  # create_graph: an operator that refuses
            filled = torch.ops.multihead.attention_backward(
                *inputs[:6], *ctx.options, out, lse, dout, wanted)
            found = [x if want else None for x, want in zip(filled, wanted)]
        elif dout is not None:
            found = backward(*inputs, out, lse, dout, wanted)
        if dweights is not None or dlse is not None:
            p = w if w is not None and not ctx.options.dropped_weights else forward(
                *inputs[:6], ctx.options._replace(dropout=0.0), lse=False, weights=True)[1]
            found = add_gradients(found, _weights_gradient.gradients(
                *inputs, p, lse, w, dweights, dlse, wanted))
        return (*found, None, None, None)
