# SPDX-License-Identifier: MIT
"""multihead.torch.scaled_dot_product_attention over its options: results and the gradients of all
inputs beside float64, with scores of 3 to 20; broadcasting, dtypes, dropout, errors."""
import math

import pytest

torch = pytest.importorskip("torch")

import multihead as mh
import multihead.torch as mht
import torch_reference as reference
from torch.nn import functional as F

B, H, G, T, S, E = 2, 4, 2, 21, 33, 16


def tensor(seed, *shape, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def inputs(T=T, S=S, Ev=E, G=G):
    q, k = tensor(1, B, H, T, E, scale=2.0), tensor(2, B, G, S, E, scale=1.5)
    return q, k, tensor(3, B, G, S, Ev)


KEEP = tensor(4, B, 1, T, S) > -0.3
BIAS = tensor(5, B, H, T, S, scale=2.0)
SINKS = tensor(6, H)
SLOPES = tensor(7, H).abs()
LENGTHS = torch.tensor([S, 9])
DOCUMENTS = (torch.arange(T) // 6).expand(B, T).contiguous(), (torch.arange(S) // 9).expand(
    B, S).contiguous()

CASES = {
    "plain": {},
    "causal": {"causal": "top-left"},
    "bottom-right": {"causal": "bottom-right"},
    "offset": {"causal": 5},
    "window": {"window": (4, 3)},
    "causal window": {"causal": "bottom-right", "window": (7, None)},
    "scale": {"scale": 0.4},
    "negative scale": {"scale": -0.3},
    "softcap": {"softcap": 2.0},
    "keep": {"mask": KEEP},
    "keep without heads": {"mask": KEEP[0, 0]},
    "add": {"mask": BIAS},
    "add broadcast": {"mask": BIAS[:1, :, :1]},
    "keep and bias": {"mask": KEEP, "bias": BIAS},
    "two biases": {"mask": BIAS, "bias": BIAS[0, :1].transpose(-2, -1).contiguous()
                   .transpose(-2, -1) * 0.5},
    "sinks": {"sinks": SINKS},
    "sinks, softcap, window": {"sinks": SINKS, "softcap": 3.0, "window": (5, 0)},
    "alibi": {"alibi": SLOPES},
    "key lengths": {"key_lengths": LENGTHS},
    "prefix": {"causal": "top-left", "prefix_lengths": torch.tensor([5, 12])},
    "documents": {"query_documents": DOCUMENTS[0], "key_documents": DOCUMENTS[1]},
    "everything": {"mask": KEEP, "bias": BIAS, "sinks": SINKS, "causal": "bottom-right",
                   "window": (20, None), "softcap": 4.0, "scale": 0.3, "key_lengths": LENGTHS},
}


def arguments(options):
    """The reference's options as scaled_dot_product_attention's."""
    return {"attn_mask" if name == "mask" else name: value for name, value in options.items()}


def leaves(q, k, v, options, dtype):
    """Copies that require gradients: q, k, v and the float tensors among the options."""
    found = {name: x.to(dtype, copy=True).requires_grad_()
             for name, x in (("q", q), ("k", k), ("v", v))}
    for name in ("mask", "bias", "sinks"):
        x = options.get(name)
        if x is not None and x.is_floating_point():
            found[name] = x.to(dtype, copy=True).requires_grad_()
    return found


def run(function, q, k, v, options, dtype, name_of=lambda name: name):
    """(results, gradients by name) of a loss that weighs out, weights and lse."""
    x = leaves(q, k, v, options, dtype)
    further = {name_of(name): x.get(name, value) for name, value in options.items()}
    results = function(x["q"], x["k"], x["v"], **further)
    loss = sum((r * tensor(10 + i, *r.shape).to(dtype))[torch.isfinite(r)].sum()
               for i, r in enumerate(results))
    loss.backward()
    return [r.detach() for r in results], {name: leaf.grad for name, leaf in x.items()}


def all_three(q, k, v, **options):
    return mht.scaled_dot_product_attention(q, k, v, weights=True, lse=True, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("Ev", [E, 24])
def test_results_and_gradients(case, Ev):
    q, k, v = inputs(Ev=Ev)
    options = CASES[case]
    exact, exact_gradients = run(reference.attention, q, k, v, options, torch.float64)
    assert 3 < (q.double() @ k.repeat_interleave(2, 1).double().mT).abs().max() / 4 < 20
    theirs, their_gradients = run(reference.attention, q, k, v, options, torch.float32)
    ours, gradients = run(all_three, q, k, v, options, torch.float32,
                          lambda name: "attn_mask" if name == "mask" else name)
    for what, a, b, c in zip(("out", "weights", "lse"), ours, theirs, exact):
        reference.assert_as_exact(a, b, c, what)
    for name in exact_gradients:
        reference.assert_as_exact(gradients[name], their_gradients[name], exact_gradients[name],
                                  "gradient of " + name)


@pytest.mark.parametrize("case", CASES)
def test_each_way_gives_the_same_bits(case):
    """The direct call, the autograd function, the operator, and the extension on NumPy's arrays."""
    q, k, v = inputs()
    options = arguments(CASES[case])
    direct = mht.scaled_dot_product_attention(q, k, v, **options)
    with_grad = mht.scaled_dot_product_attention(
        *(x.clone().requires_grad_() for x in (q, k, v)), **options)
    assert with_grad.requires_grad and torch.equal(direct, with_grad)

    class Subclass(torch.Tensor):
        pass

    operator = mht.scaled_dot_product_attention(q.as_subclass(Subclass), k, v, **options)
    assert torch.equal(direct, operator.as_subclass(torch.Tensor))
    arrays = {name: x.numpy() if isinstance(x, torch.Tensor) else x
              for name, x in CASES[case].items()}
    masks = tuple(arrays.pop(name) for name in ("mask", "bias") if name in arrays)
    if masks:
        arrays["mask"] = masks if len(masks) > 1 else masks[0]
    assert torch.equal(direct, torch.from_numpy(mh.attention(q.numpy(), k.numpy(), v.numpy(),
                                                             **arrays)))


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"scale": 0.5}, {"attn_mask": KEEP}, {"attn_mask": BIAS},
    {"enable_gqa": True}, {"enable_gqa": True, "attn_mask": KEEP}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_beside_torch(options, dtype):
    """PyTorch's own arguments, results in its memory order, half precision."""
    q, k, v = inputs(G=G if options.get("enable_gqa") else H)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    options = {name: x.to(dtype) if name == "attn_mask" and x.is_floating_point() else x
               for name, x in options.items()}
    theirs = F.scaled_dot_product_attention(q, k, v, **options)
    ours = mht.scaled_dot_product_attention(q, k, v, **options)
    double = {name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
              for name, x in options.items()}
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **double)
    assert ours.dtype == dtype and ours.shape == theirs.shape
    if k.shape[1] == H:
        assert ours.stride() == theirs.stride()
    reference.assert_as_exact(ours, theirs, exact, "out")


