# SPDX-License-Identifier: MIT
"""Encoder and decoder layers, stacks of them, and the Transformer, as in torch.nn."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _multihead
from .kv_cache import _vector
from .modules import CallOptions, Module

if TYPE_CHECKING:
    from typing import Unpack

    import numpy as np
    from numpy.typing import NDArray

Activation = str | Callable[[Any], Any]


class LayerCall(CallOptions, total=False):
    """Options of a call that torch's layers do not have."""

    recompute: bool  # the tape saves each layer's input only; backward recomputes the rest
    disabled_heads: Any  # bool (attentions, H): encoder layers, decoder layers, cross-attention


class LayerNorm:
    """The final norm of a stack.

    >>> import multihead as mh
    >>> encoder = mh.TransformerEncoder(mh.TransformerEncoderLayer(8, 2), 2, norm=mh.LayerNorm(8))
    >>> "norm.weight" in encoder.state_dict()
    True
    """

    def __init__(self, normalized_shape: int, eps: float = 1e-5, bias: bool = True) -> None:
        self.normalized_shape, self.eps, self.bias = normalized_shape, eps, bias


def _activation_name(activation: Activation) -> str:
    return activation if isinstance(activation, str) else getattr(activation, "__name__", "?")


def _causal(hint: bool | None, mask: Any) -> bool:
    """is_causal is a hint about the mask; without one it is the mask."""
    return bool(hint) and mask is None


def _memory_mask(hint: bool, mask: Any, tgt: Any, memory: Any, batch_first: bool) -> Any:
    if not _causal(hint, mask):
        return mask
    import numpy as np

    length = 1 if batch_first and len(tgt.shape) == 3 else 0
    return np.triu(np.ones((tgt.shape[length], memory.shape[length]), bool), 1)


class _Layers(Module):
    """A module whose C counterpart is mh_transformer."""

    def __init__(self, kind: str, seed: int | None, **config: Any) -> None:
        super().__init__(_multihead.Transformer, dict(kind=kind, **config), seed)

    def _copy_layers(self, layer: _Layers, count: int) -> None:
        """Layers begin as copies of one, as in torch."""
        for name, values in layer.named_parameters():
            for i in range(count):
                self._core.assign(f"layers.{i}.{name}", values)


class _Layer(_Layers):
    _kind = ""  # of the C counterpart

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        precision: str = "f32",
        seed: int | None = None,
    ) -> None:
        super().__init__(
            self._kind, seed, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward,
            dropout=dropout, activation=_activation_name(activation),
            layer_norm_eps=layer_norm_eps, batch_first=batch_first, norm_first=norm_first,
            bias=bias, precision=precision)


class _Encoder(_Layers):
    """What an encoder and its layer have in common: src in, src's gradient back."""

    def _encode(self, src: Any, mask: Any, padding: Any, is_causal: bool | None, starts: Any,
                call: LayerCall) -> Any:
        options: dict[str, Any] = dict(
            src_mask=mask, src_key_padding_mask=padding, src_causal=_causal(is_causal, mask),
            src_starts=_vector(starts))
        return self._run((src,), options, call)

    def _input_gradients(self, dsrc: Any, dtgt: Any) -> Any:
        return dsrc


class _Decoder(_Layers):
    """What a decoder and its layer have in common: the memory is the C module's src."""

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
        *,
        tgt_starts: Any = None,
        memory_starts: Any = None,
        **call: Unpack[LayerCall],
    ) -> Any:
        """The output, of tgt's shape: tgt (T, B, D), memory (S, B, D), or batch first.

        Masks are as in MultiheadAttention. With starts, tgt (rows, D) and memory (rows, D) are
        packed batches: sequence b is rows starts[b] to starts[b + 1] - 1.

        After a call with a tape, tape.backward(doutput) returns (dtgt, dmemory).
        """
        mask = _memory_mask(memory_is_causal, memory_mask, tgt, memory, self._config["batch_first"])
        options: dict[str, Any] = dict(
            tgt_mask=tgt_mask, memory_mask=mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_causal=_causal(tgt_is_causal, tgt_mask), src_starts=_vector(memory_starts),
            tgt_starts=_vector(tgt_starts))
        return self._run((memory, tgt), options, call)

    __call__ = forward

    def _input_gradients(self, dmemory: Any, dtgt: Any) -> Any:
        return dtgt, dmemory


class TransformerEncoderLayer(_Layer, _Encoder):
    """torch.nn.TransformerEncoderLayer: self-attention and feed-forward.

    activation is "relu", "gelu", "gelu_tanh" or "silu", or a function of torch of such a name.

    >>> import multihead as mh, numpy as np
    >>> layer = mh.TransformerEncoderLayer(d_model=8, nhead=2).eval()
    >>> layer(np.zeros((10, 3, 8), np.float32)).shape
    (10, 3, 8)
    """

    _kind = "encoder_layer"

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
        *,
        starts: Any = None,
        **call: Unpack[LayerCall],
    ) -> Any:
        """The output, of src's shape: src (S, B, D), or batch first, or without B.

        Masks are as in MultiheadAttention. With starts, src (rows, D) is a packed batch:
        sequence b is rows starts[b] to starts[b + 1] - 1.

        After a call with a tape, tape.backward(doutput) returns dsrc.
        """
        return self._encode(src, src_mask, src_key_padding_mask, is_causal, starts, call)

    __call__ = forward


class TransformerDecoderLayer(_Layer, _Decoder):
    """torch.nn.TransformerDecoderLayer: self-attention, cross-attention and feed-forward.

    >>> import multihead as mh, numpy as np
    >>> layer = mh.TransformerDecoderLayer(d_model=8, nhead=2).eval()
    >>> tgt, memory = np.zeros((5, 3, 8), np.float32), np.zeros((10, 3, 8), np.float32)
    >>> layer(tgt, memory, tgt_is_causal=True).shape
    (5, 3, 8)
    """

    _kind = "decoder_layer"


