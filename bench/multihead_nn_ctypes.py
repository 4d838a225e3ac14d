# SPDX-License-Identifier: MIT
"""The modules of libmultihead through ctypes: include/multihead/nn.h beside multihead_ctypes.py.

The library refuses a config or options whose size is not that of its own structure.

    with library.context(threads=2) as context:
        layer = EncoderLayer(context, BF16, "gelu", width=768, heads=12, hidden=3072)
        layer.load(state)                      # name -> contiguous f32 tensor, all of them
        layer.forward(causal, src, out)()
"""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int
from ctypes import c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from multihead_ctypes import TENSOR, declare, default_options

PRECISION_F32, PRECISION_BF16 = 1, 2          # mh_precision
ACTIVATIONS = {"relu": 0, "gelu": 1}          # mh_activation
ENCODER_LAYER = 3                             # mh_transformer_kind


# ---- structures -----------------------------------------------------------------------------

class Parameter(ctypes.Structure):
    """mh_parameter"""
    _fields_ = [
        ("name", c_char * 64),
        ("rank", c_int),
        ("shape", c_size_t * 3),
        ("offset", c_size_t),
        ("count", c_size_t),
        ("init", c_int),
        ("init_scale", c_float),
    ]


class Parameters(ctypes.Structure):
    """mh_parameters"""
    _fields_ = [
        ("count", c_size_t),
        ("list", POINTER(Parameter)),
        ("floats", c_size_t),
        ("values", c_void_p),
    ]


class MhaConfig(ctypes.Structure):
    """mh_mha_config"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("embed_dim", c_size_t),
        ("num_heads", c_size_t),
        ("kv_heads", c_size_t),
        ("input_dim", c_size_t),
        ("kdim", c_size_t),
        ("vdim", c_size_t),
        ("dropout", c_float),
        ("bias", c_bool),
        ("add_bias_kv", c_bool),
        ("add_zero_attn", c_bool),
        ("batch_first", c_bool),
        ("qkv", c_int),
        ("rope", c_bool),
        ("rope_interleaved", c_bool),
        ("rope_base", c_double),
        ("alibi", c_bool),
        ("sinks", c_bool),
        ("precision", c_int),
    ]


class MhaOptions(ctypes.Structure):
    """mh_mha_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("key_padding_mask", c_void_p),
        ("attn_mask", c_void_p),
        ("per_head_weights", c_bool),
        ("attention", c_void_p),
        ("cache", c_void_p),
        ("first", c_int64),
        ("training", c_bool),
        ("seed", c_uint64),
        ("step", c_uint32),
        ("stream", c_uint32),
        ("tape", c_void_p),
    ]


class TransformerConfig(ctypes.Structure):
    """mh_transformer_config"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("d_model", c_size_t),
        ("nhead", c_size_t),
        ("num_encoder_layers", c_size_t),
        ("num_decoder_layers", c_size_t),
        ("dim_feedforward", c_size_t),
        ("dropout", c_float),
        ("activation", c_int),
        ("layer_norm_eps", c_float),
        ("batch_first", c_bool),
        ("norm_first", c_bool),
        ("bias", c_bool),
        ("final_norm", c_bool),
        ("vocabulary", c_size_t),
        ("precision", c_int),
    ]


class TransformerOptions(ctypes.Structure):
    """mh_transformer_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("src_mask", c_void_p),
        ("tgt_mask", c_void_p),
        ("memory_mask", c_void_p),
        ("src_key_padding_mask", c_void_p),
        ("tgt_key_padding_mask", c_void_p),
        ("memory_key_padding_mask", c_void_p),
        ("src_causal", c_bool),
        ("tgt_causal", c_bool),
        ("sequences", c_size_t),
        ("src_starts", c_void_p),
        ("tgt_starts", c_void_p),
        ("taps", c_void_p),
        ("tap_count", c_size_t),
        ("disabled_heads", c_void_p),
        ("training", c_bool),
        ("seed", c_uint64),
        ("step", c_uint32),
        ("tape", c_void_p),
        ("recompute", c_bool),
        ("overwrite_gradients", c_bool),
    ]


