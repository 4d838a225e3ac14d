# SPDX-License-Identifier: MIT
"""accelerate: PyTorch's modules on these kernels; results, gradients and training as before."""
import copy
import io
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import multihead.torch as mht
import torch_reference as reference
from test_torch_compile import profiled
from torch import nn

B, T, S, D, H = 3, 7, 10, 24, 4


def tensor(seed, *shape, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def scaled(module):
    """Values larger than those of initialisation: scores of 3 to 20."""
    for i, p in enumerate(module.parameters()):
        with torch.no_grad():
            p.copy_(tensor(i, *p.shape, scale=0.5 if p.dim() > 1 else 0.3) +
                    (p if p.dim() == 1 else 0))
    return module


def results(module, inputs, dtype, **call):
    """Outputs, and the gradients of inputs and parameters, of copies in a dtype."""
    module = copy.deepcopy(module).to(dtype)
    x = [a.to(dtype).requires_grad_() for a in inputs]
    call = {name: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for name, v in call.items()}
    found = module(*x, **call)
    found = [y for y in (found if isinstance(found, tuple) else (found,)) if y is not None]
    loss = sum((y * tensor(50 + i, *y.shape).to(dtype)).sum() for i, y in enumerate(found))
    loss.backward()
    named = {f"input {i}": a.grad for i, a in enumerate(x)}
    named.update((name, p.grad) for name, p in module.named_parameters())
    return [y.detach() for y in found], {name: g for name, g in named.items() if g is not None}


def check(module, inputs, times=2.0, **call):
    """`times` PyTorch's own error in f32: more for stacks, which amplify the rounding of a layer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact, exact_gradients = results(module, inputs, torch.float64, **call)
        theirs, their_gradients = results(module, inputs, torch.float32, **call)
    accelerated = mht.accelerate(copy.deepcopy(module))
    ours, gradients = results(accelerated, inputs, torch.float32, **call)
    assert gradients.keys() == exact_gradients.keys()
    for i, (a, b, c) in enumerate(zip(ours, theirs, exact, strict=True)):
        reference.assert_as_exact(a, b, c, f"output {i}", times)
    for name, c in exact_gradients.items():
        reference.assert_as_exact(gradients[name], their_gradients[name], c, name, times)


PADDING = torch.arange(S).expand(B, S) >= torch.tensor([[S], [6], [3]])
MASK = tensor(8, T, S) > 1
MASK[:, 0] = False
SQUARE = nn.Transformer.generate_square_subsequent_mask(T)


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"batch_first": True}, {"add_bias_kv": True},
    {"add_zero_attn": True, "batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 10, "vdim": 14}, {"kdim": 10, "vdim": 14, "bias": False, "batch_first": True}])
@pytest.mark.parametrize("call", [
    {}, {"need_weights": False}, {"average_attn_weights": False},
    {"key_padding_mask": PADDING}, {"attn_mask": MASK, "need_weights": False},
    {"attn_mask": tensor(9, B * H, T, S), "key_padding_mask": tensor(7, B, S)},
    {"attn_mask": MASK, "key_padding_mask": PADDING}])
def test_multihead_attention(options, call):
    module = scaled(nn.MultiheadAttention(D, H, **options))
    widths = D, options.get("kdim", D), options.get("vdim", D)
    first = options.get("batch_first", False)
    inputs = [tensor(i, *((B, n, w) if first else (n, B, w)))
              for i, (n, w) in enumerate(zip((T, S, S), widths))]
    check(module, inputs, **call)


@pytest.mark.parametrize("shape", [(T, D), (T, B, D)])
@pytest.mark.parametrize("call", [{}, {"attn_mask": SQUARE, "is_causal": True,
                                       "need_weights": False}])
def test_self_attention(shape, call):
    """One tensor as query, key and value: one product for all three; and without a batch."""
    module = scaled(nn.MultiheadAttention(D, H))

    class Self(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x, **call):
            return self.inner(x, x, x, **call)

    check(Self(), [tensor(0, *shape)], **call)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
def test_encoder(norm_first, batch_first, mode):
    """Also where PyTorch takes its inference path, with padding cut out by nested tensors."""
    layer = nn.TransformerEncoderLayer(D, H, 40, dropout=0.0, activation="gelu",
                                       norm_first=norm_first, batch_first=batch_first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = scaled(nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(D)))
    module.train(mode == "train")
    x = tensor(0, *((B, S, D) if batch_first else (S, B, D)))
    if mode != "no_grad":
        check(module, [x], times=4.0, src_key_padding_mask=PADDING)
        return
    accelerated = mht.accelerate(copy.deepcopy(module))
    with torch.no_grad():
        (out, ran) = profiled(lambda: accelerated(x, src_key_padding_mask=PADDING))
        theirs = module(x, src_key_padding_mask=PADDING)
        exact = module.double()(x.double(), src_key_padding_mask=PADDING)
    assert not {name for name in ran if "softmax" in name or "bmm" in name or "flash" in name
                or "native_multi_head" in name or "encoder_layer_fwd" in name}
    live = ~PADDING if batch_first else ~PADDING.T  # PyTorch's nested tensors have 0 elsewhere
    reference.assert_as_exact(out[live], theirs[live], exact[live], "out")


@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer(batch_first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = scaled(nn.Transformer(D, H, 2, 2, 40, dropout=0.0, batch_first=batch_first))
    swap = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    check(module, [swap(tensor(0, B, S, D)), swap(tensor(1, B, T, D))], times=4.0,
          tgt_mask=SQUARE, src_key_padding_mask=PADDING, memory_key_padding_mask=PADDING, tgt_is_causal=True)


def test_parameters_are_shared():
    model = scaled(nn.Sequential(nn.Linear(D, D), nn.TransformerEncoderLayer(
        D, H, 40, batch_first=True)))
    before = dict(model.named_parameters())
    keys, linear = list(model.state_dict()), type(model[0])
    assert mht.accelerate(model) is model and mht.accelerate(model) is model
    assert type(model[1]) is mht.TransformerEncoderLayer
    assert type(model[1].self_attn) is mht.MultiheadAttention
    assert isinstance(model[1].self_attn, nn.MultiheadAttention) and type(model[0]) is linear
    assert list(model.state_dict()) == keys
    for name, p in model.named_parameters():
        assert p is before[name]
    again = pickle.loads(pickle.dumps(model))
    x = tensor(0, B, T, D)
    assert torch.equal(model.eval()(x), again.eval()(x))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    plain = nn.Sequential(nn.Linear(D, D), nn.TransformerEncoderLayer(D, H, 40, batch_first=True))
    plain.load_state_dict(torch.load(file))
    torch.testing.assert_close(plain.eval()(x), model(x), rtol=1e-4, atol=1e-5)


def test_training_goes_on():
    """An optimiser made before, and steps as PyTorch's own would be."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(D, H, 40, dropout=0.0, batch_first=True)
    other = copy.deepcopy(model)
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (model, other)]
    mht.accelerate(model)
    x, target = tensor(0, B, T, D), tensor(1, B, T, D)
    for _ in range(5):
        losses = []
        for m, optimizer in zip((model, other), optimizers):
            optimizer.zero_grad()
            loss = (m(x) - target).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)


