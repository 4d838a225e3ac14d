# SPDX-License-Identifier: MIT
"""Layers, stacks and the Transformer beside torch.nn: results, gradients, parameters, errors."""
import copy

import numpy as np
import pytest

import multihead as mh

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

B, T, S, D, H, F, L = 3, 6, 8, 16, 4, 20, 2
SIZES = dict(d_model=D, nhead=H, dim_feedforward=F, dropout=0.0)


def array(seed, *shape):
    return (2 * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def larger(module):
    """Values at which a softmax is far from uniform, and all layers differ."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (1 if "norm" in name and "weight" in name else 0))
    return module


def make(kind, **options):
    """torch's module in double and ours, with the same values."""
    sizes = SIZES | options
    if kind == "Transformer":
        sizes |= dict(num_encoder_layers=L, num_decoder_layers=L)
        theirs, ours = torch.nn.Transformer(**sizes), mh.Transformer(**sizes)
    elif kind.endswith("Layer"):
        theirs, ours = getattr(torch.nn, kind)(**sizes), getattr(mh, kind)(**sizes)
    else:
        theirs, ours = (
            getattr(package, kind)(
                getattr(package, kind + "Layer")(**sizes), L,
                norm=package.LayerNorm(D, bias=options.get("bias", True)))
            for package in (torch.nn, mh)
        )
    ours.load_state_dict(larger(theirs).state_dict())
    return theirs.double(), ours


def close(found, expected, tolerance=2e-5):
    found, expected = np.asarray(found, np.float64), expected.detach().double().numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


def as_torch(value):
    if not isinstance(value, np.ndarray):
        return value
    t = torch.from_numpy(value)
    return t.double() if t.dtype == torch.float32 else t


def check(theirs, ours, inputs, **call):
    """Results and all gradients, ours in f32 beside torch's in double."""
    leaves = [as_torch(x).requires_grad_() for x in inputs]
    expected = theirs(*leaves, **{name: as_torch(value) for name, value in call.items()})
    tape = mh.Tape()
    out = ours(*inputs, tape=tape, **call)
    close(out, expected)
    dout = array(99, *out.shape)
    expected.backward(torch.from_numpy(dout).double())
    found = tape.backward(dout)
    for dx, x in zip(found if isinstance(found, tuple) else [found], leaves, strict=True):
        close(dx, x.grad, 2e-4)
    gradients = dict(ours.named_gradients())
    for name, p in theirs.named_parameters():
        close(gradients[name], p.grad, 2e-4)


KINDS = ["TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder",
         "TransformerDecoder", "Transformer"]


def inputs_of(kind, batch_first, batched=True):
    src, tgt = (array(1, S, B, D), array(2, T, B, D))
    if not batched:
        src, tgt = src[:, 0].copy(), tgt[:, 0].copy()
    elif batch_first:
        src, tgt = src.swapaxes(0, 1), tgt.swapaxes(0, 1)
    if "Encoder" in kind:
        return (src,)
    return (tgt, src) if "Decoder" in kind else (src, tgt)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [
    {}, {"batch_first": True}, {"norm_first": True}, {"activation": "gelu"}, {"bias": False},
    {"norm_first": True, "batch_first": True, "activation": "gelu", "layer_norm_eps": 1e-5},
], ids=str)
def test_parity(kind, options):
    theirs, ours = make(kind, **options)
    check(theirs, ours, inputs_of(kind, options.get("batch_first")))


@pytest.mark.parametrize("kind", KINDS)
def test_unbatched(kind):
    theirs, ours = make(kind)
    check(theirs, ours, inputs_of(kind, False, batched=False))


def square(n):
    return np.triu(np.ones((n, n), bool), 1)


def padding(n):
    return np.arange(n) >= np.array([[n], [n - 2], [2]])


