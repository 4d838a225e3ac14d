# SPDX-License-Identifier: MIT
"""Published models of libmultihead-model through ctypes: include/multihead/pretrained.h, generate.h.

The library refuses options whose size is not that of its own structure.

    with Library("build/libmultihead-model.so").context(threads=2) as context:
        model = Model(context, "all-MiniLM-L6-v2")
        model.embedder(ids, out)()      # (B, T) int32 -> (B, D) float32, NumPy arrays
        model.generate(ids, 64)         # (B, T) int32 -> (B, 64)
"""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_size_t
from ctypes import c_uint64, c_void_p

import numpy as np

from multihead_ctypes import F32, TENSOR, declare, default_options, view

PRECISIONS = {"f32": 1, "bf16": 2}            # mh_precision
POOLING_MEAN = 0                              # mh_pooling


class ModelOptions(ctypes.Structure):
    """mh_model_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("precision", c_int),
        ("trainable", c_bool),
    ]


class ModelInput(ctypes.Structure):
    """mh_model_input"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("sequences", c_size_t),
        ("starts", c_void_p),
        ("ids", c_void_p),
        ("types", c_void_p),
        ("taps", c_void_p),
        ("tap_count", c_size_t),
        ("disabled_heads", c_void_p),
        ("tape", c_void_p),
    ]


class GenerateOptions(ctypes.Structure):
    """mh_generate_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_tokens", c_size_t),
        ("max_length", c_size_t),
        ("temperature", c_double),
        ("top_k", c_size_t),
        ("top_p", c_double),
        ("min_p", c_double),
        ("repetition_penalty", c_double),
        ("seed", c_uint64),
        ("beam", c_size_t),
        ("length_penalty", c_double),
        ("stop", c_void_p),
        ("stop_count", c_size_t),
        ("top_logprobs", c_size_t),
        ("ignore_eos", c_bool),
        ("add_special_tokens", c_bool),
        ("cache_dtype", c_int),
        ("segment", c_size_t),
        ("batch", c_size_t),
        ("disabled_heads", c_void_p),
        ("on_token", c_void_p),
        ("user", c_void_p),
    ]


class Generation(ctypes.Structure):
    """mh_generation, as far as its ids."""
    _fields_ = [
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("ids", POINTER(c_int32)),
        ("logprobs", c_void_p),
        ("top", c_void_p),
        ("count", c_size_t),
    ]


PROTOTYPES = {
    "mh_model_load": (c_int, [c_void_p, c_char_p, POINTER(ModelOptions), POINTER(c_void_p)]),
    "mh_model_free": (None, [c_void_p]),
    "mh_model_embed": (c_int, [c_void_p, c_void_p, c_int, c_bool, POINTER(ModelInput), TENSOR]),
    "mh_generate": (c_int, [c_void_p, c_void_p, POINTER(GenerateOptions), c_void_p, c_void_p,
                            c_size_t, POINTER(c_void_p)]),
    "mh_generations_at": (POINTER(Generation), [c_void_p, c_size_t]),
    "mh_generations_free": (None, [c_void_p]),
}


class Model:
    """An mh_model in a context, which frees it."""

    def __init__(self, context, directory, precision="f32"):
        declare(context.c, PROTOTYPES)
        self.context, self.pointer = context, c_void_p()
        options = default_options(ModelOptions, precision=PRECISIONS[precision])
        context.call("model_load", str(directory).encode(), options, byref(self.pointer))()
        context.owned.append((context.c.mh_model_free, self.pointer))

    def embedder(self, ids, out):
        """A call: out (B, D) = means over the tokens of ids (B, T), scaled to length 1."""
        starts = np.arange(ids.shape[0] + 1, dtype=np.int64) * ids.shape[1]
        model_input = default_options(ModelInput, sequences=ids.shape[0],
                                      starts=starts.ctypes.data, ids=ids.ctypes.data)
        result = view(out.ctypes.data, F32, out.shape)
        run = self.context.call("model_embed", self.pointer, POOLING_MEAN, True, model_input,
                                result)
        run.memory = starts, ids, model_input, result, out
        return run

    def generate(self, ids, count):
        """(B, count): the likeliest ids after ids (B, T), all sequences at once, without end."""
        starts = np.arange(ids.shape[0] + 1, dtype=np.int64) * ids.shape[1]
        options = default_options(GenerateOptions, max_tokens=count, top_p=1, beam=1,
                                  repetition_penalty=1, length_penalty=1, ignore_eos=True,
                                  add_special_tokens=True, cache_dtype=F32, segment=512,
                                  batch=ids.shape[0])
        result, c = c_void_p(), self.context.c
        self.context.call("generate", self.pointer, options, starts.ctypes.data, ids.ctypes.data,
                          ids.shape[0], byref(result))()
        try:
            return np.array([c.mh_generations_at(result, b).contents.ids[:count]
                             for b in range(ids.shape[0])])
        finally:
            c.mh_generations_free(result)
