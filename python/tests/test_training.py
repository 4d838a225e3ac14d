# SPDX-License-Identifier: MIT
"""Training by hand beside torch: AdamW, clipping, the loss, and whole steps."""
import copy
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import multihead as mh


def array(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("options", [
    {}, {"lr": 0.1}, {"betas": (0.5, 0.9), "eps": 1e-3}, {"weight_decay": 0.3}, {"max_norm": 0.5},
])
def test_adamw(options):
    torch = pytest.importorskip("torch")
    ours = [mh.Parameter(array(0, 5, 7)), mh.Parameter(array(1, 300))]
    theirs = [torch.from_numpy(p.data.copy()).double().requires_grad_() for p in ours]
    clip = options.get("max_norm")
    optimiser = mh.AdamW(ours, **options)
    reference = torch.optim.AdamW(theirs, **{n: v for n, v in options.items() if n != "max_norm"})
    for step in range(20):
        for i, (p, t) in enumerate(zip(ours, theirs)):
            p.grad[...] = array(100 * step + i, *p.data.shape)
            t.grad = torch.from_numpy(p.grad.copy()).double()
        expected = torch.nn.utils.clip_grad_norm_(theirs, clip or 1e9)
        assert abs(optimiser.step() - float(expected)) < 1e-4
        reference.step()
    for p, t in zip(ours, theirs):
        assert np.abs(p.data - t.detach().numpy()).max() < 6e-6
    optimiser.zero_grad()
    assert not any(p.grad.any() for p in ours)


def test_adamw_resumes(tmp_path):
    """A saved and loaded optimiser goes on with the same bits."""
    p = mh.Parameter(array(0, 10))
    optimiser = mh.AdamW(p, lr=0.1)
    for step in range(3):
        p.grad[...] = array(step, 10)
        optimiser.step()
    q = copy.deepcopy(p)
    other = mh.AdamW(q, lr=0.1)
    mh.save_file(optimiser.state_dict(), tmp_path / "state.safetensors")
    other.load_state_dict(mh.load_file(tmp_path / "state.safetensors"))
    for parameter, opt in ((p, optimiser), (q, other)):
        parameter.grad[...] = array(9, 10)
        opt.step()
    assert np.array_equal(p.data, q.data) and other.steps == 4
    with pytest.raises(ValueError, match="exp_avg"):
        other.load_state_dict({"steps": np.array(1)})


def test_adamw_errors():
    with pytest.raises(TypeError, match="params"):
        mh.AdamW([np.zeros(3)])
    p = mh.Parameter([1.0])
    with pytest.raises(ValueError):
        mh.AdamW(p, betas=(1.5, 0.9)).step()
    with pytest.raises(TypeError, match="learning_rate"):
        mh.AdamW(p, lr="fast").step()


@pytest.mark.parametrize("options", [
    {}, {"reduction": "sum"}, {"label_smoothing": 0.1}, {"ignore_index": 2},
    {"weight": np.array([1, 2, 0.5, 3, 1], np.float32)},
])
def test_cross_entropy(options):
    torch = pytest.importorskip("torch")
    logits, targets = 3 * array(0, 8, 5), np.array([0, 1, 2, 3, 4, 2, 2, 1])
    t = torch.from_numpy(logits).double().requires_grad_()
    given = {n: torch.from_numpy(v).double() if isinstance(v, np.ndarray) else v
             for n, v in options.items()}
    expected = torch.nn.functional.cross_entropy(t, torch.from_numpy(targets), **given)
    expected.backward()
    loss, dlogits = mh.cross_entropy(logits, targets, **options)
    assert abs(loss - expected.item()) < 1e-6 * max(1, loss)
    assert np.abs(dlogits - t.grad.numpy()).max() < 1e-6
    with pytest.raises(ValueError, match="targets"):
        mh.cross_entropy(logits, targets + 4)


def test_a_training_run_beside_torch():
    """Ten steps of a decoder layer: the parameters stay together."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    theirs = torch.nn.TransformerDecoderLayer(16, 4, 32, dropout=0.0).double()
    ours = mh.TransformerDecoderLayer(16, 4, 32, dropout=0.0)
    ours.load_state_dict(theirs.state_dict())
    reference, optimiser = torch.optim.AdamW(theirs.parameters(), lr=1e-2), mh.AdamW(ours, lr=1e-2)
    tgt, memory, goal = array(1, 5, 2, 16), array(2, 7, 2, 16), array(3, 5, 2, 16)
    tape, losses = mh.Tape(), []
    for _ in range(10):
        out = ours(tgt, memory, tape=tape)
        losses.append(float(((out - goal) ** 2).mean()))
        optimiser.zero_grad()
        tape.backward(2 * (out - goal) / out.size)
        optimiser.step()
        reference.zero_grad()
        t = theirs(torch.from_numpy(tgt).double(), torch.from_numpy(memory).double())
        ((t - torch.from_numpy(goal).double()) ** 2).mean().backward()
        reference.step()
    assert losses[-1] < 0.7 * losses[0]
    for name, p in theirs.named_parameters():
        error = np.abs(ours.state_dict()[name] - p.detach().numpy())
        if name.endswith("in_proj_bias"):  # that of keys has no gradient but rounding errors
            error[16:32] = 0
        assert error.max() < 2e-4, name
    memory_of_tape = tape.nbytes
    ours(tgt, memory, tape=tape)
    assert tape.nbytes == memory_of_tape > 0


def test_dropout_of_backward_is_that_of_forward():
    """With dropout, the analytic gradient of a direction is that of a difference."""
    layer = mh.TransformerEncoderLayer(16, 4, 32, dropout=0.3, activation="gelu", seed=1)
    x, dout, tape = array(1, 6, 2, 16), array(2, 6, 2, 16), mh.Tape()
    layer(x, tape=tape, step=7)
    dx = tape.backward(dout)
    direction = array(3, *x.shape)
    step = 1e-2
    losses = [float((layer(x + sign * step * direction, step=7) * dout).sum(dtype=np.float64))
              for sign in (1, -1)]
    expected = float((dx * direction).sum(dtype=np.float64))
    assert abs((losses[0] - losses[1]) / (2 * step) - expected) < 2e-2 * abs(expected)


def test_gradients_accumulate():
    mha, tape = mh.MultiheadAttention(8, 2, seed=1), mh.Tape()
    x = array(1, 4, 2, 8)
    for _ in range(2):
        mha(x, x, x, tape=tape)
        tape.backward(x)
    twice = mha.gradients.copy()
    mha.zero_grad()
    mha(x, x, x, tape=tape)
    tape.backward(x)
    assert np.allclose(twice, 2 * mha.gradients, rtol=1e-5)
    named = dict(mha.named_gradients())
    assert named["out_proj.bias"].shape == (8,) and np.shares_memory(named["out_proj.bias"],
                                                                     mha.gradients)


def test_a_tape_has_one_pass():
    first, second = (mh.MultiheadAttention(8, 2, seed=seed) for seed in (1, 2))
    tape = mh.Tape()
    x = array(1, 4, 2, 8)
    first(x, x, x, tape=tape)
    second(x, x, x, tape=tape)
    tape.backward(x)
    assert not first.gradients.any() and second.gradients.any()
    with pytest.raises(ValueError):
        first(x, x[:, :, :3], x, tape=tape)
    with pytest.raises(ValueError, match="recorded"):
        tape.backward(x)


def test_example(capsys, monkeypatch):
    """The example learns: its last loss is a fraction of its first."""
    path = Path(__file__).parent.parent / "examples" / "train_by_hand.py"
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    losses = [float(words[words.index("loss") + 1]) for words in lines if "loss" in words]
    assert losses[-1] < 0.1 * losses[0]
