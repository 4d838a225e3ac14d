# SPDX-License-Identifier: MIT
"""The public C API of libmultihead through ctypes, as far as bench/compare.py needs it.

The structures mirror include/multihead/{base,tensor,attention,kv_cache}.h field by field. A
header and this file could drift apart unnoticed, so that a new context asks the library for the
struct_size of attention's options that it expects, and refuses to go on if it is not ours. The
library itself refuses other sizes of the smaller structures.

    library = Library("build/libmultihead.so")
    with library.context(threads=2) as context:
        q = view(pointer, F32, (1, 8, 10, 64))      # borrows the memory
        context.attention(library.attention_options(causal=True), q, k, v, out)()
"""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_float, c_int
from ctypes import c_int64, c_size_t, c_ssize_t, c_uint64, c_void_p

MAX_RANK = 8
F32, BF16, F16 = 0, 2, 3                     # mh_dtype
PRECISION_AUTO = 0                           # mh_precision
CAUSAL_NONE, CAUSAL_BOTTOM_RIGHT = 0, 3      # mh_causal


class MultiheadError(Exception):
    """A call failed; the text is mh_error_message()."""


# ---- structures -----------------------------------------------------------------------------

class Tensor(ctypes.Structure):
    """mh_tensor: a view; strides count elements."""
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int),
        ("rank", c_int),
        ("shape", c_size_t * MAX_RANK),
        ("stride", c_ssize_t * MAX_RANK),
    ]


class Allocator(ctypes.Structure):
    """mh_allocator"""
    _fields_ = [("alloc", c_void_p), ("release", c_void_p), ("user", c_void_p),
                ("thread_safe", c_bool)]


class ContextOptions(ctypes.Structure):
    """mh_context_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("threads", c_size_t),
        ("isa", c_char_p),
        ("allocator", Allocator),
        ("log", c_void_p),
        ("log_user", c_void_p),
        ("parallel_for", c_void_p),
        ("parallel_for_user", c_void_p),
    ]


class AttentionOptions(ctypes.Structure):
    """mh_attention_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("scale", c_float),
        ("softcap", c_float),
        ("causal", c_int),
        ("offset", c_int64),
        ("window_left", c_int64),
        ("window_right", c_int64),
        ("prefix_lengths", c_void_p),
        ("key_lengths", c_void_p),
        ("query_documents", c_void_p),
        ("key_documents", c_void_p),
        ("masks", c_void_p),
        ("mask_count", c_size_t),
        ("alibi", c_bool),
        ("alibi_slopes", c_void_p),
        ("sinks", c_void_p),
        ("sequences", c_size_t),
        ("query_starts", c_void_p),
        ("key_starts", c_void_p),
        ("dropout", c_float),
        ("dropout_seed", c_uint64),
        ("dropout_sequence", c_uint64),
        ("empty_row", c_int),
        ("lse", c_void_p),
        ("weights", c_void_p),
        ("weights_stage", c_int),
        ("weights_average", c_bool),
        ("weights_dropped", c_bool),
        ("weights_heads", c_void_p),
        ("weights_head_count", c_size_t),
        ("weights_rows", c_void_p),
        ("weights_row_count", c_size_t),
        ("workspace", c_void_p),
        ("workspace_size", c_size_t),
        ("precision", c_int),
    ]


class AttentionGradients(ctypes.Structure):
    """mh_attention_gradients"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("dq", c_void_p),
        ("dk", c_void_p),
        ("dv", c_void_p),
        ("dmasks", c_void_p),
        ("dsinks", c_void_p),
    ]


class CacheOptions(ctypes.Structure):
    """mh_kv_cache_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("sequences", c_size_t),
        ("heads", c_size_t),
        ("key_width", c_size_t),
        ("value_width", c_size_t),
        ("dtype", c_int),
        ("window", c_int64),
    ]


def view(pointer, dtype, shape, stride=None):
    """A Tensor of memory that the caller keeps alive; C order unless strides are given."""
    tensor = Tensor(data=pointer, dtype=dtype, rank=len(shape))
    step = 1
    for i in reversed(range(len(shape))):
        tensor.shape[i] = shape[i]
        tensor.stride[i] = step if stride is None else stride[i]
        step *= shape[i]
    return tensor


# ---- the library ----------------------------------------------------------------------------

# The result and arguments of every function that is called here.
TENSOR = POINTER(Tensor)
PROTOTYPES = {
    "mh_version": (c_char_p, []),
    "mh_cpu_features": (c_char_p, []),
    "mh_error_message": (c_char_p, [c_void_p]),
    "mh_context_isa": (c_char_p, [c_void_p]),
    "mh_context_create": (c_int, [POINTER(ContextOptions), POINTER(c_void_p), c_char_p,
                                  c_size_t]),
    "mh_context_free": (None, [c_void_p]),
    "mh_attention_forward": (c_int, [c_void_p, POINTER(AttentionOptions)] + [TENSOR] * 4),
    "mh_attention_backward": (c_int, [c_void_p, POINTER(AttentionOptions)] + [TENSOR] * 5 +
                              [POINTER(AttentionGradients)]),
    "mh_kv_cache_create": (c_int, [c_void_p, POINTER(CacheOptions), POINTER(c_void_p)]),
    "mh_kv_cache_append": (c_int, [c_void_p, c_void_p, c_void_p, TENSOR, TENSOR]),
    "mh_kv_cache_free": (None, [c_void_p]),
    "mh_attention_cached": (c_int, [c_void_p, POINTER(AttentionOptions), TENSOR, c_void_p,
                                    TENSOR]),
    "mh_matmul": (c_int, [c_void_p] + [TENSOR] * 3),
    "mh_matrix_pack": (c_int, [c_void_p, c_int, TENSOR, POINTER(c_void_p)]),
    "mh_packed_matrix_free": (None, [c_void_p]),
    "mh_matmul_packed": (c_int, [c_void_p, TENSOR, c_void_p, TENSOR]),
}