def test_dropout_in_training_only():
    mha = mht.accelerate(nn.MultiheadAttention(D, H, dropout=0.5, batch_first=True))
    x = tensor(0, B, T, D)
    out, weights = mha(x, x, x, average_attn_weights=False)
    assert 0.3 < (weights == 0).double().mean() < 0.7  # weights after dropout, as PyTorch's are
    torch.manual_seed(1)
    first = mha(x, x, x)[0]
    torch.manual_seed(1)
    assert torch.equal(first, mha(x, x, x)[0]) and not torch.equal(first, out)
    weights = mha.eval()(x, x, x)[1]
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, T))


def test_what_it_does_not_know_stays():
    class Own(nn.MultiheadAttention):
        def forward(self, *arguments):
            return "mine"

    own = mht.accelerate(nn.ModuleList([Own(D, H), nn.LSTM(3, 4)]))
    assert type(own[0]) is Own and own[0]() == "mine" and type(own[1]) is nn.LSTM
    with pytest.raises(TypeError, match="found int"):
        mht.accelerate(3)


def test_what_is_not_computed_here_is_torchs():
    module = nn.TransformerEncoderLayer(D, H, 40, batch_first=True).double().eval()
    x = tensor(0, B, T, D).double()
    expected = module(x)
    assert torch.equal(mht.accelerate(module)(x), expected)
    meta = mht.accelerate(nn.MultiheadAttention(D, H, device="meta"))
    y = torch.empty(T, B, D, device="meta")
    assert meta(y, y, y)[0].shape == (T, B, D)
    nested = torch.nested.nested_tensor([tensor(1, 3, D), tensor(2, 5, D)])
    layer = mht.accelerate(nn.TransformerEncoderLayer(D, H, 40, batch_first=True)).eval()
    with torch.no_grad():
        assert layer(nested).is_nested


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    module = nn.MultiheadAttention(D, H, batch_first=True).to(dtype).eval()
    x = tensor(0, B, T, D, scale=2.0).to(dtype)
    theirs = module(x, x, x)
    exact = copy.deepcopy(module).double()(*[x.double()] * 3)
    ours = mht.accelerate(module)(x, x, x)
    for what, a, b, c in zip(("out", "weights"), ours, theirs, exact):
        assert a.dtype == dtype
        reference.assert_as_exact(a, b, c, what)


def test_compile():
    torch._dynamo.reset()
    module = scaled(mht.accelerate(nn.TransformerEncoderLayer(D, H, 40, dropout=0.0,
                                                              batch_first=True)))
    x = tensor(0, B, T, D)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)


def test_errors_are_clear():
    mha = mht.accelerate(nn.MultiheadAttention(D, H))
    x = tensor(0, T, B, D)
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        mha(x, x, x, attn_mask=torch.zeros(T, T + 1))
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        mha(x, x, x[:2])
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        mha(x, x, x, key_padding_mask=torch.zeros(B + 1, T, dtype=torch.bool))