def test_sabotage_is_noticed():
    """The bounds above are tight enough: each of these mistakes is far outside of them."""
    q, k, v = inputs()
    right = {"scale": 0.3, "softcap": 4.0, "mask": KEEP, "sinks": SINKS}
    exact, theirs = ([r.detach() for r in reference.attention(
        *(x.to(dtype) for x in (q, k, v)), **right)] for dtype in (torch.float64, torch.float32))
    call = {"attn_mask": KEEP, "scale": 0.3, "softcap": 4.0, "sinks": SINKS}
    reference.assert_as_exact(mht.scaled_dot_product_attention(q, k, v, **call), theirs[0],
                              exact[0], "out")
    wrong = [{"scale": 0.3001}, {"softcap": None}, {"softcap": 4.001}, {"attn_mask": None},
             {"sinks": None}, {"sinks": SINKS.flip(0)}, {"window": (12, None)}]
    for change in wrong:
        out = mht.scaled_dot_product_attention(q, k, v, **{**call, **change})
        with pytest.raises(AssertionError, match="out: error"):
            reference.assert_as_exact(out, theirs[0], exact[0], "out")
    swapped = mht.scaled_dot_product_attention(q, k.flip(1), v, **call)  # a wrong head map
    with pytest.raises(AssertionError):
        reference.assert_as_exact(swapped, theirs[0], exact[0], "out")


# ---- shapes --------------------------------------------------------------------------------------

