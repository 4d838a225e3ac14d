# SPDX-License-Identifier: MIT
"""Random arguments for everything that the extension has: exceptions, never a crash.

MH_TEST_CALLS: how many calls; 1000 unless it is set.
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_random_calls(tmp_path):
    environment = {**os.environ, "MH_TEST_MODEL": str(HERE.parents[1] / "models" / "fr-en"),
                   "TMPDIR": str(tmp_path)}
    calls = os.environ.get("MH_TEST_CALLS", "1000")
    run = subprocess.run([sys.executable, HERE / "untrusted_calls.py", "3", calls],
                         env=environment, capture_output=True, text=True, timeout=600)
    end = "\n".join((run.stdout + run.stderr).splitlines()[-30:])
    assert run.returncode == 0, end
    assert run.stdout.endswith("survived\n"), end


# ---- what such calls have found ------------------------------------------------------------------

np = pytest.importorskip("numpy")

import multihead as mh  # noqa: E402
from multihead import _multihead  # noqa: E402


def lies_about(kind):
    return type("Lies", (), {"__class__": property(lambda self: kind)})()


def test_types_are_not_believed():
    q = np.ones((2, 3, 8), "f4")
    layer = _multihead.Mha(embed_dim=8, num_heads=2)
    with pytest.raises(TypeError, match="cache: found .*expected a KVCache"):
        layer.forward(q, q, q, cache=lies_about(_multihead.KVCache))
    with pytest.raises(TypeError, match="tape: found .*expected a Tape"):
        layer.forward(q, q, q, tape=lies_about(_multihead.Tape))


def test_arrays_that_are_written_are_not_converted():
    layer = _multihead.Mha(embed_dim=8, num_heads=2)
    with pytest.raises(ValueError, match="float64"):
        layer.views(np.zeros(len(layer.values()), "f8"))
    vectors = [np.zeros(3, "f4") for _ in range(4)]
    vectors[1] = vectors[1].astype("f8")
    with pytest.raises(ValueError, match="parameter: found float64"):
        _multihead.adamw_step(1, *vectors)


def test_arrays_that_change_what_holds_them(tmp_path):
    tensors = {"a": np.ones(3, "f4")}

    class Grows:
        @property
        def dtype(self):
            tensors.update({str(i): np.ones(2, "f4") for i in range(100)})
            return np.dtype("f4")

    tensors["b"] = Grows()
    with pytest.raises(TypeError, match="b: found"):
        _multihead.write_tensors(str(tmp_path / "f"), tensors, {})

    gradients = [np.ones(3, "f4")] * 3

    class Shrinks:
        def __dlpack__(self, *_, **__):
            gradients.clear()
            raise ValueError("gone")

        def __dlpack_device__(self):
            return (1, 0)

    gradients.insert(0, Shrinks())
    with pytest.raises(ValueError, match="gone"):
        _multihead.gradient_norm(gradients)


def test_unaligned():
    raw = np.zeros(4 * 12 + 1, "u1")
    x = np.frombuffer(raw, "f4", 12, 1).reshape(3, 4)
    with pytest.raises(ValueError, match="q: found an unaligned array"):
        mh.attention(x, x, x)


def test_positional_arguments():
    for kind in (_multihead.KVCache, _multihead.Mha, _multihead.Transformer, _multihead.Tape):
        with pytest.raises(TypeError, match="takes 0 positional arguments, found 2"):
            kind(1, 2)


def test_messages_that_are_no_pairs():
    model = _multihead.Model(str(HERE.parents[1] / "models" / "fr-en"))
    with pytest.raises((TypeError, ValueError)):
        model.chat([1])
