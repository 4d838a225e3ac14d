# SPDX-License-Identifier: MIT
"""Files of tensors: what one writes another reads."""
import numpy as np
import pytest

import multihead as mh


def tensors():
    rng = np.random.default_rng(0)
    return {
        "f32": rng.normal(size=(3, 4)).astype(np.float32),
        "f64": rng.normal(size=5),
        "f16": rng.normal(size=(2, 3)).astype(np.float16),
        "strided": rng.normal(size=(4, 6)).astype(np.float32)[::2, ::-1].T,
        "strided f64": rng.normal(size=(4, 6))[:, 1::2],
        "bool": np.array([True, False]),
        "i64": np.arange(6).reshape(2, 3),
        "u8": np.arange(3, dtype=np.uint8),
        "scalar": np.array(3.5, np.float32),
        "file": np.ones(2, np.float32),
        "empty": np.zeros((0, 3), np.float32),
    }


def equal(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
        assert np.array_equal(found[name], value), name


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_round_trip(tmp_path, suffix):
    path = tmp_path / f"file.{suffix}"
    mh.save_file(tensors(), path)
    equal(mh.load_file(path), tensors())
    mh.load_file(str(path))["f32"][...] = 0  # arrays are copies, and writable


def test_npz_of_numpy(tmp_path):
    expected = {name: value for name, value in tensors().items() if name != "file"}
    np.savez_compressed(tmp_path / "a.npz", **expected)
    equal(mh.load_file(tmp_path / "a.npz"), expected)
    mh.save_file(expected, tmp_path / "b.npz")
    equal(dict(np.load(tmp_path / "b.npz")), expected)


def test_deterministic(tmp_path):
    for name in "ab":
        mh.save_file(tensors(), tmp_path / name, {"format": "pt", "origin": "test"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b'"origin":"test"' in (tmp_path / "a").read_bytes()


def test_safetensors_package(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    mh.save_file(tensors(), tmp_path / "ours")
    equal(package.load_file(tmp_path / "ours"), tensors())
    contiguous = {name: np.ascontiguousarray(value).reshape(value.shape)
                  for name, value in tensors().items()}
    package.save_file(contiguous, tmp_path / "theirs")
    equal(mh.load_file(tmp_path / "theirs"), tensors())


def test_torch(tmp_path):
    torch = pytest.importorskip("torch")
    state = {"w": torch.randn(3, 4), "half": torch.randn(5).bfloat16()}
    torch.save(state, tmp_path / "a.pt")
    mh.save_file(state, tmp_path / "a.safetensors")
    for name in ("a.pt", "a.safetensors"):
        found = mh.load_file(tmp_path / name)
        assert np.array_equal(found["w"], state["w"].numpy())
        assert np.array_equal(found["half"].astype(np.float32), state["half"].float().numpy())


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_modules(tmp_path, suffix):
    layer = mh.TransformerEncoderLayer(8, 2, 16, seed=1)
    layer.save(tmp_path / f"layer.{suffix}")
    other = mh.TransformerEncoderLayer(8, 2, 16, seed=2)
    assert not np.array_equal(other.values, layer.values)
    assert other.load(tmp_path / f"layer.{suffix}") is other
    assert np.array_equal(other.values, layer.values)
    with pytest.raises(ValueError, match="missing: .*in_proj_weight"):
        mh.MultiheadAttention(8, 2).load(tmp_path / f"layer.{suffix}")


def test_modules_from_torch(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    torch.save(theirs.state_dict(), tmp_path / "model.pt")
    ours = mh.Transformer(8, 2, 1, 1, 16).load(tmp_path / "model.pt")
    for name, p in theirs.state_dict().items():
        assert np.array_equal(ours.state_dict()[name], p.numpy())


def test_errors(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        mh.load_file(tmp_path / "nowhere")
    (tmp_path / "text").write_text("no tensors here")
    with pytest.raises(ValueError, match="text"):
        mh.load_file(tmp_path / "text")
    with pytest.raises(OSError):
        mh.save_file({}, tmp_path / "no" / "directory")
    with pytest.raises(TypeError, match="name"):
        mh.save_file({1: np.zeros(3)}, tmp_path / "a")
    with pytest.raises(TypeError, match="x"):
        mh.save_file({"x": [1, 2]}, tmp_path / "a")
    with pytest.raises(TypeError, match="metadata"):
        mh.save_file({}, tmp_path / "a", {"steps": 3})
    with pytest.raises(ValueError, match="metadata"):
        mh.save_file({}, tmp_path / "a.npz", {"steps": "3"})
    assert not (tmp_path / "a").exists()