@pytest.mark.parametrize("shapes", [
    ((5, 8), (7, 8), (7, 8)),
    ((3, 5, 8), (3, 7, 8), (3, 7, 6)),
    ((2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8)),
    ((1, 4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 8)),
    ((3, 4, 5, 8), (1, 4, 7, 8), (3, 4, 7, 8)),
    ((4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)),
    ((2, 1, 4, 5, 8), (3, 4, 7, 8), (1, 3, 4, 7, 8)),
])
@pytest.mark.parametrize("grad", [False, True])
def test_shapes_as_torch_broadcasts_them(shapes, grad):
    q, k, v = (tensor(i, *shape, scale=2.0).requires_grad_(grad) for i, shape in enumerate(shapes))
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    ours = mht.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs)
    if grad:
        dout = tensor(9, *theirs.shape)
        for a, b in zip(torch.autograd.grad(ours, (q, k, v), dout),
                        torch.autograd.grad(theirs, (q, k, v), dout)):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_strides():
    """Views of a packed projection, negative bits of a conjugate, and expanded tensors."""
    packed = tensor(1, B, T, 3, H, E, scale=2.0)
    q, k, v = packed.permute(2, 0, 3, 1, 4)
    expected = mht.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous())
    assert torch.equal(mht.scaled_dot_product_attention(q, k, v), expected)
    one = k[:, :1].expand(B, H, T, E)
    torch.testing.assert_close(mht.scaled_dot_product_attention(q, one, one),
                               F.scaled_dot_product_attention(q, one, one))
    negative = torch.complex(q.contiguous(), -q.contiguous()).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(mht.scaled_dot_product_attention(negative, k, v), expected)


def test_packed_sequences():
    q, k, v = (tensor(i, 1, H, 20, E, scale=2.0).requires_grad_() for i in range(3))
    starts = torch.tensor([0, 7, 8, 20])
    out, lse = mht.scaled_dot_product_attention(q, k, v, query_starts=starts, key_starts=starts,
                                                causal="bottom-right", lse=True)
    documents = torch.bucketize(torch.arange(20), starts[1:], right=True).unsqueeze(0)
    other = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    expected = mht.scaled_dot_product_attention(*other, query_documents=documents,
                                                key_documents=documents, is_causal=True)
    torch.testing.assert_close(out, expected)
    dout = tensor(9, *out.shape)
    for a, b in zip(torch.autograd.grad(out, (q, k, v), dout),
                    torch.autograd.grad(expected, other, dout)):
        torch.testing.assert_close(a, b)


def test_rows_without_a_key_are_zero():
    q, k, v = (x.requires_grad_() for x in inputs(G=H))
    mask = KEEP.clone()
    mask[0, :, 3] = False
    out, w, lse = all_three(q, k, v, attn_mask=mask)
    assert not out[0, :, 3].any() and not w[0, :, 3].any() and (lse[0, :, 3] == -math.inf).all()
    out.sum().backward()
    assert not q.grad[0, :, 3].any() and torch.isfinite(k.grad).all()


# ---- dropout -------------------------------------------------------------------------------------

def kept_weights(q, k, p, S):
    """The weights after dropout: attention to the rows of a unit matrix."""
    unit = torch.eye(S).expand(*k.shape[:2], S, S)
    return mht.scaled_dot_product_attention(q, k, unit, dropout_p=p)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_statistics(p):
    q, k = tensor(1, 4, 8, 64, 16), tensor(2, 4, 8, 64, 16)
    torch.manual_seed(3)
    weights = mht.scaled_dot_product_attention(q, k, k, weights=True)[1]
    kept = kept_weights(q, k, p, 64)
    ratio = kept / weights
    dropped = ratio == 0
    n = dropped.numel()
    assert abs(dropped.double().mean() - p) < 5 * math.sqrt(p * (1 - p) / n)
    torch.testing.assert_close(ratio[~dropped], torch.full((int((~dropped).sum()),), 1 / (1 - p)),
                               rtol=1e-4, atol=0)
    assert (dropped.double().mean(-1).flatten(1).mean(1) - p).abs().max() < 0.05