@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind):
    theirs, ours = make(kind, batch_first=True)
    rng = np.random.default_rng(3)
    memory = rng.random((T, S)) < 0.3
    memory[:, 0] = False
    src_mask = rng.normal(size=(B * H, S, S)).astype(np.float32)
    masks = {"tgt_mask": square(T), "memory_mask": memory, "tgt_key_padding_mask": padding(T),
             "memory_key_padding_mask": padding(S)}
    if "Encoder" in kind:
        masks = {"mask" if kind.endswith("Encoder") else "src_mask": src_mask,
                 "src_key_padding_mask": np.where(padding(S), -np.inf, 0).astype(np.float32)}
    elif kind == "Transformer":
        masks |= {"src_mask": square(S), "src_key_padding_mask": padding(S)}
    check(theirs, ours, inputs_of(kind, True), **masks)


def test_causal_flags():
    theirs, ours = make("Transformer")
    src, tgt = inputs_of("Transformer", False)
    masks = dict(src_mask=square(S), tgt_mask=square(T),
                 memory_mask=np.triu(np.ones((T, S), bool), 1))
    expected = theirs(as_torch(src), as_torch(tgt),
                      **{name: as_torch(mask) for name, mask in masks.items()})
    flags = dict(src_is_causal=True, tgt_is_causal=True, memory_is_causal=True)
    close(ours(src, tgt, **flags), expected)
    close(ours(src, tgt, **flags, **masks), expected)
    layer = mh.TransformerEncoderLayer(**SIZES)
    assert np.array_equal(layer(src, is_causal=True), layer(src, square(S)))
    encoder = mh.TransformerEncoder(layer, 2)
    assert np.array_equal(encoder(src, is_causal=True), encoder(src, square(S)))


def test_square_subsequent_mask():
    expected = torch.nn.Transformer.generate_square_subsequent_mask(5).numpy()
    found = mh.Transformer.generate_square_subsequent_mask(5)
    assert found.dtype == np.float32 and np.array_equal(found, expected)


@pytest.mark.parametrize("activation", ["gelu_tanh", "silu", torch.nn.functional.silu])
def test_further_activations(activation):
    function = {"gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh")}
    function = function.get(activation, torch.nn.functional.silu)
    theirs = larger(torch.nn.TransformerEncoderLayer(**SIZES, activation=function))
    ours = mh.TransformerEncoderLayer(**SIZES, activation=activation)
    ours.load_state_dict(theirs.state_dict())
    check(theirs.double(), ours, (array(1, S, B, D),))


def test_stacks_begin_as_copies():
    layer = mh.TransformerEncoderLayer(**SIZES)
    state = mh.TransformerEncoder(layer, 3, norm=mh.LayerNorm(D)).state_dict()
    theirs = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(**SIZES), 3, norm=torch.nn.LayerNorm(D))
    assert set(state) == set(theirs.state_dict())
    for name, values in layer.named_parameters():
        for i in range(3):
            assert np.array_equal(state[f"layers.{i}.{name}"], values)


@pytest.mark.parametrize("kind", KINDS)
def test_state_round_trip(kind):
    theirs, ours = make(kind)
    fresh = copy.deepcopy(theirs).float()
    for p in fresh.parameters():
        p.data.zero_()
    fresh.load_state_dict({n: torch.from_numpy(a.copy()) for n, a in ours.state_dict().items()})
    for name, p in theirs.state_dict().items():
        assert torch.equal(p.float(), fresh.state_dict()[name])
    other = copy.deepcopy(ours)
    inputs = inputs_of(kind, False)
    assert np.array_equal(other(*inputs), ours(*inputs))


def test_a_stack_is_its_layers():
    """Bit for bit: a layer by itself computes what it computes in a stack."""
    _, ours = make("TransformerEncoder")
    encoder = mh.TransformerEncoder(mh.TransformerEncoderLayer(**SIZES), L)
    encoder.load_state_dict(ours.state_dict(), strict=False)
    x = y = array(1, S, B, D)
    for i in range(L):
        layer = mh.TransformerEncoderLayer(**SIZES)
        prefix = f"layers.{i}."
        layer.load_state_dict({name[len(prefix):]: values for name, values
                               in encoder.state_dict().items() if name.startswith(prefix)})
        y = layer(y)
    assert np.array_equal(encoder(x), y)


