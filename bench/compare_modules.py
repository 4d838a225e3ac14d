# SPDX-License-Identifier: MIT
"""The modules that bench/compare.py measures: our multi-head attention and encoder layer beside
PyTorch's. Both have the same parameters, which are PyTorch's, drawn anew for each case.

In bf16 PyTorch's parameters and tensors are bf16, or autocast makes them so. Ours stay f32, with
the same values, and are multiplied with MH_PRECISION_BF16.
"""

import math
from types import SimpleNamespace

import torch

import multihead_nn_ctypes as nn
from compare_operations import OURS, SHAPES, Case, Operation, keeping, tensor_view

PRECISIONS = {"f32": nn.PRECISION_F32, "bf16": nn.PRECISION_BF16}


def module_cases(letters):
    """The cases of modules.txt, with these of its sizes."""
    lines = [line.split() for line in (SHAPES / "modules.txt").read_text().splitlines()]
    cases = []
    for name, *sizes, activation, mask in (f for f in lines if f and not f[0].startswith("#")):
        size = {key: int(n) for key, n in zip("BTDHF", sizes) if key in letters}
        cases.append(Case(name, dict(size, activation=activation, causal=mask == "causal")))
    return cases


# ---- PyTorch's modules -----------------------------------------------------------------------

def new_module(x, dtype):
    """nn.TransformerEncoderLayer, or nn.MultiheadAttention if there is no F, for x."""
    if "F" in vars(x):
        module = torch.nn.TransformerEncoderLayer(x.D, x.H, x.F, 0.0, x.activation,
                                                  batch_first=True)
    else:
        module = torch.nn.MultiheadAttention(x.D, x.H, batch_first=True)
    if "state" in vars(x):
        module.load_state_dict(x.state)
    return module.to(dtype)


def apply_module(x, module, src):
    """out, causal if the case is: PyTorch wants a mask and a hint that it is the causal one."""
    mask = x.mask.to(src.dtype) if x.causal else None
    if "F" in vars(x):
        return lambda: module(src, src_mask=mask, is_causal=x.causal)
    return lambda: module(src, src, src, need_weights=False, attn_mask=mask,
                          is_causal=x.causal)[0]


def module_inputs(size, dtype):
    """src and dout (B, T, D), the parameters as f32 with no more digits than dtype has."""
    x = SimpleNamespace(**size)
    x.src, x.dout = (torch.randn(x.B, x.T, x.D).to(dtype) for _ in range(2))
    x.mask = torch.nn.Transformer.generate_square_subsequent_mask(x.T)
    state = new_module(x, torch.float32).state_dict()
    for tensor in state.values():
        if tensor.dim() == 1:  # else a bias is 0 and a norm's weight 1
            tensor.add_(torch.randn_like(tensor), alpha=0.1)
    x.state = {name: tensor.to(dtype).float() for name, tensor in state.items()}
    return x


def module_expected(x):
    """The last sequence."""
    with torch.no_grad():
        out = apply_module(x, new_module(x, torch.float64), x.src[-1:].double())()
    return [((-1,), out[0])]


def module_gradients_expected(x):
    """All gradients: of the last sequence of src, and of the parameters."""
    gradients = with_gradients(x, new_module(x, torch.float64), torch.float64)()
    return [((-1,), gradients[0][-1]), *(((...,), g) for g in gradients[1:])]


def error_in_norm(found, wanted):
    """|found - wanted| / |wanted|, Euclidean. The largest error would tell little: where an input
    of ReLU is 0 but for rounding, its whole gradient is there or is not."""
    return ((found - wanted).norm() / wanted.norm()).item()


def with_gradients(x, module, dtype, wrap=lambda forward: forward):
    """Forward, wrapped, and backward: the gradients of src and of the parameters."""
    src = x.src.to(dtype).requires_grad_()
    parameters = dict(module.named_parameters())
    leaves = [src, *(parameters[name] for name in x.state)]
    forward = wrap(apply_module(x, module, src))
    dout = x.dout.to(forward().dtype)
    return lambda: torch.autograd.grad(forward(), leaves, dout)


# ---- contenders ------------------------------------------------------------------------------

def our_module(job, x, context):
    """Our module with the parameters of x."""
    if "F" in vars(x):
        module = nn.EncoderLayer(context, PRECISIONS[job.dtype], x.activation, x.D, x.H, x.F)
    else:
        module = nn.MultiheadAttention(context, PRECISIONS[job.dtype], x.D, x.H)
    module.load(x.state)
    return module