PROTOTYPES = {
    "mh_parameters_find": (POINTER(Parameter), [POINTER(Parameters), c_char_p]),
    "mh_tape_create": (c_int, [c_void_p, POINTER(c_void_p)]),
    "mh_tape_free": (None, [c_void_p]),
    "mh_mha_create": (c_int, [c_void_p, POINTER(MhaConfig), POINTER(c_void_p)]),
    "mh_mha_free": (None, [c_void_p]),
    "mh_mha_parameters": (POINTER(Parameters), [c_void_p]),
    "mh_mha_forward": (c_int, [c_void_p, c_void_p, POINTER(MhaOptions)] + [TENSOR] * 5),
    "mh_transformer_create": (c_int, [c_void_p, POINTER(TransformerConfig), POINTER(c_void_p)]),
    "mh_transformer_free": (None, [c_void_p]),
    "mh_transformer_parameters": (POINTER(Parameters), [c_void_p]),
    "mh_transformer_forward": (c_int, [c_void_p, c_void_p, POINTER(TransformerOptions)] +
                               [TENSOR] * 3),
    "mh_transformer_backward": (c_int, [c_void_p, c_void_p, POINTER(TransformerOptions)] +
                                [TENSOR] * 3 + [c_void_p] + [TENSOR] * 2),
}


# ---- modules --------------------------------------------------------------------------------

class Module:
    """A module in a context, which frees it."""

    def __init__(self, context, kind, config):
        declare(context.c, PROTOTYPES)
        self.context, self.pointer = context, c_void_p()
        context.call(f"{kind}_create", config, byref(self.pointer))()
        context.owned.append((getattr(context.c, f"mh_{kind}_free"), self.pointer))
        self.parameters = getattr(context.c, f"mh_{kind}_parameters")(self.pointer)

    @property
    def floats(self):
        """How many numbers all parameters are, and so their gradients."""
        return self.parameters.contents.floats

    def place(self, name):
        """Where in all parameters, or gradients, those of that name are."""
        found = self.context.c.mh_parameters_find(self.parameters, name.encode())
        if not found:
            raise KeyError(f"the module has no parameter {name}")
        return slice(found.contents.offset, found.contents.offset + found.contents.count)

    def load(self, state):
        """Copies all parameters from name -> contiguous f32 tensor, as PyTorch has them."""
        values, loaded = self.parameters.contents.values, 0
        for name, tensor in state.items():
            place = self.place(name)
            if tensor.numel() != place.stop - place.start:
                raise ValueError(f"{name}: found {tensor.numel()} numbers, expected "
                                 f"{place.stop - place.start}")
            ctypes.memmove(values + 4 * place.start, tensor.data_ptr(), 4 * tensor.numel())
            loaded += tensor.numel()
        if loaded != self.floats:
            raise ValueError(f"found {loaded} numbers, expected all {self.floats}")


class MultiheadAttention(Module):
    """mh_mha, batch first."""

    def __init__(self, context, precision, width, heads):
        super().__init__(context, "mha", default_options(
            MhaConfig, embed_dim=width, num_heads=heads, bias=True, batch_first=True,
            rope_base=10000, precision=precision))

    def forward(self, attention, x, out):
        """out = self-attention of x; `attention` are the options of the engine."""
        options = default_options(MhaOptions, attention=ctypes.addressof(attention))
        options.keeps = attention  # which it points to
        return self.context.call("mha_forward", self.pointer, options, x, x, x, out, None)


class EncoderLayer(Module):
    """mh_transformer of the kind MH_ENCODER_LAYER, batch first, without dropout."""

    def __init__(self, context, precision, activation, width, heads, hidden):
        super().__init__(context, "transformer", default_options(
            TransformerConfig, kind=ENCODER_LAYER, d_model=width, nhead=heads,
            dim_feedforward=hidden, activation=ACTIVATIONS[activation], layer_norm_eps=1e-5,
            batch_first=True, bias=True, final_norm=True, precision=precision))

    def forward(self, causal, src, out):
        """out = layer(src)"""
        return self.run("forward", default_options(TransformerOptions, src_causal=causal),
                        src, None, out)

    def forward_backward(self, causal, src, out, dout, gradients, dsrc):
        """Forward, then all gradients from that of out; `gradients` is where floats go."""
        tape = c_void_p()
        self.context.call("tape_create", byref(tape))()
        self.context.owned.append((self.context.c.mh_tape_free, tape))
        options = default_options(TransformerOptions, src_causal=causal, training=True, tape=tape,
                                  overwrite_gradients=True)
        forward = self.run("forward", options, src, None, out)
        backward = self.run("backward", options, src, None, dout, gradients, dsrc, None)
        def both():
            forward()
            backward()
        return both

    def run(self, name, options, *arguments):
        """A function that calls mh_transformer_<name>."""
        return self.context.call(f"transformer_{name}", self.pointer, options, *arguments)
