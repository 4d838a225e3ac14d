# SPDX-License-Identifier: MIT
"""multihead.torch under torch.compile, torch.export, function transforms; the custom operators
under opcheck; and that no attention kernel of PyTorch runs."""
import pytest

torch = pytest.importorskip("torch")

import multihead as mh
import multihead.torch as mht
from multihead.torch._calls import Options
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

B, H, G, T, S, E = 2, 4, 2, 9, 13, 8


def tensor(seed, *shape, scale=1.5):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def inputs(grad=False, Ev=E):
    return tuple(x.requires_grad_(grad) for x in (
        tensor(1, B, H, T, E), tensor(2, B, G, S, E), tensor(3, B, G, S, Ev)))


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "keep": {"attn_mask": tensor(4, B, 1, T, S) > 0},
    "bias, sinks, softcap, window": {"bias": tensor(5, H, T, S), "sinks": tensor(6, H),
                                     "softcap": 3.0, "window": (6, 2), "scale": 0.4},
    "alibi, lengths": {"alibi": True, "key_lengths": torch.tensor([S, 5])},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_in_one_graph(case, backend):
    torch._dynamo.reset()

    def function(q, k, v):
        out, w = mht.scaled_dot_product_attention(q * 1.5, k, v, weights=True, **CASES[case])
        return out.tanh(), w

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    found, expected = inputs(True), inputs(True)
    a, b = compiled(*found), function(*expected)
    for x, y in zip(a, b):
        assert torch.equal(x, y)
    a[0].sum().backward()
    b[0].sum().backward()
    for x, y in zip(found, expected):
        torch.testing.assert_close(x.grad, y.grad)
    with torch.no_grad():
        for x, y in zip(compiled(*found), b):
            assert torch.equal(x, y)


def test_compile_dynamic_shapes_and_dropout():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, example):
        graphs.append(graph)
        return graph.forward

    function = torch.compile(lambda q: mht.scaled_dot_product_attention(q, q, q, dropout_p=0.5),
                             backend=backend, fullgraph=True, dynamic=True)
    for rows in (5, 9, 17):
        q = tensor(rows, 1, 2, rows, 8)
        torch.manual_seed(0)
        compiled = function(q)
        torch.manual_seed(0)
        assert torch.equal(compiled, mht.scaled_dot_product_attention(q, q, q, dropout_p=0.5))
    assert len(graphs) == 1


def test_inductor():
    """The default backend needs a C++ compiler; one small graph."""
    torch._dynamo.reset()

    def function(q, k, v):
        return mht.scaled_dot_product_attention(q, k, v, is_causal=True) * 2

    found, expected = inputs(True), inputs(True)
    try:
        out = torch.compile(function, fullgraph=True)(*found)
    except torch._inductor.exc.InductorError as e:
        pytest.skip(f"torch.compile has no compiler: {str(e).splitlines()[0]}")
    assert torch.equal(out, function(*expected))
    out.sum().backward()
    function(*expected).sum().backward()
    for x, y in zip(found, expected):
        torch.testing.assert_close(x.grad, y.grad)


def test_export():
    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return mht.scaled_dot_product_attention(q, k, v, is_causal=True)

    program = torch.export.export(Model(), inputs())
    names = [str(node.target) for node in program.graph.nodes]
    assert any("multihead.attention" in name for name in names)
    assert torch.equal(program.module()(*inputs()), Model()(*inputs()))


@pytest.mark.parametrize("case", CASES)
def test_opcheck(case):
    given = CASES[case]
    options = Options(
        alibi=torch.empty(0) if given.get("alibi") else None, key_lengths=given.get("key_lengths"),
        causal="top-left" if given.get("is_causal") else "none",
        window_left=given.get("window", (-1, -1))[0], window_right=given.get("window", (-1, -1))[1],
        scale=given.get("scale"), softcap=given.get("softcap", 0.0))
    bias = given.get("bias")
    sinks = given.get("sinks")
    arguments = (*inputs(True, Ev=5), given.get("attn_mask"),
                 None if bias is None else bias.clone().requires_grad_(),
                 None if sinks is None else sinks.clone().requires_grad_(), *options)
    torch.library.opcheck(torch.ops.multihead.attention, (*arguments, False))
    torch.library.opcheck(torch.ops.multihead.attention, (*arguments, True))


