# SPDX-License-Identifier: MIT
"""activate and restore: unmodified programs of PyTorch on these kernels, by PyTorch's registry."""
import threading

import pytest

torch = pytest.importorskip("torch")

import multihead as mh
import multihead.torch as mht
import torch_reference as reference
from torch.nn import functional as F

B, H, T, S, E = 2, 4, 11, 17, 16


def tensor(seed, *shape, scale=2.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def inputs(dtype=torch.float32, S=S):
    return tuple(x.to(dtype).requires_grad_() for x in (
        tensor(1, B, H, T, E), tensor(2, B, H, S, E), tensor(3, B, H, S, E)))


@pytest.fixture(autouse=True)
def restored():
    yield
    mht.restore()


def run(dtype, **options):
    x = inputs(dtype)
    options = {name: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
               for name, v in options.items()}
    out = F.scaled_dot_product_attention(*x, **options)
    return out.detach(), *torch.autograd.grad(out, x, tensor(9, *out.shape).to(dtype))


KEEP = tensor(4, B, 1, T, S) > 0
KEEP[0, :, 3] = False  # a row without a key


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": KEEP[1:]},
    {"attn_mask": tensor(5, T, S)}, {"attn_mask": tensor(5, B, H, T, S)}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_and_gradients(options, dtype):
    theirs, exact = run(dtype, **options), None
    if dtype == torch.float32:
        exact = run(torch.float64, **options)
    else:
        with torch.no_grad():
            rounded = [x.detach().bfloat16() for x in inputs()]
        x = [r.double().requires_grad_() for r in rounded]
        double = {name: v.bfloat16().double() if isinstance(v, torch.Tensor)
                  and v.is_floating_point() else v for name, v in options.items()}
        out = F.scaled_dot_product_attention(*x, **double)
        exact = out.detach(), *torch.autograd.grad(
            out, x, tensor(9, *out.shape).bfloat16().double())
    with mht.activate():
        ours = run(dtype, **options)
    for what, a, b, c in zip(("out", "dq", "dk", "dv"), ours, theirs, exact):
        assert a.dtype == dtype and a.stride() == b.stride()
        reference.assert_as_exact(a, b, c, what)


def test_our_bits():
    x = inputs()
    with mht.activate():
        out = F.scaled_dot_product_attention(*x)
    assert torch.equal(out, mht.scaled_dot_product_attention(*x))
    assert not torch.equal(out, F.scaled_dot_product_attention(*x))


def test_a_row_without_a_key_as_torch():
    theirs = run(torch.float32, attn_mask=KEEP)
    with mht.activate():
        ours = run(torch.float32, attn_mask=KEEP)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", [True, False])
def test_a_graph_outlives_activation(first):
    """Forward by one and backward by the other: they have one convention of lse."""
    x, other = inputs(), inputs()
    dout = tensor(9, B, H, T, E)
    if first:
        with mht.activate():
            out = F.scaled_dot_product_attention(*x)
        found = torch.autograd.grad(out, x, dout)
    else:
        out = F.scaled_dot_product_attention(*x)
        with mht.activate():
            found = torch.autograd.grad(out, x, dout)
    expected = torch.autograd.grad(F.scaled_dot_product_attention(*other), other, dout)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_not_computed_here_is_torchs():
    """float64 with gradients, dropout, Ev != E, 3 dimensions, meta tensors, 0 sizes."""
    x = inputs(torch.float64)
    cases = [
        lambda: torch.stack(torch.autograd.grad(
            F.scaled_dot_product_attention(*x).sum(), x[:1])),
        lambda: F.scaled_dot_product_attention(*(a.float() for a in x[:2]),
                                               tensor(3, B, H, S, 5)),
        lambda: F.scaled_dot_product_attention(*(a[0].float() for a in x)),
        lambda: F.scaled_dot_product_attention(*(a.float()[:, :, :0] for a in x[:1]),
                                               *(a.float() for a in x[1:])),
        lambda: F.scaled_dot_product_attention(*(a.float() for a in inputs(S=T)),
                                               is_causal=True, dropout_p=0.5),
    ]
    for case in cases:
        torch.manual_seed(0)
        expected = case()
        with mht.activate():
            torch.manual_seed(0)
            assert torch.equal(case(), expected)
    with mht.activate():
        meta = F.scaled_dot_product_attention(*(a.float().to("meta") for a in x))
    assert meta.shape == (B, H, T, E)


def test_activation_is_a_switch_and_a_context():
    x = inputs()
    theirs = F.scaled_dot_product_attention(*x)
    assert not mht.is_active()
    mht.activate()
    mht.activate()
    assert mht.is_active() and not torch.equal(F.scaled_dot_product_attention(*x), theirs)
    with mht.activate():
        pass
    assert mht.is_active()  # it was before the block
    mht.restore()
    mht.restore()
    assert not mht.is_active() and torch.equal(F.scaled_dot_product_attention(*x), theirs)
    with pytest.raises(ZeroDivisionError), mht.activate():
        1 / 0
    assert not mht.is_active()
    for _ in range(5):
        with mht.activate():
            ours = F.scaled_dot_product_attention(*x)
    assert torch.equal(ours, mht.scaled_dot_product_attention(*x))


def test_under_compile():
    torch._dynamo.reset()
    x, other = inputs(), inputs()
    with mht.activate():
        function = torch.compile(F.scaled_dot_product_attention, backend="aot_eager",
                                 fullgraph=True)
        out = function(*x)
        assert torch.equal(out, mht.scaled_dot_product_attention(*other))
        found = torch.autograd.grad(out.sum(), x)
    out = mht.scaled_dot_product_attention(*other)
    for a, b in zip(found, torch.autograd.grad(out.sum(), other)):
        torch.testing.assert_close(a, b)


def test_threads():
    x = [a.detach() for a in inputs()]
    expected = mht.scaled_dot_product_attention(*x)
    wrong = []

    def work():
        for _ in range(50):
            if not torch.equal(F.scaled_dot_product_attention(*x), expected):
                wrong.append(1)

    with mht.activate():
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong
