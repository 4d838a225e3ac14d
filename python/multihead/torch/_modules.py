# SPDX-License-Identifier: MIT
"""nn.MultiheadAttention and nn.TransformerEncoderLayer on these kernels, and accelerate, which turns
PyTorch's own into them.

A module keeps its identity, parameters, buffers and hooks: only its class changes. Projections,
norms and feed-forward networks stay PyTorch's, as they are the optimiser's.
"""
from __future__ import annotations

from typing import NamedTuple, Optional, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._attention import attend, draw_seed
from ._calls import COMPUTED, MAX_HEAD_DIM, Options

M = TypeVar("M", bound=nn.Module)


_CAUSAL = Options(causal="top-left", dropped_weights=True)
_UNMASKED = Options(dropped_weights=True)


def _is_dense(x: Tensor) -> bool:
    return x.dtype in COMPUTED and x.is_cpu and not x.is_nested and x.numel() > 0


class _Heads(NamedTuple):
    """Projected queries, keys and values, (B, H, T, E) and (B, H, S, E)."""

    q: Tensor
    k: Tensor
    v: Tensor


def _allowed(mask: Tensor, batch: int, heads: int) -> Tensor:
    """attn_mask (T, S) or (B * H, T, S) as attention takes it: True where a query may attend."""
    if mask.dim() == 3 and mask.shape[0] != 1:
        mask = mask.unflatten(0, (batch, heads))
    return mask.logical_not() if mask.dtype == torch.bool else mask


def _padding(mask: Tensor) -> Tensor:
    """key_padding_mask (B, S), or (S) of one sequence, the same way."""
    mask = mask.reshape(-1, 1, 1, mask.shape[-1])
    return mask.logical_not() if mask.dtype == torch.bool else mask


def _widen(mask: Tensor, columns: int) -> Tensor:
    """Columns for keys that are added: nothing masks them."""
    if not columns:
        return mask
    return F.pad(mask, (0, columns), value=mask.dtype == torch.bool)


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention on these kernels: its arguments, parameters and results.

    A row without a key gets weights of 0, where PyTorch's has NaN with ``need_weights``. With
    ``is_causal``, ``attn_mask`` is taken to be the causal mask, as PyTorch's hint says. float64,
    nested tensors and other devices run PyTorch's own code.

    >>> import torch, multihead.torch as mht
    >>> mha = mht.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.ones(1, 3, 8)
    >>> out, weights = mha(x, x, x)
    >>> out.shape, weights[0, 0]
    (torch.Size([1, 3, 8]), tensor([0.3333, 0.3333, 0.3333], grad_fn=<SelectBackward0>))
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor,
                key_padding_mask: Optional[Tensor] = None, need_weights: bool = True,
                attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Optional[Tensor]]:
        if not self._is_computed(query, key, value):
            found: tuple[Tensor, Optional[Tensor]] = super().forward(
                query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
                is_causal)
            return found
        batched = query.dim() == 3
        if attn_mask is not None or key_padding_mask is not None or not batched:
            F._mha_shape_check(  # type: ignore[attr-defined]
                query, key, value, key_padding_mask, attn_mask, self.num_heads)
        first = self.batch_first or not batched  # whether the batch comes before the length
        x, added = self._add_keys(self._project(query, key, value, first))
        mask, padding = None, None
        if attn_mask is not None and not is_causal:
            mask = _widen(_allowed(attn_mask, x.q.shape[0], self.num_heads), added)
        if key_padding_mask is not None:
            padding = _widen(_padding(key_padding_mask), added)
        out, weights, _ = attend(*x, mask, padding, None, self._options(is_causal),
                                 weights=need_weights, average_weights=average_attn_weights)
        out = out.permute(0, 2, 1, 3) if first else out.permute(2, 0, 1, 3)
        projection = self.out_proj
        out = F.linear(out.flatten(2), projection.weight, projection.bias)
        if weights is not None and weights.dtype != out.dtype:
            weights = weights.to(out.dtype)
        if batched:
            return out, weights
        return out.squeeze(0), None if weights is None else weights.squeeze(0)

    def _is_computed(self, query: Tensor, key: Tensor, value: Tensor) -> bool:
        if not (_is_dense(query) and self.head_dim <= MAX_HEAD_DIM):
            return False
        return query is key is value or (_is_dense(key) and _is_dense(value))

    def _options(self, is_causal: bool) -> Options:
        if self.training and self.dropout:
            return Options(dropout=self.dropout, seed=draw_seed(),
                           causal="top-left" if is_causal else "none", dropped_weights=True)
        return _CAUSAL if is_causal else _UNMASKED

    def _project(self, query: Tensor, key: Tensor, value: Tensor, first: bool) -> _Heads:
        """The heads as views of the projections: nothing is copied. Without a batch it is 1."""
        width, bias, heads = self.embed_dim, self.in_proj_bias, (self.num_heads, self.head_dim)
        same = self._qkv_same_embed_dim
        parts: tuple[Tensor, ...]
        order: tuple[int, ...]
        if same and query is key is value:
            packed = F.linear(query, self.in_proj_weight, bias)
            packed = packed if packed.dim() == 3 else packed.unsqueeze(0)
            order = (2, 0, 3, 1, 4) if first else (2, 1, 3, 0, 4)
            return _Heads(*packed.view(*packed.shape[:2], 3, *heads).permute(order).unbind(0))
        if same and key is value:
            weight = self.in_proj_weight
            q = F.linear(query, weight[:width], None if bias is None else bias[:width])
            kv = F.linear(key, weight[width:], None if bias is None else bias[width:])
            parts = (q, *kv.split(width, -1))
        else:
            weights = (self.in_proj_weight.split(width) if same else
                       (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight))
            biases = (None,) * 3 if bias is None else bias.split(width)
            parts = tuple(F.linear(x, w, b)
                          for x, w, b in zip((query, key, value), weights, biases))
        parts = tuple(x if x.dim() == 3 else x.unsqueeze(0) for x in parts)
        order = (0, 2, 1, 3) if first else (1, 2, 0, 3)
        return _Heads(*(x.view(*x.shape[:2], *heads).permute(order) for x in parts))

    def _add_keys(self, x: _Heads) -> tuple[_Heads, int]:
        """The keys of add_bias_kv and add_zero_attn behind the others, and how many."""
        if self.bias_k is None and not self.add_zero_attn:
            return x, 0
        further: list[tuple[Tensor, Tensor]] = []
        shape = (x.k.shape[0], self.num_heads, 1, self.head_dim)
        if self.bias_k is not None and self.bias_v is not None:
            further.append((self.bias_k.view(1, *shape[1:]).expand(shape),
                            self.bias_v.view(1, *shape[1:]).expand(shape)))
        if self.add_zero_attn:
            zeros = x.k.new_zeros(shape)
            further.append((zeros, zeros))
        keys, values = zip(*further)
        return _Heads(x.q, torch.cat((x.k, *keys), 2), torch.cat((x.v, *values), 2)), len(further)