def test_function_transforms_are_for_activate():
    q, k, v = (tensor(i, B, H, T, E) for i in range(3))

    def loss(attention, q):
        return attention(q, k, v).square().sum()

    with pytest.raises(NotImplementedError, match="activate"):
        torch.func.grad(lambda q: loss(mht.scaled_dot_product_attention, q))(q)
    expected = q.clone().requires_grad_()
    loss(mht.scaled_dot_product_attention, expected).backward()
    with mht.activate():
        found = torch.func.grad(lambda q: loss(F.scaled_dot_product_attention, q))(q)
    torch.testing.assert_close(found, expected.grad)


# ---- which kernels run ---------------------------------------------------------------------------

# Parts of names of operators that compute attention, or a part of it.
ATTENTION = ("softmax", "bmm", "matmul", "mm.", "scaled_dot_product", "flash", "baddbmm", "einsum",
             "logsumexp", "exp.")


class Record(TorchDispatchMode):
    """The operators that PyTorch's dispatcher is asked for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.append(str(function))
        return function(*arguments, **(options or {}))

    def attention(self):
        return [name for name in self.names
                if any(word in name for word in ATTENTION) and "multihead" not in name]


def profiled(function):
    """What ran, by PyTorch's profiler, which changes no path; and the result."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        found = function()
    names = {event.key for event in profile.key_averages()}
    return found, {name for name in names if any(word.strip(".") in name for word in ATTENTION)
                   and "multihead" not in name and "exp" not in name}


def test_the_recorder_sees_torchs_kernels():
    q, k, v = inputs()
    with Record() as record:
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert record.attention()
    assert profiled(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))[1]


@pytest.mark.parametrize("case", CASES)
def test_no_kernel_of_torch_runs(case):
    options = CASES[case]
    q, k, v = inputs()
    arrays = {name: x.numpy() if isinstance(x, torch.Tensor) else x
              for name, x in options.items()}
    if arrays.pop("is_causal", False):
        arrays["causal"] = "top-left"
    for name in ("attn_mask", "bias"):
        if name in arrays:
            arrays["mask"] = arrays.pop(name)
    expected = torch.from_numpy(mh.attention(q.numpy(), k.numpy(), v.numpy(), **arrays))

    direct, ran = profiled(lambda: mht.scaled_dot_product_attention(q, k, v, **options))
    assert not ran and torch.equal(direct, expected)
    with Record() as record:
        recorded = mht.scaled_dot_product_attention(q, k, v, **options)
    assert "multihead.attention.default" in record.names and not record.attention()
    assert torch.equal(recorded, expected)

    def training():
        x = inputs(True)
        out = mht.scaled_dot_product_attention(*x, **options)
        return out, torch.autograd.grad(out, x, torch.ones_like(out))

    (out, gradients), ran = profiled(training)
    assert not ran and torch.equal(out, expected)
    found, lse = mh.attention(q.numpy(), k.numpy(), v.numpy(), lse=True, **arrays)
    of_c = mh.attention_backward(q.numpy(), k.numpy(), v.numpy(), found, lse,
                                 torch.ones_like(out).numpy(), **arrays)
    for a, b in zip(gradients, of_c):
        assert torch.equal(a, torch.from_numpy(b))


def test_activated_torch_runs_these_kernels():
    q, k, v = (tensor(i, B, H, T, E).requires_grad_() for i in range(3))
    with mht.activate():
        def training():
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return out, torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
        (out, gradients), ran = profiled(training)
    assert {name for name in ran if "scaled_dot_product" not in name} == set()
    x = [a.detach().numpy() for a in (q, k, v)]
    expected, lse = mh.attention(*x, causal="top-left", lse=True)
    assert torch.equal(out, torch.from_numpy(expected))
    of_c = mh.attention_backward(*x, expected, lse, torch.ones_like(out).numpy(),
                                 causal="top-left")
    for a, b in zip(gradients, of_c):
        assert torch.equal(a, torch.from_numpy(b))
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert not torch.equal(theirs, out)  # PyTorch's own bits differ: the test can fail
