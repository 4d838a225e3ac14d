# SPDX-License-Identifier: MIT
"""torch.ops.multihead.attention and attention_backward: what torch.compile, torch.export, function
transforms and dispatch modes see. They cost 16 to 74 us per call, which is why eager calls do not
take this way."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _weights_gradient
from ._autograd import add_gradients
from ._calls import Options, backward, forward, output_like

# The fields of Options, as both operators have them.
_OPTIONS = (
    "Tensor? alibi, Tensor? key_lengths, Tensor? prefix_lengths, Tensor? query_documents, "
    "Tensor? key_documents, Tensor? query_starts, Tensor? key_starts, Tensor? seed, "
    "float dropout, str causal, SymInt offset, SymInt window_left, SymInt window_right, "
    "float? scale, float softcap, str precision, str empty_row, bool dropped_weights")
_INPUTS = ("Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? bias, Tensor? sinks, "
           + _OPTIONS)
_COUNT = 6 + len(Options._fields)

library = torch.library.Library("multihead", "DEF")
library.define(f"attention({_INPUTS}, bool weights) -> (Tensor out, Tensor lse, Tensor weights)",
               tags=(torch.Tag.pt2_compliant_tag,))
library.define(f"attention_backward({_INPUTS}, Tensor out, Tensor lse, Tensor dout, bool[] wanted)"
               " -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))


def _no_weights(query: Tensor) -> Tensor:
    return query.new_empty((0,), dtype=torch.float32)


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
               bias: Optional[Tensor], sinks: Optional[Tensor],
               *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    weights = bool(rest[-1])
    found = forward(query, key, value, mask, bias, sinks, Options(*rest[:-1]), lse=True,
                    weights=weights)
    return found[0], found[-1], found[1] if weights else _no_weights(query)


def _attention_fake(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
                    bias: Optional[Tensor], sinks: Optional[Tensor],
                    *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    out = output_like(query, value, False)
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32)
    weights = query.new_empty((*query.shape[:-1], key.shape[-2]), dtype=torch.float32)
    return out, lse, weights if rest[-1] else _no_weights(query)


def _fill(found: list[Optional[Tensor]], query: Tensor) -> list[Tensor]:
    return [query.new_empty((0,)) if x is None else x for x in found]


def _backward(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
              bias: Optional[Tensor], sinks: Optional[Tensor], *rest: Any) -> list[Tensor]:
    options, (out, lse, dout, wanted) = Options(*rest[:-4]), rest[-4:]
    return _fill(backward(query, key, value, mask, bias, sinks, options, out, lse, dout,
                          list(wanted)), query)


def _backward_fake(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
                   bias: Optional[Tensor], sinks: Optional[Tensor], *rest: Any) -> list[Tensor]:
    found: list[Optional[Tensor]] = []
    for i, (x, want) in enumerate(zip((query, key, value, mask, bias, sinks), rest[-1])):
        if not want or x is None:
            found.append(None)
        else:
            found.append(x.new_empty(x.shape) if i in (3, 4) else torch.empty_like(x))
    return _fill(found, query)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
    ctx.save_for_backward(*(inputs[i] for i in tensors), *output)
    ctx.tensors = tensors
    ctx.others = [None if isinstance(x, Tensor) else x for x in inputs]
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor],
               dweights: Optional[Tensor]) -> tuple[Any, ...]:
    inputs = list(ctx.others)
    for i, x in zip(ctx.tensors, ctx.saved_tensors):
        inputs[i] = x
    out, lse, w = ctx.saved_tensors[-3:]
    wanted = list(ctx.needs_input_grad[:6])
    has_weights = inputs[-1]
    found: list[Optional[Tensor]] = [None] * 6
    if dout is not None:
        filled = torch.ops.multihead.attention_backward(*inputs[:-1], out, lse, dout, wanted)
        found = [x if want else None for x, want in zip(filled, wanted)]
    if (dweights is not None and has_weights) or dlse is not None:
        options = Options(*inputs[6:-1])
        p = w
        if not has_weights or options.dropped_weights:
            p = torch.ops.multihead.attention(*inputs[:6], *options._replace(dropout=0.0), True)[2]
        q, k, v, mask, bias, sinks = inputs[:6]
        found = add_gradients(found, _weights_gradient.gradients(
            q, k, v, mask, bias, sinks, options, p, lse, w, dweights if has_weights else None, dlse,
            wanted))
    return (*found, *([None] * (len(inputs) - 6)))


def _twice(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
    raise RuntimeError("multihead: found a gradient of attention's gradient, expected first-order "
                       "gradients only (create_graph=False)")


library.impl("attention", _attention, "CPU")
library.impl("attention_backward", _backward, "CPU")
torch.library.register_fake("multihead::attention", _attention_fake, lib=library)
torch.library.register_fake("multihead::attention_backward", _backward_fake, lib=library)
torch.library.register_autograd("multihead::attention", _gradients, setup_context=_setup_context,
                                lib=library)
torch.library.register_autograd("multihead::attention_backward", _twice, lib=library)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
              bias: Optional[Tensor], sinks: Optional[Tensor], options: Options,
              weights: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(out, lse, weights or an empty tensor) by the operator."""
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.multihead.attention(
        query, key, value, mask, bias, sinks, *options, weights)
    return found
