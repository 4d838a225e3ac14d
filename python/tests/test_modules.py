# SPDX-License-Identifier: MIT
"""MultiheadAttention beside nn.MultiheadAttention: results, gradients, parameters, errors."""
import copy
import pickle

import numpy as np
import pytest

import multihead as mh

torch = pytest.importorskip("torch")

B, T, S, D, H = 3, 7, 9, 24, 4
SCALE = 2.0  # inputs and weights at which a softmax is far from uniform


def array(seed, *shape):
    return (SCALE * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def pair(*arguments, **options):
    """torch's module and ours with the same values, larger than those of initialisation."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(*arguments, **options)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.randn_like(p) * (0.5 if p.dim() > 1 else 0.2))
    ours = mh.MultiheadAttention(*arguments, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs.double(), ours


def close(found, expected, tolerance=1e-5):
    found, expected = np.asarray(found, np.float64), expected.detach().double().numpy()
    assert found.shape == expected.shape
    bound = tolerance * max(1.0, np.abs(expected).max())
    assert np.abs(found - expected).max() <= bound


def double(*arrays):
    return [torch.from_numpy(a).double().requires_grad_() for a in arrays]


def check(theirs, ours, query, key, value, tolerance=1e-5, **call):
    """Results and all gradients, ours in f32 beside torch's in double."""
    q, k, v = double(query, key, value)
    masks = {
        name: torch.from_numpy(m) if m.dtype == bool else torch.from_numpy(m).double()
        for name, m in call.items()
        if isinstance(m, np.ndarray)
    }
    expected, weights = theirs(q, k, v, **(call | masks))
    tape = mh.Tape()
    out, w = ours(query, key, value, tape=tape, **call)
    close(out, expected, tolerance)
    if weights is None:
        assert w is None
    else:
        close(w, weights, tolerance)
    dout = array(99, *out.shape)
    ours.zero_grad()
    theirs.zero_grad()
    expected.backward(torch.from_numpy(dout).double())
    for found, x in zip(tape.backward(dout), (q, k, v)):
        close(found, x.grad, 4 * tolerance)
    gradients = dict(ours.named_gradients())
    for name, p in theirs.named_parameters():
        close(gradients[name], p.grad, 4 * tolerance)


@pytest.mark.parametrize("options", [
    {},
    {"bias": False},
    {"batch_first": True},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
    {"kdim": 10, "vdim": 14},
    {"kdim": 10, "vdim": 14, "bias": False, "batch_first": True},
])
@pytest.mark.parametrize("average", [True, False])
def test_parity(options, average):
    theirs, ours = pair(D, H, **options)
    kdim, vdim = options.get("kdim", D), options.get("vdim", D)
    shapes = [(B, T, D), (B, S, kdim), (B, S, vdim)]
    if not options.get("batch_first"):
        shapes = [(t, b, d) for b, t, d in shapes]
    inputs = [array(i, *shape) for i, shape in enumerate(shapes)]
    check(theirs, ours, *inputs, average_attn_weights=average)
    check(theirs, ours, *inputs, need_weights=False)


def masks():
    rng = np.random.default_rng(5)
    padding = np.zeros((B, S), bool)
    padding[1, 5:] = padding[2, 1:] = True
    drop = rng.random((T, S)) < 0.4
    drop[:, 0] = False
    per_head = rng.random((B * H, T, S)) < 0.4
    per_head[:, :, 0] = False
    add = rng.normal(size=(T, S)).astype(np.float32)
    return {
        "padding": {"key_padding_mask": padding},
        "drop": {"attn_mask": drop},
        "per head": {"attn_mask": per_head},
        "add": {"attn_mask": add},
        "add per head": {"attn_mask": rng.normal(size=(B * H, T, S)).astype(np.float32)},
        "padding and drop": {"key_padding_mask": padding, "attn_mask": drop},
        "float padding": {"key_padding_mask": np.where(padding, -np.inf, 0.5).astype(np.float32)},
    }


@pytest.mark.parametrize("name", masks())
@pytest.mark.parametrize("extra", [False, True])
def test_masks(name, extra):
    theirs, ours = pair(D, H, batch_first=True, add_bias_kv=extra, add_zero_attn=extra)
    inputs = array(1, B, T, D), array(2, B, S, D), array(3, B, S, D)
    check(theirs, ours, *inputs, **masks()[name])


def test_unbatched():
    theirs, ours = pair(D, H)
    inputs = array(1, T, D), array(2, S, D), array(3, S, D)
    check(theirs, ours, *inputs)
    check(theirs, ours, *inputs, key_padding_mask=np.arange(S) > 4)
    check(theirs, ours, *inputs, average_attn_weights=False)


def test_causal():
    theirs, ours = pair(D, H)
    x = array(1, T, B, D)
    causal = np.triu(np.ones((T, T), bool), 1)
    t = torch.from_numpy(x).double()
    expected, _ = theirs(t, t, t, attn_mask=torch.from_numpy(causal), is_causal=True)
    close(ours(x, x, x, attn_mask=causal, is_causal=True)[0], expected)
    close(ours(x, x, x, is_causal=True)[0], expected)
    close(ours(x, x, x, causal="top-left")[0], expected)


def test_self_attention_sums_gradients():
    theirs, ours = pair(D, H)
    x, tape = array(1, T, B, D), mh.Tape()
    t = torch.from_numpy(x).double().requires_grad_()
    dout = array(2, T, B, D)
    theirs(t, t, t)[0].backward(torch.from_numpy(dout).double())
    ours(x, x, x, tape=tape)
    dx, dkey, dvalue = tape.backward(dout)
    assert dkey is None and dvalue is None
    close(dx, t.grad, 4e-5)
    ours(x, x[:], x[:], tape=tape)  # other objects, the same memory
    assert np.array_equal(tape.backward(dout)[0], dx)


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
def test_narrow_inputs(dtype, tolerance):
    theirs, ours = pair(D, H)
    x = torch.from_numpy(array(1, T, B, D)).to(dtype)
    out, weights = ours(x, x, x)
    assert out.dtype == weights.dtype == dtype
    expected, w = theirs(x.double(), x.double(), x.double())
    close(out.float().numpy(), expected, tolerance)
    close(weights.float().numpy(), w, tolerance)


def test_narrow_precision():
    theirs, exact = pair(D, H)
    ours = mh.MultiheadAttention(D, H, precision="bf16")
    ours.load_state_dict(exact.state_dict())
    x = array(1, T, B, D)
    t = torch.from_numpy(x).double()
    close(ours(x, x, x)[0], theirs(t, t, t)[0], 3e-2)


def test_numpy_and_torch_have_the_same_bits():
    _, ours = pair(D, H)
    x = array(1, T, B, D)
    t = torch.from_numpy(x)
    out, weights = ours(x, x, x)
    found, found_weights = ours(t, t, t)
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), out) and np.array_equal(found_weights.numpy(), weights)