def declare(library, prototypes):
    """Tells ctypes the types of functions."""
    for name, (restype, argtypes) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = restype, argtypes


def default_options(structure, **values):
    """What mh_..._options_default() gives: all zero but the size and the given values."""
    options = structure(**values)
    options.struct_size = ctypes.sizeof(structure)
    return options


class Library:
    """A loaded libmultihead.so."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        declare(self.c, PROTOTYPES)
        self.version = self.c.mh_version().decode()
        self.cpu_features = self.c.mh_cpu_features().decode()

    def context_options(self, threads=0):
        """mh_context_options with the given number of threads."""
        return default_options(ContextOptions, threads=threads)

    def attention_options(self, causal=False):
        """mh_attention_options; causal aligns the last query with the last key."""
        return default_options(AttentionOptions, scale=float("nan"), window_left=-1,
                               window_right=-1,
                               causal=CAUSAL_BOTTOM_RIGHT if causal else CAUSAL_NONE)

    def context(self, threads):
        """A new Context; use it in a with statement."""
        return Context(self, threads)


class Context:
    """An mh_context. Its operations return a function without arguments that does the call,
    so that what is prepared once is not measured again and again."""

    def __init__(self, library, threads):
        self.c = library.c
        self.pointer = c_void_p()
        self.owned = []  # (function that frees it, pointer)
        text = ctypes.create_string_buffer(256)
        options = library.context_options(threads)
        if self.c.mh_context_create(byref(options), byref(self.pointer), text, len(text)):
            raise MultiheadError(text.value.decode())
        self.isa = self.c.mh_context_isa(self.pointer).decode()
        self.check_layout(library)

    def check_layout(self, library):
        """The library refuses options that are too long and says what it expects."""
        options = library.attention_options()
        options.struct_size = 1 << 40
        self.c.mh_attention_forward(self.pointer, byref(options), None, None, None, None)
        message = self.c.mh_error_message(self.pointer).decode()
        if f"expected {ctypes.sizeof(AttentionOptions)} " not in message:
            raise MultiheadError(f"{message}: bring bench/multihead_ctypes.py up to the headers")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for free, pointer in self.owned:
            free(pointer)
        self.c.mh_context_free(self.pointer)

    def check(self, status):
        """Raises what mh_error_message() says unless the status is MH_OK."""
        if status:
            raise MultiheadError(self.c.mh_error_message(self.pointer).decode())

    def call(self, name, *arguments):
        """A function that calls mh_<name>(context, arguments...) and checks the status.

        Arguments are converted once, here: at every call that would take longer than a small
        module itself, and no user of the C library pays it."""
        types = getattr(self.c, "mh_" + name).argtypes
        prepared = [kind.from_param(a) for kind, a in zip(types, (self.pointer, *arguments))]
        function = self.c["mh_" + name]  # without types of its own

        def run():
            if function(*prepared):
                self.check(1)
        return run

    def attention(self, options, q, k, v, out):
        """out = softmax(scale q k^T) v"""
        return self.call("attention_forward", options, q, k, v, out)

    def attention_both(self, options, q, k, v, out, lse, dout, dq, dk, dv):
        """Forward, then the gradients from that of out."""
        options.lse = ctypes.addressof(lse)
        gradients = default_options(AttentionGradients, **{
            name: ctypes.addressof(t) for name, t in (("dq", dq), ("dk", dk), ("dv", dv))})
        gradients.tensors = lse, dq, dk, dv  # pointers do not keep what they point to alive
        forward = self.attention(options, q, k, v, out)
        backward = self.call("attention_backward", options, q, k, v, out, dout, gradients)

        def run():
            forward()
            backward()
        return run

    def attention_cached(self, options, q, k, v, out):
        """The same as attention(), with k and v in a cache that is made now, once."""
        cache = c_void_p()
        sequences, heads, _, width = k.shape[:4]
        self.call("kv_cache_create", default_options(
            CacheOptions, sequences=sequences, heads=heads, key_width=width, dtype=k.dtype,
            window=-1), byref(cache))()
        self.owned.append((self.c.mh_kv_cache_free, cache))
        self.call("kv_cache_append", cache, None, k, v)()
        return self.call("attention_cached", options, q, cache, out)

    def matmul(self, a, b, c):
        """c = a b"""
        return self.call("matmul", a, b, c)

    def matmul_packed(self, a, b, c):
        """c = a b, with b packed now, once."""
        packed = c_void_p()
        self.call("matrix_pack", PRECISION_AUTO, b, byref(packed))()
        self.owned.append((self.c.mh_packed_matrix_free, packed))
        return self.call("matmul_packed", a, packed, c)
