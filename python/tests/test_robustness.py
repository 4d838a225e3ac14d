# SPDX-License-Identifier: MIT
"""Leaks, Ctrl-C, fork, multiprocessing, threads and subinterpreters."""
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

np = pytest.importorskip("numpy")

import multihead as mh  # noqa: E402
from multihead import _multihead  # noqa: E402


def f4(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def exact(q, k, v):
    q, k, v = (x.astype("f8") for x in (q, k, v))
    weights = np.exp(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)
    return weights / weights.sum(-1, keepdims=True) @ v


# ---- leaks ---------------------------------------------------------------------------------------


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def calls_of_all():
    """One call of everything, those that fail included; and the operands."""
    q, mask, sinks = f4(2, 2, 4, 8), np.ones((4, 4), bool), f4(2)
    x, flat = f4(3, 2, 8), f4(9)
    layer, stack = _multihead.Mha(embed_dim=8, num_heads=2), _multihead.Transformer(
        kind="encoder", d_model=8, nhead=2, num_encoder_layers=1, dim_feedforward=8)
    out, lse = mh.attention(q, q, q, lse=True)
    given = f4(2, 2, 4, 8)
    wide, big_endian = q.astype("f8"), q.astype(">f4")
    operands = (q, mask, sinks, x, flat, out, lse, given, wide, big_endian)

    def fails(function, *arguments, **options):
        with pytest.raises((TypeError, ValueError)):
            function(*arguments, **options)

    def everything():
        mh.attention(q, q, q, mask=mask, causal=True, window=(1, 0), sinks=sinks, weights=True, lse=True)
        mh.attention(wide, wide, wide, out=given)
        mh.attention_backward(q, q, q, out, lse, out)
        mh.explain(q, q, q)
        tape = _multihead.Tape()
        y, _ = layer.forward(x, x, x, tape=tape, training=True)
        layer.backward(x, x, x, doutput=y, tape=tape, training=True)
        layer.parameters()
        stack.forward(x)
        cache = _multihead.KVCache(sequences=2, heads=2, key_width=8)
        cache.append(q, q)
        cache.attention(q, weights=True)
        _multihead.cross_entropy(flat.reshape(3, 3), np.array([0, 1, 2]))
        _multihead.gradient_norm([flat, flat])
        _multihead.top(flat.reshape(3, 3), 2)
        fails(mh.attention, q, q, big_endian)
        fails(mh.attention, q, q, None)
        fails(mh.attention, q, q, q, mask=(mask, 3))
        fails(mh.attention, q, q, q, nonsense=1)
        fails(mh.attention, q, q[:1, :1, :2], q, weights=True, lse=True)
        fails(layer.forward, x, x, x, cache=3)
        fails(layer.backward, x, x, x, doutput=x[:1])
        fails(stack.forward, x[..., :3])
        fails(_multihead.Mha, embed_dim=7, num_heads=2)
        fails(cache.append, q, q[..., :2])

    return everything, operands


def test_no_leaks():
    everything, operands = calls_of_all()
    for _ in range(50):
        everything()
    gc.collect()
    before = [sys.getrefcount(x) for x in operands]
    objects, memory = len(gc.get_objects()), resident()
    for _ in range(400):
        everything()
    gc.collect()
    assert [sys.getrefcount(x) for x in operands] == before
    assert len(gc.get_objects()) <= objects + 20
    assert resident() < memory + (4 << 20)


def test_no_leaks_over_many_calls():
    q, bad = f4(4, 8), f4(4, 7)
    calls = 100_000
    for _ in range(1000):
        mh.attention(q, q, q, lse=True)
    before, memory = sys.getrefcount(q), resident()
    for i in range(calls):
        mh.attention(q, q, q, lse=True)
        if i % 10 == 0:
            try:
                mh.attention(q, bad, q)
            except ValueError:
                pass
    gc.collect()
    assert sys.getrefcount(q) == before
    assert resident() < memory + (4 << 20)


# ---- Ctrl-C --------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import multihead as mh
if sys.argv[1] == "thread":  # the first call of all is not the main thread's
    t = threading.Thread(target=lambda: mh.attention(*[np.ones((4, 4), "f4")] * 3))
    t.start(); t.join()
if sys.argv[1] == "handler":
    signal.signal(signal.SIGUSR1, lambda *_: None)
q = np.broadcast_to(np.ones((1, 64), "f4"), (16, 1 << 16, 64))
sent = []
def interrupt():
    time.sleep(0.5)
    sent.append(time.process_time())  # of all threads; other processes do not count
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    mh.attention(q, q, q)
except KeyboardInterrupt:
    print("interrupted", time.process_time() - sent[0])
x = np.ones((4, 4), "f4")
assert np.array_equal(mh.attention(x, x, x), x)  # the next call is not affected
"""


@pytest.mark.parametrize("way", ["main", "thread", "handler"])
def test_interrupt(way):
    run = subprocess.run([sys.executable, "-c", INTERRUPTED, way], capture_output=True, text=True,
                         timeout=120)
    assert run.returncode == 0, run.stderr
    word, seconds = run.stdout.split()
    assert word == "interrupted" and float(seconds) < 1


def test_ignored_interrupt():
    """Who ignores Ctrl-C gets the result."""
    q = np.broadcast_to(f4(1, 64), (4, 1 << 12, 64))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        out = mh.attention(q, q, q)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert np.allclose(out, q, atol=1e-5)


# ---- processes -----------------------------------------------------------------------------------


def attend(seed):
    q, k, v = (f4(3, 40, 16, seed=seed + i) for i in range(3))
    return mh.attention(q, k, v)


def use_the_pool():
    q = f4(8, 300, 64)
    assert np.abs(mh.attention(q, q, q) - exact(q, q, q)).max() < 1e-5


def test_fork():
    use_the_pool()
    child = os.fork()
    if child == 0:
        try:
            use_the_pool()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    use_the_pool()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method):
    use_the_pool()
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(attend, range(4))
    for seed, out in enumerate(found):
        assert np.array_equal(out, attend(seed))


def test_data_loader():
    torch = pytest.importorskip("torch")

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return torch.from_numpy(attend(i))

    use_the_pool()
    batches = list(torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2))
    assert np.array_equal(torch.cat(batches).numpy(), np.stack([attend(i) for i in range(8)]))


# ---- threads -------------------------------------------------------------------------------------


def test_threads():
    """Eight at once have the bits of one."""
    layer = mh.MultiheadAttention(16, 4, seed=1)
    expected = [attend(i) for i in range(8)]
    x = f4(5, 2, 16)
    out, _ = layer(x, x, x)

    def work(i):
        for _ in range(50):
            assert np.array_equal(attend(i), expected[i])
            assert np.array_equal(layer(x, x, x)[0], out)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_cache_of_another_thread():
    """A cache serves one thread at a time: the others are refused, not mixed up."""
    cache = _multihead.KVCache(sequences=1, heads=1, key_width=8)
    refused, rows = [], f4(1, 1, 1, 8)

    def work():
        for _ in range(500):
            try:
                cache.append(rows, rows)
            except RuntimeError as error:
                assert "in use by another thread" in str(error)
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.lengths() == [2000 - len(refused)]


def test_number_of_threads_changes():
    expected = attend(0)
    try:
        for threads in (1, 2, 3, 1, 4, 5, 2, 6, 7, 0, 1):
            mh.set_num_threads(threads)
            assert np.array_equal(attend(0), expected)
    finally:
        mh.set_num_threads(0)


def test_calls_within_calls(tmp_path):
    """A callback of generate may use everything, even with another number of threads."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_positions=64, n_embd=32, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    model = mh.load(tmp_path)
    plain = model.generate([1, 2, 3], max_new_tokens=8)
    expected, again = attend(0), []

    def on_token(token):
        mh.set_num_threads(1 + len(again) % 3)
        assert np.array_equal(attend(0), expected)
        if len(again) < 20:
            again.append(token)
            if len(again) == 3:
                model.generate([1, 2, 3], max_new_tokens=3, on_token=on_token)

    try:
        found = model.generate([1, 2, 3], max_new_tokens=8, on_token=on_token)
    finally:
        mh.set_num_threads(0)
    assert found.ids == plain.ids and len(again) > 8


# ---- interpreters --------------------------------------------------------------------------------

WITHIN = """
import sys
sys.path[:] = {path!r}
try:
    import multihead
except ImportError as error:
    assert "subinterpreter" in str(error) or "interpreters" in str(error), error
else:
    raise SystemExit("imported")
"""


def test_subinterpreters():
    interpreters = None
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = __import__(name)
            break
        except ImportError:
            pass
    if interpreters is None:
        pytest.skip("this Python has none")
    program = f"""
import {interpreters.__name__} as i
found = i.run_string(i.create(), {WITHIN.format(path=sys.path)!r})
assert found is None, found
import multihead
print(multihead.__version__)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == mh.__version__


def test_imports_without_numpy():
    program = ("import sys; sys.modules['numpy'] = None; import multihead as mh; "
               "assert mh.isa() and mh.get_num_threads() > 0")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_packages_are_imported_late():
    """NumPy, PyTorch and transformers are not imported before they are needed."""
    program = ("import sys, multihead; "
               "print([m for m in ('numpy', 'torch', 'transformers') if m in sys.modules])")
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"
