# SPDX-License-Identifier: MIT
"""What bench/compare.py measures: the table OPERATIONS at the end.

An operation has cases, inputs, expected results in double precision, and contenders, the first of
which is ours. A further operation is one more entry, a further peer one more function:

    make(job, inputs, context, library) -> (call, results)

prepares what need not be measured; `call` does the work, results() gives the tensors to check,
in the order in which `expected` gives them. A peer that has several ways to do it gives a
dictionary of them, and the fastest counts. It raises Unsupported where a peer does not do a case.
"""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Callable, NamedTuple

import numpy as np
import threadpoolctl
import torch
from torch.nn.functional import scaled_dot_product_attention

import multihead_ctypes as mh

try:
    import onnx
    import onnxruntime
except ImportError:
    onnxruntime = None

SHAPES = Path(__file__).resolve().parent / "shapes"
OURS = "multihead"
DTYPES = {"f32": (torch.float32, mh.F32), "bf16": (torch.bfloat16, mh.BF16)}


class Unsupported(Exception):
    """This contender does not do this case; the text says why."""


class Case(NamedTuple):
    """One shape of an operation."""
    name: str
    size: dict

    def shape(self):
        """The sizes as one word, such as 1x16x16x2048x2048x64."""
        return "x".join(str(n) for key, n in self.size.items() if key.isupper())

    def is_long(self):
        """More than 10^11 operations forward, as `multihead bench --quick` leaves out."""
        n = SimpleNamespace(**self.size)
        if "M" in self.size:
            return 2 * n.M * n.K * n.N > 1e11
        if "D" in self.size:
            return 4 * n.B * n.T * n.D * (2 * n.D + self.size.get("F", 0) + n.T) > 1e11
        return (2 if n.causal else 4) * n.B * n.H * n.T * n.S * n.E > 1e11


def read_cases(file, letters, word):
    """The lines of a file that `multihead bench` is built with, and whether they end in `word`."""
    lines = [line.split() for line in (SHAPES / file).read_text().splitlines()]
    return [(Case(f[0], dict(zip(letters, map(int, f[1:-1])))), f[-1] == word)
            for f in lines if f and not f[0].startswith("#")]


# ---- attention -------------------------------------------------------------------------------

def attention_cases(file):
    """The cases of attention.txt or decode.txt."""
    return [Case(case.name, dict(case.size, causal=causal))
            for case, causal in read_cases(file, "BHGTSE", "causal")]