def _stack_config(layer: Any, kind: type[_Layer], norm: LayerNorm | None) -> dict[str, Any]:
    """A stack's configuration: its layer's, and whether it ends with a norm."""
    if not isinstance(layer, kind):
        raise TypeError(f"layer: found {layer!r}, expected a {kind.__name__}")
    config = {name: value for name, value in layer._config.items() if name != "kind"}
    if norm is not None:
        found = (norm.normalized_shape, norm.eps, norm.bias)
        expected = (config["d_model"], config["layer_norm_eps"], config["bias"])
        if found != expected:
            raise ValueError(f"norm: found (width, eps, bias) {found}, expected those of the "
                             f"layers, {expected}")
    return config | {"final_norm": norm is not None}


class TransformerEncoder(_Encoder):
    """torch.nn.TransformerEncoder: a stack of layers, which begin as copies of one.

    enable_nested_tensor and mask_check are about torch's own fast path: results are the same.

    >>> import multihead as mh, numpy as np
    >>> layer = mh.TransformerEncoderLayer(d_model=4, nhead=2)
    >>> encoder = mh.TransformerEncoder(layer, num_layers=2, norm=mh.LayerNorm(4)).eval()
    >>> encoder(np.zeros((10, 3, 4), np.float32)).shape
    (10, 3, 4)
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: LayerNorm | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
        *,
        seed: int | None = None,
    ) -> None:
        config = _stack_config(encoder_layer, TransformerEncoderLayer, norm)
        super().__init__("encoder", seed, num_encoder_layers=num_layers, **config)
        self._copy_layers(encoder_layer, num_layers)

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
        *,
        starts: Any = None,
        **call: Unpack[LayerCall],
    ) -> Any:
        """As TransformerEncoderLayer.forward, through all layers."""
        return self._encode(src, mask, src_key_padding_mask, is_causal, starts, call)

    __call__ = forward


class TransformerDecoder(_Decoder):
    """torch.nn.TransformerDecoder: a stack of layers, which begin as copies of one.

    >>> import multihead as mh, numpy as np
    >>> decoder = mh.TransformerDecoder(mh.TransformerDecoderLayer(4, 2), num_layers=2).eval()
    >>> tgt, memory = np.zeros((5, 3, 4), np.float32), np.zeros((10, 3, 4), np.float32)
    >>> decoder(tgt, memory).shape
    (5, 3, 4)
    """

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: LayerNorm | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        config = _stack_config(decoder_layer, TransformerDecoderLayer, norm)
        super().__init__("decoder", seed, num_decoder_layers=num_layers, **config)
        self._copy_layers(decoder_layer, num_layers)


class Transformer(_Layers):
    """torch.nn.Transformer: an encoder and a decoder.

    >>> import multihead as mh, numpy as np
    >>> model = mh.Transformer(d_model=16, nhead=4, num_encoder_layers=2, num_decoder_layers=2)
    >>> src, tgt = np.zeros((10, 3, 16), np.float32), np.zeros((7, 3, 16), np.float32)
    >>> model.eval()(src, tgt, tgt_is_causal=True).shape
    (7, 3, 16)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: None = None,
        custom_decoder: None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        precision: str = "f32",
        seed: int | None = None,
    ) -> None:
        if custom_encoder is not None or custom_decoder is not None:
            raise ValueError("custom_encoder, custom_decoder: found a module, expected None: call "
                             "the modules one after the other instead")
        super().__init__(
            "transformer", seed, d_model=d_model, nhead=nhead,
            num_encoder_layers=num_encoder_layers, num_decoder_layers=num_decoder_layers,
            dim_feedforward=dim_feedforward, dropout=dropout,
            activation=_activation_name(activation), layer_norm_eps=layer_norm_eps,
            batch_first=batch_first, norm_first=norm_first, bias=bias, precision=precision)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
        *,
        src_starts: Any = None,
        tgt_starts: Any = None,
        **call: Unpack[LayerCall],
    ) -> Any:
        """The decoder's output, of tgt's shape: src (S, B, D), tgt (T, B, D), or batch first.

        Masks are as in MultiheadAttention. With starts, src (rows, D) and tgt (rows, D) are
        packed batches: sequence b is rows starts[b] to starts[b + 1] - 1.

        After a call with a tape, tape.backward(doutput) returns (dsrc, dtgt).
        """
        mask = _memory_mask(memory_is_causal, memory_mask, tgt, src, self._config["batch_first"])
        options: dict[str, Any] = dict(
            src_mask=src_mask, tgt_mask=tgt_mask, memory_mask=mask,
            src_key_padding_mask=src_key_padding_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            src_causal=_causal(src_is_causal, src_mask),
            tgt_causal=_causal(tgt_is_causal, tgt_mask), src_starts=_vector(src_starts),
            tgt_starts=_vector(tgt_starts))
        return self._run((src, tgt), options, call)

    __call__ = forward

    def encode(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None,
               src_is_causal: bool | None = None) -> Any:
        """The encoder's output, without dropout: the decoder's memory."""
        return self._core.encode(
            src, src_mask=src_mask, src_key_padding_mask=src_key_padding_mask,
            src_causal=_causal(src_is_causal, src_mask))

    @staticmethod
    def generate_square_subsequent_mask(sz: int) -> NDArray[np.float32]:
        """The causal mask as floats: 0 where a key may be attended to, -inf after the query.

        >>> import multihead as mh
        >>> mh.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        import numpy as np

        return np.triu(np.full((sz, sz), -np.inf, np.float32), 1)