class TransformerEncoderLayer(nn.TransformerEncoderLayer):
    """torch.nn.TransformerEncoderLayer that calls its attention where PyTorch's would take its
    inference path, which calls no module.

    >>> import torch, multihead.torch as mht
    >>> layer = mht.accelerate(torch.nn.TransformerEncoderLayer(8, 2, batch_first=True))
    >>> type(layer) is mht.TransformerEncoderLayer, layer(torch.ones(1, 3, 8)).shape
    (True, torch.Size([1, 3, 8]))
    """

    def forward(self, src: Tensor, src_mask: Optional[Tensor] = None,
                src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False) -> Tensor:
        if src.is_nested or not src.is_cpu or src.dtype not in COMPUTED:
            found: Tensor = super().forward(src, src_mask, src_key_padding_mask, is_causal)
            return found
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        normed: Tensor = self.norm2(x + self._ff_block(x))
        return normed


_CLASSES: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: MultiheadAttention,
    nn.TransformerEncoderLayer: TransformerEncoderLayer,
}


def accelerate(module: M) -> M:
    """Puts the attention of a module and of all modules in it on these kernels, and returns it.

    Every nn.MultiheadAttention and nn.TransformerEncoderLayer, also inside nn.TransformerEncoder,
    nn.TransformerDecoderLayer, nn.TransformerDecoder and nn.Transformer, gets the class of the same
    name of this package, in place, as ``module.to()`` changes a module: parameters are the same
    objects, so that optimisers, ``state_dict`` and hooks go on working. Subclasses of them and
    other modules are left alone; what is not computed here (float64, other devices, nested
    tensors) runs PyTorch's own code. Encoders do not cut padding out by nested tensors then:
    padded positions are computed as in training.

    >>> import torch, multihead.torch as mht
    >>> model = torch.nn.Transformer(8, 2, 1, 1, 16)
    >>> model = mht.accelerate(model)
    >>> type(model.decoder.layers[0].multihead_attn)
    <class 'multihead.torch.MultiheadAttention'>
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: found {type(module).__name__}, expected torch.nn.Module")
    for part in module.modules():
        ours = _CLASSES.get(type(part))
        if ours is not None:
            part.__class__ = ours
        if isinstance(part, nn.TransformerEncoder):
            part.use_nested_tensor = False
    return module


for _class in _CLASSES.values():  # one name each, as users import them
    _class.__module__ = "multihead.torch"