def attention_inputs(size, dtype):
    """q and dout (B, H, T, E), k and v (B, G, S, E), contiguous."""
    n = SimpleNamespace(**size)
    shapes = {"q": (n.B, n.H, n.T, n.E), "k": (n.B, n.G, n.S, n.E), "v": (n.B, n.G, n.S, n.E),
              "dout": (n.B, n.H, n.T, n.E)}
    tensors = {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    return SimpleNamespace(**size, **tensors)


def plain_attention(x, q, k, v, rows):
    """softmax(q k^T / sqrt(E)) v as it is written, for these rows of all queries."""
    scores = q @ k.mT / math.sqrt(x.E)
    if x.causal:
        scores = scores.masked_fill(torch.arange(x.S) > rows[:, None] + x.S - x.T, -math.inf)
    return torch.softmax(scores, -1) @ v


def attention_expected(x):
    """64 rows of the last batch's last head."""
    rows = torch.linspace(0, x.T - 1, min(x.T, 64)).long()
    q, k, v = x.q[-1, -1, rows].double(), x.k[-1, -1].double(), x.v[-1, -1].double()
    return [((-1, -1, rows), plain_attention(x, q, k, v, rows))]


def gradients_expected(x):
    """All gradients of the last batch's last key/value head, some rows of queries at a time."""
    own = slice(-(x.H // x.G), None)  # the query heads of that key/value head
    q, dout = x.q[-1, own].double(), x.dout[-1, own].double()
    k, v = (t[-1, -1].double().requires_grad_() for t in (x.k, x.v))
    dq, step = torch.empty_like(q), max(1, 2 ** 23 // x.S)
    for begin in range(0, x.T, step):
        rows = torch.arange(begin, min(begin + step, x.T))
        part = q[:, rows].requires_grad_()
        plain_attention(x, part, k, v, rows).backward(dout[:, rows])
        dq[:, rows] = part.grad
    return [((-1, own), dq), ((-1, -1), k.grad), ((-1, -1), v.grad)]


def our_attention(job, x, context, library):
    """mh_attention_forward"""
    out = torch.empty_like(x.q)
    views = [tensor_view(t) for t in (x.q, x.k, x.v, out)]
    return context.attention(library.attention_options(x.causal), *views), lambda: [out]


def our_cached_attention(job, x, context, library):
    """mh_attention_cached: keys and values are in a cache of the same dtype"""
    out = torch.empty_like(x.q)
    views = [tensor_view(t) for t in (x.q, x.k, x.v, out)]
    return context.attention_cached(library.attention_options(x.causal), *views), lambda: [out]


def our_training(job, x, context, library):
    """mh_attention_forward and mh_attention_backward"""
    lse = torch.empty(x.B, x.H, x.T)
    tensors = [x.q, x.k, x.v, torch.empty_like(x.q), lse, x.dout]
    gradients = [torch.empty_like(t) for t in (x.q, x.k, x.v)]
    views = [tensor_view(t) for t in tensors + gradients]
    run = context.attention_both(library.attention_options(x.causal), *views)
    run.memory = tensors
    return run, lambda: gradients


def torch_attention(job, x, *_):
    """scaled_dot_product_attention, which picks its fused CPU kernel"""
    if x.causal and x.T != x.S:
        raise Unsupported("is_causal aligns the first query with the first key")
    return keeping(lambda: [scaled_dot_product_attention(x.q, x.k, x.v, is_causal=x.causal,
                                                         enable_gqa=x.H != x.G)])


def torch_training(job, x, *_):
    """scaled_dot_product_attention and its gradients by autograd"""
    leaves = [t.detach().requires_grad_() for t in (x.q, x.k, x.v)]
    forward, out = torch_attention(job, SimpleNamespace(**{
        **vars(x), **dict(zip("qkv", leaves))}))

    def both():
        forward()
        return torch.autograd.grad(out()[0], leaves, x.dout)
    return keeping(both)


def onnx_attention(job, x, *_):
    """com.microsoft's MultiHeadAttention, or GroupQueryAttention; (B, T, H*E) in and out"""
    if x.H != x.G and not x.causal:
        raise Unsupported("GroupQueryAttention is always causal")
    feeds = {name: numpy_rows(t) for name, t in (("q", x.q), ("k", x.k), ("v", x.v))}
    if x.H == x.G:
        node = onnx_node("MultiHeadAttention", feeds, ["out"], num_heads=x.H,
                         unidirectional=int(x.causal))
    else:
        node = group_query_node(x, feeds, past=False)
    return onnx_session(job, x, node, feeds)


def onnx_decode(job, x, *_):
    """GroupQueryAttention; the cache is one buffer, in which the newest key takes its place"""
    feeds = {"q": numpy_rows(x.q), "k": numpy_rows(x.k[:, :, -x.T:]),
             "v": numpy_rows(x.v[:, :, -x.T:])}
    cache = {"past_k": x.k.clone().numpy(), "past_v": x.v.clone().numpy()}
    return onnx_session(job, x, group_query_node(x, feeds, past=True), feeds, cache)


# ---- matrix products -------------------------------------------------------------------------

def matrix_cases(packed):
    """The cases of matmul.txt whose second matrix is packed, or is not."""
    return [case for case, is_packed in read_cases("matmul.txt", "MKN", "packed")
            if is_packed == packed]


def matrix_inputs(size, dtype):
    """a (M, K), b (K, N), and weight (N, K), which is b's transpose as nn.Linear keeps it."""
    a, b = (torch.randn(size[r], size[c]).to(dtype) for r, c in ("MK", "KN"))
    return SimpleNamespace(**size, a=a, b=b, weight=b.T.contiguous())


def matrix_expected(x):
    """64 rows of the product."""
    rows = torch.linspace(0, x.M - 1, min(x.M, 64)).long()
    return [((rows,), x.a[rows].double() @ x.b.double())]


def our_matmul(job, x, context, *_):
    """mh_matmul"""
    out = torch.empty(x.M, x.N, dtype=x.a.dtype)
    views = [tensor_view(t) for t in (x.a, x.b, out)]
    return context.matmul(*views), lambda: [out]


def torch_mm(job, x, *_):
    """torch.mm into a tensor that is there already: MKL for f32, oneDNN for bf16"""
    out = torch.empty(x.M, x.N, dtype=x.a.dtype)
    return lambda: torch.mm(x.a, x.b, out=out), lambda: [out]


def openblas(job, x, *_):
    """numpy.matmul, which calls OpenBLAS"""
    if job.dtype != "f32":
        raise Unsupported("no bf16 in NumPy")
    a, b, out = x.a.numpy(), x.b.numpy(), np.empty((x.M, x.N), np.float32)
    threadpoolctl.threadpool_limits(job.threads, user_api="blas")
    return lambda: np.matmul(a, b, out=out), lambda: [torch.from_numpy(out)]


def our_linear(job, x, context, *_):
    """mh_matmul_packed, the weights packed beforehand"""
    out = torch.empty(x.M, x.N, dtype=x.a.dtype)
    views = [tensor_view(t) for t in (x.a, x.weight.T, out)]
    return context.matmul_packed(*views), lambda: [out]


def torch_linear(job, x, *_):
    """torch.nn.Linear without bias"""
    layer = torch.nn.Linear(x.K, x.N, bias=False, dtype=x.a.dtype).eval().requires_grad_(False)
    layer.weight.copy_(x.weight)
    return keeping(lambda: [layer(x.a)])


def torch_prepacked(job, x, *_):
    """What torch.compile makes of a Linear with frozen weights: oneDNN's layout, kept"""
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(x.weight, x.M)
    except RuntimeError as why:  # bf16 without AVX-512
        raise Unsupported(str(why).splitlines()[0]) from None
    return keeping(lambda: [torch.ops.mkldnn._linear_pointwise(x.a, packed, None, "none", [],
                                                               "")])


# ---- help for contenders ---------------------------------------------------------------------

def keeping(compute):
    """(call, results) of a function that returns new tensors."""
    kept = []

    def run():
        kept[:] = compute()
    return run, lambda: kept


def tensor_view(tensor):
    """Our view of a PyTorch tensor's memory."""
    dtype = next(ours for theirs, ours in DTYPES.values() if theirs == tensor.dtype)
    return mh.view(tensor.data_ptr(), dtype, tensor.shape, tensor.stride())


def numpy_rows(tensor):
    """(B, H, T, E) as the (B, T, H*E) that ONNX Runtime's operators take."""
    if tensor.dtype != torch.float32:
        raise Unsupported("its CPU operators take f32")
    return tensor.transpose(1, 2).flatten(2).contiguous().numpy()


def onnx_node(name, inputs, outputs, **attributes):
    """A node of ONNX Runtime's own operators."""
    if onnxruntime is None:
        raise Unsupported("onnx and onnxruntime are not installed")
    return onnx.helper.make_node(name, list(inputs), outputs, domain="com.microsoft",
                                 **attributes)


def group_query_node(x, feeds, past):
    """GroupQueryAttention over S keys; with `past`, all but the last of them are in a cache."""
    feeds["last_key"] = np.full(x.B, x.S - 1, np.int32)
    feeds["key_count"] = np.array(x.S, np.int32)
    cache = ["past_k", "past_v"] if past else ["", ""]
    return onnx_node("GroupQueryAttention", ["q", "k", "v", *cache, "last_key", "key_count"],
                     ["out", "new_k", "new_v"], num_heads=x.H, kv_num_heads=x.G)


def onnx_model(node, feeds):
    """A model of one node, as bytes."""
    def describe(name, array):
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return onnx.helper.make_tensor_value_info(name, kind, array.shape)

    inputs = [describe(name, array) for name, array in feeds.items()]
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
               for name in node.output]
    graph = onnx.helper.make_graph([node], "compare", inputs, outputs)
    versions = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=versions, ir_version=10)
    return model.SerializeToString()


def onnx_session(job, x, node, feeds, cache=None):
    """(call, results) of the node, inputs and output bound in place; `cache`, arrays past_k and
    past_v, is also where new_k and new_v go."""
    cache = cache or {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    # Its threads spin during a call, as by default, but not into the next contender's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(onnx_model(node, {**feeds, **cache}), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    out = np.empty((x.B, x.T, x.H * x.E), np.float32)
    binding.bind_ortvalue_output("out", onnxruntime.OrtValue.ortvalue_from_numpy(out))
    for name, array in cache.items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output(name.replace("past", "new"), value)
    for name in () if cache else node.output[1:]:
        binding.bind_output(name)
    result = torch.from_numpy(out).view(x.B, x.T, x.H, x.E).transpose(1, 2)

    def run():
        session.run_with_iobinding(binding)
    run.memory = feeds, cache
    return run, lambda: [result]


# ---- the table -------------------------------------------------------------------------------

def largest_error(found, wanted):
    """The largest error / the largest value."""
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


class Operation(NamedTuple):
    """One kind of work."""
    title: str
    cases: Callable
    inputs: Callable
    expected: Callable    # [(index, what a result has there in double precision)]
    tolerance: dict       # about twice the largest error that was seen
    contenders: dict
    gradients: bool = False  # PyTorch is to keep what it needs for them
    error: Callable = largest_error


ATTENTION = {"f32": 9e-6, "bf16": 7e-3}
TRAINING = {"f32": 9e-6, "bf16": 3.2e-2}  # PyTorch rounds on the way to a gradient
DECODE = {"f32": 1.5e-5, "bf16": 7e-3}
MATRIX = {"f32": 3e-6, "bf16": 7e-3}
OPERATIONS = {
    "attention": Operation(
        "attention forward, B x H x G x T x S x E",
        lambda: attention_cases("attention.txt"), attention_inputs, attention_expected, ATTENTION,
        {OURS: our_attention, "torch": torch_attention, "onnxruntime": onnx_attention}),
    "training": Operation(
        "attention forward and backward, B x H x G x T x S x E",
        lambda: attention_cases("attention.txt"), attention_inputs, gradients_expected, TRAINING,
        {OURS: our_training, "torch": torch_training}, gradients=True),
    "decode": Operation(
        "decoding, B x H x G x T x S x E: from our cache, from plain tensors, others",
        lambda: attention_cases("decode.txt"), attention_inputs, attention_expected, DECODE,
        {OURS: our_cached_attention, "ours-plain": our_attention, "torch": torch_attention,
         "onnxruntime": onnx_decode}),
    "matmul": Operation(
        "matrix product, M x K x N: mh_matmul, torch.mm, NumPy's OpenBLAS",
        lambda: matrix_cases(packed=False), matrix_inputs, matrix_expected, MATRIX,
        {OURS: our_matmul, "torch": torch_mm, "openblas": openblas}),
    "linear": Operation(
        "linear layer, M x K x N: mh_matmul_packed, torch.nn.Linear, the same prepacked",
        lambda: matrix_cases(packed=True), matrix_inputs, matrix_expected, MATRIX,
        {OURS: our_linear, "torch": torch_linear, "torch-packed": torch_prepacked}),
}