def test_encode_and_decode_are_the_whole():
    _, ours = make("Transformer")
    src, tgt = inputs_of("Transformer", False)
    decoder = mh.TransformerDecoder(
        mh.TransformerDecoderLayer(**SIZES), L, norm=mh.LayerNorm(D))
    decoder.load_state_dict({name[len("decoder."):]: values for name, values
                             in ours.state_dict().items() if name.startswith("decoder.")})
    assert np.array_equal(decoder(tgt, ours.encode(src)), ours(src, tgt))


def test_packed_batches():
    """Sequences without padding have the same bits as each alone."""
    _, ours = make("Transformer", batch_first=True)
    src, tgt = array(1, 9, D), array(2, 7, D)
    src_starts, tgt_starts = [0, 4, 9], [0, 5, 7]
    packed = ours(src, tgt, tgt_is_causal=True, src_starts=src_starts, tgt_starts=tgt_starts)
    for b in range(2):
        s, t = slice(*src_starts[b:b + 2]), slice(*tgt_starts[b:b + 2])
        assert np.array_equal(packed[t], ours(src[s], tgt[t], tgt_is_causal=True))


def test_recompute_and_disabled_heads():
    _, ours = make("TransformerEncoder")
    x, dout, found = array(1, S, B, D), array(2, S, B, D), []
    for recompute in (False, True):
        tape = mh.Tape()
        ours.zero_grad()
        ours(x, tape=tape, recompute=recompute)
        found.append((tape.backward(dout), ours.gradients.copy(), tape.nbytes))
    assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1])
    assert found[1][2] < found[0][2]
    none = np.zeros((L, H), bool)
    assert np.array_equal(ours(x, disabled_heads=none), ours(x))
    none[1, 2] = True
    assert not np.array_equal(ours(x, disabled_heads=none), ours(x))
    with pytest.raises(ValueError, match="disabled_heads"):
        ours(x, disabled_heads=none[:1])


def test_dropout():
    layer = mh.TransformerEncoderLayer(D, H, F, dropout=0.5, seed=1)
    x = array(1, S, B, D)
    assert layer.training
    assert not np.array_equal(layer(x), layer(x))
    assert np.array_equal(layer(x, seed=1, step=4), layer(x, seed=1, step=4))
    layer.eval()
    assert np.array_equal(layer(x), layer(x))


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_narrow_inputs(dtype, tolerance):
    theirs, ours = make("TransformerEncoder")
    x = torch.from_numpy(array(1, S, B, D)).to(dtype)
    found = ours(x)
    assert found.dtype == dtype
    close(found.float().numpy(), theirs(x.double()), tolerance)


def test_narrow_precision():
    theirs, exact = make("TransformerEncoderLayer")
    ours = mh.TransformerEncoderLayer(**SIZES, precision="bf16")
    ours.load_state_dict(exact.state_dict())
    x = array(1, S, B, D)
    close(ours(x), theirs(as_torch(x)), 5e-2)


def test_errors():
    layer = mh.TransformerEncoderLayer(**SIZES)
    with pytest.raises(ValueError, match="nhead"):
        mh.TransformerEncoderLayer(10, 3)
    with pytest.raises(ValueError, match="activation"):
        mh.TransformerEncoderLayer(16, 4, activation="sigmoid")
    with pytest.raises(TypeError, match="TransformerEncoderLayer"):
        mh.TransformerEncoder(mh.TransformerDecoderLayer(**SIZES), 2)
    with pytest.raises(ValueError, match="norm"):
        mh.TransformerEncoder(layer, 2, norm=mh.LayerNorm(D, eps=1e-6))
    with pytest.raises(ValueError, match="custom_encoder"):
        mh.Transformer(custom_encoder=layer)
    with pytest.raises(ValueError, match="src"):
        layer(array(1, S, B, D + 1))
    with pytest.raises(ValueError, match="src_mask"):
        layer(array(1, S, B, D), np.zeros((S, S + 1), bool))
    with pytest.raises(TypeError, match="src"):
        layer("text")
    decoder = mh.TransformerDecoderLayer(**SIZES)
    with pytest.raises(TypeError):
        decoder(array(1, T, B, D))
    with pytest.raises(ValueError, match="tgt"):
        decoder(array(1, T, B + 1, D), array(2, S, B, D))