def our_mha(job, x, context, library):
    """mh_mha_forward"""
    src = x.src.float()
    out = torch.empty_like(src)
    run = our_module(job, x, context).forward(library.attention_options(x.causal),
                                              tensor_view(src), tensor_view(out))
    run.memory = src
    return run, lambda: [out]


def our_encoder(job, x, context, _):
    """mh_transformer_forward of an encoder layer"""
    src = x.src.float()
    out = torch.empty_like(src)
    run = our_module(job, x, context).forward(x.causal, tensor_view(src), tensor_view(out))
    run.memory = src
    return run, lambda: [out]


def our_encoder_training(job, x, context, _):
    """mh_transformer_forward with a tape, and mh_transformer_backward"""
    module, src, dout = our_module(job, x, context), x.src.float(), x.dout.float()
    out, dsrc = torch.empty_like(src), torch.empty_like(src)
    gradients = torch.full((module.floats,), math.nan)  # what is not zeroed first shows
    views = [tensor_view(t) for t in (src, out, dout)]
    run = module.forward_backward(x.causal, *views, gradients.data_ptr(), tensor_view(dsrc))
    run.memory = src, out, dout
    parts = [gradients[module.place(name)].view_as(t) for name, t in x.state.items()]
    return run, lambda: [dsrc, *parts]


def torch_inference(job, x, *_):
    """The ways of PyTorch's module: the fast path of eval() or the usual one, and for bf16 also
    f32 parameters under autocast."""
    forward = apply_module(x, new_module(x, x.src.dtype).eval(), x.src)
    ways = {"fast path": through(True, forward), "usual path": through(False, forward)}
    if job.dtype == "bf16":
        mixed = apply_module(x, new_module(x, torch.float32).eval(), x.src.float())
        ways["autocast"] = through(True, autocast(mixed))
    return ways


def torch_training(job, x, *_):
    """Forward and backward by autograd; for bf16 with bf16 parameters, or with autocast."""
    ways = {"usual path": keeping(with_gradients(x, new_module(x, x.src.dtype), x.src.dtype))}
    if job.dtype == "bf16":
        mixed = with_gradients(x, new_module(x, torch.float32), torch.float32, autocast)
        ways["autocast"] = keeping(mixed)
    return ways


def torch_compiled_inference(_, x, *__):
    """What torch.compile makes of the module."""
    module = compiled(new_module(x, x.src.dtype).eval())
    return through(False, apply_module(x, module, x.src))


def torch_compiled_training(_, x, *__):
    """What torch.compile makes of the module and its gradients."""
    return keeping(with_gradients(x, new_module(x, x.src.dtype), x.src.dtype, compiled))


def through(fast, forward):
    """(call, results) of a forward pass with the fast path on or off, which is global state."""
    def run():
        torch.backends.mha.set_fastpath_enabled(fast)
        return [forward()]
    return keeping(run)


def compiled(function):
    """The function or module, to be compiled when first called, for its one shape."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def autocast(function):
    """The function under bf16 autocast."""
    def run():
        with torch.autocast("cpu", torch.bfloat16):
            return function()
    return run


# ---- the table -------------------------------------------------------------------------------

FORWARD = {"f32": 2.5e-6, "bf16": 1.5e-2}
BACKWARD = {"f32": 3e-6, "bf16": 0.11}  # PyTorch rounds on the way to a gradient
MODULES = {
    "mha": Operation(
        "multi-head attention module forward, B x T x D x H",
        lambda: module_cases("BTDH"), module_inputs, module_expected, FORWARD,
        {OURS: our_mha, "torch": torch_inference, "torch-compile": torch_compiled_inference}),
    "encoder": Operation(
        "encoder layer forward, B x T x D x H x F",
        lambda: module_cases("BTDHF"), module_inputs, module_expected, FORWARD,
        {OURS: our_encoder, "torch": torch_inference, "torch-compile": torch_compiled_inference}),
    "encoder-training": Operation(
        "encoder layer forward and backward, B x T x D x H x F",
        lambda: module_cases("BTDHF"), module_inputs, module_gradients_expected, BACKWARD,
        {OURS: our_encoder_training, "torch": torch_training,
         "torch-compile": torch_compiled_training}, gradients=True, error=error_in_norm),
}