def test_dropout_follows_manual_seed_and_its_gradient_the_same_pattern():
    q, k, v = (x.requires_grad_() for x in inputs(G=H))
    torch.manual_seed(5)
    keep = (kept_weights(q, k, 0.4, S) != 0).detach() / 0.6
    torch.manual_seed(5)
    out = mht.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
    other = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = reference.attention(*other, keep=keep.double())[0]
    torch.testing.assert_close(out, expected.float(), rtol=1e-4, atol=1e-5)
    dout = tensor(9, *out.shape)
    for a, b in zip(torch.autograd.grad(out, (q, k, v), dout),
                    torch.autograd.grad(expected, other, dout.double())):
        torch.testing.assert_close(a, b.float(), rtol=1e-4, atol=2e-5)
    again = mht.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
    assert not torch.equal(out, again)
    assert not mht.scaled_dot_product_attention(q, k, v, dropout_p=1.0).any()


# ---- modes and errors ----------------------------------------------------------------------------

def test_autocast():
    q, k, v = inputs(G=H)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = (f(q, k, v) for f in (mht.scaled_dot_product_attention,
                                             F.scaled_dot_product_attention))
    assert ours.dtype == theirs.dtype == torch.bfloat16
    exact = F.scaled_dot_product_attention(*(x.bfloat16().double() for x in (q, k, v)))
    reference.assert_as_exact(ours, theirs, exact, "out")


def test_checkpoint_inference_mode_and_parameters():
    from torch.utils.checkpoint import checkpoint
    q, k, v = (x.requires_grad_() for x in inputs())
    out = mht.scaled_dot_product_attention(q, k, v, is_causal=True)
    again = checkpoint(mht.scaled_dot_product_attention, q, k, v, None, 0.0, True,
                       use_reentrant=False)
    dout = tensor(9, *out.shape)
    for a, b in zip(torch.autograd.grad(out, (q, k, v), dout),
                    torch.autograd.grad(again, (q, k, v), dout)):
        assert torch.equal(a, b)
    with torch.inference_mode():
        assert torch.equal(out, mht.scaled_dot_product_attention(q, k, v, is_causal=True))
    learned = torch.nn.Parameter(q.detach())
    assert torch.equal(out, mht.scaled_dot_product_attention(learned, k, v, is_causal=True))


def test_second_derivatives_are_refused():
    q, k, v = (x.requires_grad_() for x in inputs())
    out = mht.scaled_dot_product_attention(q, k, v)
    (dq,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="first-order"):
        dq.sum().backward()


@pytest.mark.parametrize("change, kind, message", [
    ({"query": torch.zeros(1, 1, 2, 4, dtype=torch.float64)}, TypeError, "float64"),
    ({"query": torch.zeros(1, 1, 2, 4, dtype=torch.int64)}, (TypeError, ValueError), None),
    ({"query": torch.zeros(1, 1, 2, 4, device="meta")}, (ValueError, RuntimeError), None),
    ({"query": torch.zeros(1, 1, 2, 5)}, ValueError, None),
    ({"query": torch.zeros(4)}, ValueError, "dimensions"),
    ({"query": torch.zeros(1, 1, 2, 4).to_sparse()}, (TypeError, ValueError, RuntimeError), None),
    ({"key": None}, (TypeError, AttributeError), None),
    ({"attn_mask": torch.zeros(3, 3)}, ValueError, "mask"),
    ({"attn_mask": torch.zeros(2, 2, dtype=torch.int64)}, (TypeError, ValueError), None),
    ({"dropout_p": 1.5}, ValueError, "dropout_p"),
    ({"is_causal": True, "causal": 1}, ValueError, "is_causal"),
    ({"sinks": torch.zeros(3)}, ValueError, "sinks"),
    ({"causal": "sideways"}, (TypeError, ValueError), "causal"),
    ({"precision": "f8"}, ValueError, "precision"),
    ({"window": 3}, TypeError, None),
])
def test_errors(change, kind, message):
    call = {"query": torch.zeros(1, 1, 2, 4), "key": torch.zeros(1, 1, 2, 4),
            "value": torch.zeros(1, 1, 2, 4), **change}
    with pytest.raises(kind, match=message):
        mht.scaled_dot_product_attention(**call)
    grad = torch.zeros(1, 1, 2, 4, requires_grad=True)
    if "query" in change:
        call["value"] = grad
    else:
        call["query"] = grad
    with pytest.raises(kind, match=message):
        mht.scaled_dot_product_attention(**call)
