# SPDX-License-Identifier: MIT
"""Gradients that come through the weights and the lse, where a loss uses these.

They are rare (a penalty on attention weights, distillation), and the kernels' backward takes the
gradient of `out` only. With P the weights before dropout, dW and dlse the gradients that came in,

    dS = P * (dW - rowsum(dW * P) + dlse)

is the gradient of the scores, which goes to all inputs. Written with PyTorch's operations.
"""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from ._calls import Options


def _scores_before_cap(query: Tensor, key: Tensor, scale: float) -> Tensor:
    return torch.matmul(query.float(), key.float().transpose(-2, -1)) * scale


def _sum_to(gradient: Tensor, like: Tensor) -> Tensor:
    return gradient.sum_to_size(like.shape).to(like.dtype)


def gradients(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
              bias: Optional[Tensor], sinks: Optional[Tensor], options: Options,
              probabilities: Tensor, lse: Tensor, weights: Optional[Tensor],
              dweights: Optional[Tensor], dlse: Optional[Tensor],
              wanted: list[bool]) -> list[Optional[Tensor]]:
    """What to add to the gradients of query, key, value, mask, bias and sinks.

    `probabilities` are the weights before dropout, `weights` what was returned.
    """
    groups = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    repeated = key.repeat_interleave(groups, dim=-3) if groups > 1 else key
    scale = query.shape[-1] ** -0.5 if options.scale is None else options.scale
    through = torch.zeros_like(lse) if dlse is None else dlse.float()
    ds = torch.zeros_like(probabilities)
    if dweights is not None:
        dp = dweights.float()
        if options.dropped_weights and options.dropout and weights is not None:
            dp = torch.where(weights != 0, dp / (1 - options.dropout), 0.0)
        ds = dp
        through = through - (dp * probabilities).sum(-1)
    ds = probabilities * (ds + through.unsqueeze(-1))
    found: list[Optional[Tensor]] = [None] * 6
    for i, x in ((3, mask), (4, bias)):
        if wanted[i] and x is not None:
            found[i] = _sum_to(ds, x)
    if wanted[5] and sinks is not None:
        sink = torch.exp(sinks.view(-1, 1) - lse)  # the sink's own weight
        found[5] = (sink * through).reshape(-1, *lse.shape[-2:]).sum((0, 2)).to(sinks.dtype)
    if options.softcap:
        x = torch.tanh(_scores_before_cap(query, repeated, scale) / options.softcap)
        ds = ds * (1 - x * x)
    ds = ds * scale
    if wanted[0]:
        found[0] = torch.matmul(ds, repeated.float()).to(query.dtype)
    if wanted[1]:
        dk = torch.matmul(ds.transpose(-2, -1), query.float())
        if groups > 1:
            dk = dk.unflatten(-3, (-1, groups)).sum(-3)
        found[1] = dk.to(key.dtype)
    return found
