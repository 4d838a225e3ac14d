# SPDX-License-Identifier: MIT
"""Modules with parameters: what all have in common, and multi-head attention."""
from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from . import _multihead
from .files import load_file, save_file
from .kv_cache import KVCache
from .training import Tape

if TYPE_CHECKING:
    from typing import Unpack

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

M = TypeVar("M", bound="Module")

_seeds: Iterator[int] = itertools.count()


def manual_seed(seed: int) -> None:
    """Seeds the modules that are created from now on: their values and their dropout.

    >>> import multihead as mh
    >>> mh.manual_seed(1); a = mh.MultiheadAttention(4, 2)
    >>> mh.manual_seed(1); b = mh.MultiheadAttention(4, 2)
    >>> bool((a.values == b.values).all())
    True
    """
    global _seeds
    _seeds = itertools.count((seed % 2**31) << 32)


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` did not find, and did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class CallOptions(TypedDict, total=False):
    """Options of every module's `forward`, by name."""

    tape: Tape | None  # records the pass for tape.backward()
    seed: int | None  # of dropout; None: the module's own
    step: int | None  # of dropout, with the seed; None: one more with each call


def _loadable(value: Any) -> Any:
    """A tensor in an own dtype: PyTorch's float64 is rounded, as torch's own copy does."""
    return value.float() if str(value.dtype) == "torch.float64" else value


class Module:
    """What all modules have in common: parameters, gradients and modes, as in torch.nn.Module.

    Parameters are float32 and lie in one vector, `values`; so do their gradients. A new module is
    in training mode, like torch's.

    >>> import multihead as mh
    >>> mha = mh.MultiheadAttention(4, 2)
    >>> isinstance(mha, mh.Module), sorted(mha.state_dict())[0], mha.values.shape
    (True, 'in_proj_bias', (80,))
    """

    def __init__(self, core: Any, config: dict[str, Any], seed: int | None) -> None:
        self.training = True
        self.seed = next(_seeds) if seed is None else seed
        self._steps = 0
        self._config = {name: value for name, value in config.items() if value is not None}
        self._core = core(**self._config)
        self._gradients: Vector | None = None
        self._core.init(self.seed)

    def __repr__(self) -> str:
        options = (f"{name}={value!r}" for name, value in self._config.items() if name != "kind")
        return f"{type(self).__name__}({', '.join(options)})"

    # ---- modes ------------------------------------------------------------------------------

    def train(self: M, mode: bool = True) -> M:
        """Training mode: dropout is applied."""
        self.training = mode
        return self

    def eval(self: M) -> M:
        """Evaluation mode: no dropout."""
        return self.train(False)

    # ---- parameters and gradients -----------------------------------------------------------

    @property
    def values(self) -> Vector:
        """All parameters as one vector, without a copy."""
        values: Vector = self._core.values()
        return values

    @property
    def gradients(self) -> Vector:
        """All gradients as one vector: what `Tape.backward` adds to."""
        if self._gradients is None:
            import numpy as np

            self._gradients = np.zeros_like(self.values)
        return self._gradients

    def zero_grad(self) -> None:
        """Sets all gradients to zero."""
        self.gradients[...] = 0

    def named_parameters(self) -> Iterator[tuple[str, Vector]]:
        """Names and arrays, which are views: writing to one changes the module."""
        yield from self._core.parameters().items()

    def parameters(self) -> Iterator[Vector]:
        """The arrays of `named_parameters`."""
        yield from self._core.parameters().values()

    def named_gradients(self) -> Iterator[tuple[str, Vector]]:
        """The same for the gradients."""
        yield from self._core.views(self.gradients).items()

    # ---- state ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Vector]:
        """The parameters by name, with torch's names and shapes; views, as in torch."""
        return dict(self.named_parameters())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copies arrays of NumPy or PyTorch, of any float dtype, to the parameters.

        With `strict`, names must be those of `state_dict`; shapes always must. After an error the
        parameters are unchanged.
        """
        own = self.state_dict()
        keys = IncompatibleKeys([name for name in own if name not in state],
                                [name for name in state if name not in own])
        wrong = [f"{name}: found {tuple(state[name].shape)}, expected {array.shape}"
                 for name, array in own.items()
                 if name in state and tuple(state[name].shape) != array.shape]
        if strict and keys.missing_keys:
            wrong.append(f"missing: {', '.join(keys.missing_keys)}")
        if strict and keys.unexpected_keys:
            wrong.append(f"unexpected: {', '.join(keys.unexpected_keys)}")
        if wrong:
            raise ValueError(f"{type(self).__name__}.load_state_dict: {'; '.join(wrong)}")
        for name in own:
            if name in state:
                self._core.assign(name, _loadable(state[name]))
        return keys

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the parameters as safetensors, or as .npz if the path ends so."""
        save_file(self.state_dict(), path)

    def load(self: M, path: str | os.PathLike[str], strict: bool = True) -> M:
        """Reads the parameters from safetensors, .npz or a PyTorch checkpoint."""
        self.load_state_dict(load_file(path), strict)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_core"}
        return state | {"_core": type(self._core), "_values": self.values.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        values = state.pop("_values")
        vars(self).update(state)
        self._core = self._core(**self._config)
        self.values[...] = values

    # ---- calls ------------------------------------------------------------------------------

    def _run(self, inputs: tuple[Any, ...], options: dict[str, Any], call: CallOptions,
             **forward_only: Any) -> Any:
        """The forward pass of the C module, and its backward pass on the tape."""
        tape, seed, step = call.pop("tape", None), call.pop("seed", None), call.pop("step", None)
        options.update(call)
        if self.training:
            if step is None:
                step, self._steps = self._steps, self._steps + 1
            options.update(training=True, seed=self.seed if seed is None else seed, step=step)
        if tape is None:
            return self._core.forward(*inputs, **options, **forward_only)
        tape._run_backward = None
        options["tape"] = tape._core
        output = self._core.forward(*inputs, **options, **forward_only)
        tape._run_backward = lambda doutput: self._input_gradients(
            *self._core.backward(*inputs, **options, doutput=doutput, gradients=self.gradients))
        return output

    def _input_gradients(self, *found: Any) -> Any:
        return found


class AttentionConfig(TypedDict, total=False):
    """Options of MultiheadAttention that torch's does not have."""

    kv_heads: int  # G: grouped-query attention; divides num_heads
    input_dim: int  # the width of query; embed_dim
    head_dim: int  # E; embed_dim / num_heads
    value_dim: int  # the width of a value head; head_dim
    missing_bias: str  # letters of "qkv": these parts of the bias are 0, as in Whisper ("k")
    no_out_bias: bool  # only in_proj has a bias
    qkv: str  # "stacked", torch's order, or "interleaved": the rows of in_proj_weight
    rope: bool  # queries and keys are rotated by their position
    rope_interleaved: bool  # pairs are neighbours, not halves
    rope_base: float  # 10000
    rope_width: int  # the rest of a head is not rotated
    rope_scaling: dict[str, Any]  # rule: "linear", "llama3" or "yarn"; factor, ...
    alibi: bool  # ALiBi's slopes
    sinks: bool  # one learned sink logit per head
    qk_norm: bool  # RMS norm of each head's q and k
    qk_norm_eps: float  # 1e-6
    scale: float  # of q k; 1 / sqrt(E)
    softcap: float  # of the scores
    window: int  # a query sees this many keys before its own
    precision: str  # "f32" or "bf16": of all matrix products


class AttentionCall(CallOptions, total=False):
    """Options of a call of MultiheadAttention that torch's does not have, as in `attention`."""

    causal: bool | str | int
    window: tuple[int | None, int | None]
    key_lengths: Any
    prefix_lengths: Any
    query_documents: Any
    key_documents: Any
    first: int  # the position of the first token, for RoPE; with a cache, its length


class MultiheadAttention(Module):
    """torch.nn.MultiheadAttention: the same arguments, parameters and results, and more options.

    >>> import multihead as mh, numpy as np
    >>> mha = mh.MultiheadAttention(16, 4, batch_first=True)
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
    >>> out, weights = mha(x, x, x)
    >>> out.shape, weights.shape
    ((2, 5, 16), (2, 5, 5))

    `kv_heads`, `rope`, `alibi`, `qk_norm` and others are options by name, see AttentionConfig.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        seed: int | None = None,
        **options: Unpack[AttentionConfig],
    ) -> None:
        config: dict[str, Any] = dict(options)
        if "missing_bias" in config:
            config["missing_bias"] = _bias_flags(config["missing_bias"])
        super().__init__(_multihead.Mha, dict(
            embed_dim=embed_dim, num_heads=num_heads, dropout=dropout, bias=bias,
            add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn, kdim=kdim, vdim=vdim,
            batch_first=batch_first, **config), seed)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        cache: KVCache | None = None,
        **call: Unpack[AttentionCall],
    ) -> tuple[Any, Any]:
        """(output, weights), or (output, None) without need_weights.

        query (T, B, D), key and value (S, B, D), or batch first, or without B. In masks True
        means that a key may not be attended to, floats are added: key_padding_mask (B, S),
        attn_mask (T, S) or (B * H, T, S). is_causal is a hint that attn_mask is causal, as in
        torch; without attn_mask it applies that mask. A query without any key gets zero weights,
        where torch has NaN.

        With a cache, keys and values are appended to it, and queries attend to all it holds.

        After a call with a tape, tape.backward(doutput) returns (dquery, dkey, dvalue); where two
        inputs are the same array, the first one's gradient is the sum and the other's is None.
        """
        options: dict[str, Any] = dict(key_padding_mask=key_padding_mask, attn_mask=attn_mask)
        if is_causal and attn_mask is None:
            options["causal"] = "top-left" if cache is None else "bottom-right"
        if cache is not None:
            options["cache"] = cache._core
        found: tuple[Any, Any] = self._run(
            (query, key, value), options, call,
            need_weights=need_weights, average_attn_weights=average_attn_weights)
        return found

    __call__ = forward


def _bias_flags(letters: str) -> int:
    if not set(letters) <= set("qkv"):
        raise ValueError(f"missing_bias: found {letters!r}, expected letters of 'qkv'")
    return sum(1 << "qkv".index(letter) for letter in set(letters))