def test_it_is_attention_of_the_projections():
    """The same bits as the C library's attention would not show a missing projection: compute."""
    ours = mh.MultiheadAttention(D, H, batch_first=True)
    state = ours.state_dict()
    x = array(1, B, T, D)
    q, k, v = np.split(x @ state["in_proj_weight"].T + state["in_proj_bias"], 3, -1)
    heads = [a.reshape(B, T, H, D // H).transpose(0, 2, 1, 3) for a in (q, k, v)]
    mixed = mh.attention(*heads).transpose(0, 2, 1, 3).reshape(B, T, D)
    expected = mixed @ state["out_proj.weight"].T + state["out_proj.bias"]
    assert np.abs(ours(x, x, x)[0] - expected).max() < 1e-4


# ---- options of ours ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"kv_heads": 2}, {"rope": True}, {"rope": True, "rope_scaling": {"rule": "yarn", "factor": 4}},
    {"alibi": True}, {"sinks": True}, {"qk_norm": True}, {"softcap": 2.0}, {"scale": 0.1},
    {"window": 2}, {"head_dim": 10}, {"value_dim": 3}, {"no_out_bias": True}, {"input_dim": D},
])
def test_further_options(options):
    """Each trains: the analytic gradient of a random direction is that of a difference."""
    ours = mh.MultiheadAttention(D, H, seed=1, **options)
    rng = np.random.default_rng(0)
    ours.values[...] = 0.3 * rng.normal(size=ours.values.shape)
    x, tape = array(1, T, B, D) / 4, mh.Tape()
    out, _ = ours(x, x, x, tape=tape, is_causal=True)
    dout = array(2, *out.shape)
    tape.backward(dout)
    direction = rng.normal(size=ours.values.shape).astype(np.float32)
    expected = float(ours.gradients.astype(np.float64) @ direction)
    values, step = ours.values.copy(), 1e-3
    losses = []
    for sign in (1, -1):
        ours.values[...] = values + sign * step * direction
        losses.append(float((ours(x, x, x, is_causal=True)[0].astype(np.float64) * dout).sum()))
    found = (losses[0] - losses[1]) / (2 * step)
    assert abs(found - expected) <= 1e-2 * max(1.0, abs(expected))


def test_missing_bias():
    ours = mh.MultiheadAttention(D, H, missing_bias="k")
    assert ours.state_dict()["in_proj_bias"].shape[0] in (2 * D, 3 * D)
    with pytest.raises(ValueError, match="missing_bias"):
        mh.MultiheadAttention(D, H, missing_bias="x")


