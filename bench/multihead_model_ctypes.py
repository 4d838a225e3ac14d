# SPDX-License-Identifier: MIT
"""Published models of libmultihead-model through ctypes: include/multihead/pretrained.h.

The library refuses options whose size is not that of its own structure.

    with Library("build/libmultihead-model.so").context(threads=2) as context:
        model = Model(context, "all-MiniLM-L6-v2")
        model.embedder(ids, out)()      # (B, T) int32 -> (B, D) float32, NumPy arrays
"""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_void_p

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


PROTOTYPES = {
    "mh_model_load": (c_int, [c_void_p, c_char_p, POINTER(ModelOptions), POINTER(c_void_p)]),
    "mh_model_free": (None, [c_void_p]),
    "mh_model_embed": (c_int, [c_void_p, c_void_p, c_int, c_bool, POINTER(ModelInput), TENSOR]),
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