def test_cache_has_the_same_bits():
    ours = mh.MultiheadAttention(D, H, batch_first=True, rope=True).eval()
    x = array(1, 2, T, D)
    whole, weights = ours(x, x, x, is_causal=True)
    cache = mh.KVCache(2, H, D // H)
    for t in range(T):
        token = x[:, t:t + 1]
        out, w = ours(token, token, token, cache=cache)
        assert np.array_equal(out, whole[:, t:t + 1])
        assert np.array_equal(w, weights[:, t:t + 1, :t + 1])
    assert cache.lengths == [T, T]


def test_lengths_and_windows():
    ours = mh.MultiheadAttention(D, H, batch_first=True)
    x = array(1, B, T, D)
    lengths = np.array([7, 3, 5])
    padding = np.arange(T) >= lengths[:, None]
    out = ours(x, x, x, key_lengths=lengths)[0]
    assert np.array_equal(out, ours(x, x, x, key_padding_mask=padding)[0])
    near = np.abs(np.arange(T)[:, None] - np.arange(T)) > 1
    assert np.array_equal(ours(x, x, x, window=(1, 1))[1] == 0, np.broadcast_to(near, (B, T, T)))


# ---- dropout ------------------------------------------------------------------------------------


def test_dropout():
    ours = mh.MultiheadAttention(32, 4, dropout=0.25, seed=3)
    x = array(1, 64, 4, 32) / 8
    _, weights = ours(x, x, x, average_attn_weights=False)
    assert abs((weights == 0).mean() - 0.25) < 0.02
    again = [ours(x, x, x, seed=5, step=2)[0] for _ in range(2)]
    assert np.array_equal(*again)
    assert not np.array_equal(ours(x, x, x)[0], ours(x, x, x)[0])  # each call is another step
    assert not np.array_equal(again[0], ours(x, x, x, seed=6, step=2)[0])
    ours.eval()
    _, weights = ours(x, x, x, average_attn_weights=False)
    assert (weights > 0).all()
    assert ours.train().training and not ours.train(False).training


# ---- state --------------------------------------------------------------------------------------


def test_state_dict_both_ways():
    theirs, ours = pair(D, H, kdim=10, add_bias_kv=True)
    fresh = torch.nn.MultiheadAttention(D, H, kdim=10, add_bias_kv=True)
    fresh.load_state_dict({n: torch.from_numpy(a.copy()) for n, a in ours.state_dict().items()})
    for name, p in fresh.state_dict().items():
        assert torch.equal(p, theirs.state_dict()[name].float()), name
    assert sum(p.size for p in ours.parameters()) == ours.values.size


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_state_of_any_dtype(dtype):
    theirs = torch.nn.MultiheadAttention(D, H).to(dtype)
    ours = mh.MultiheadAttention(D, H)
    ours.load_state_dict(theirs.state_dict())
    for name, p in theirs.state_dict().items():
        assert np.array_equal(ours.state_dict()[name], p.float().numpy())


def test_state_errors():
    ours = mh.MultiheadAttention(D, H)
    before = ours.values.copy()
    state = {name: array + 1 for name, array in ours.state_dict().items()}
    del state["in_proj_bias"]
    state["out_proj.weight"] = np.zeros((2, 3), np.float32)
    state["other"] = np.zeros(1, np.float32)
    with pytest.raises(ValueError) as error:
        ours.load_state_dict(state)
    assert "missing: in_proj_bias" in str(error.value)
    assert "unexpected: other" in str(error.value)
    assert f"out_proj.weight: found (2, 3), expected ({D}, {D})" in str(error.value)
    assert np.array_equal(ours.values, before)
    del state["out_proj.weight"]
    keys = ours.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["in_proj_bias", "out_proj.weight"]
    assert keys.unexpected_keys == ["other"]
    assert np.array_equal(ours.state_dict()["in_proj_weight"], state["in_proj_weight"])


def test_views_and_copies():
    ours = mh.MultiheadAttention(D, H)
    ours.state_dict()["out_proj.bias"][:] = 7
    assert (dict(ours.named_parameters())["out_proj.bias"] == 7).all()
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert np.array_equal(other.values, ours.values)
        other.values[...] = 0
        assert (ours.state_dict()["out_proj.bias"] == 7).all()


def test_views_keep_the_module():
    view = mh.MultiheadAttention(D, H).state_dict()["in_proj_weight"]
    assert np.isfinite(view).all()


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, options, message", [
    ((24, 5), {}, "heads"),
    ((24, 0), {}, "heads"),
    ((24, -1), {}, "num_heads"),
    ((24, 4), {"dropout": 1.5}, "dropout"),
    ((24, 4), {"qkv": "mixed"}, "qkv"),
])
def test_bad_configurations(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        mh.MultiheadAttention(*arguments, **options)


def test_bad_calls():
    ours = mh.MultiheadAttention(D, H)
    x = array(1, T, B, D)
    with pytest.raises(TypeError, match="query"):
        ours(None, x, x)
    with pytest.raises(ValueError, match="dimensions"):
        ours(x[0, 0], x, x)
    with pytest.raises(ValueError, match="key"):
        ours(x, x[:, :, :5], x)
    with pytest.raises(ValueError, match="attn_mask"):
        ours(x, x, x, attn_mask=np.zeros((T, T + 1), bool))
    with pytest.raises(ValueError, match="key_padding_mask"):
        ours(x, x, x, key_padding_mask=np.zeros((B + 1, T), bool))
    with pytest.raises(TypeError, match="no argument 'nothing'"):
        ours(x, x, x, nothing=1)
    with pytest.raises(TypeError):
        mh.MultiheadAttention(D, H, nothing=1)
    tape = mh.Tape()
    with pytest.raises(ValueError, match="tape"):
        tape.backward(x)
    ours(x, x, x, tape=tape)
    with pytest.raises(ValueError, match="doutput"):
        tape.backward(x[:3])
