# SPDX-License-Identifier: MIT
"""KVCache: attention over it has the bits of attention over all keys and values."""
import threading

import numpy as np
import pytest

import multihead as mh

B, H, G, E, EV, N = 2, 4, 2, 16, 8, 150


def inputs(seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes = (B, H, N, E), (B, G, N, E), (B, G, N, EV)
    return [(2 * rng.normal(size=shape)).astype(dtype) for shape in shapes]


def filled(k, v, parts=(N,), **options):
    cache = mh.KVCache(len(k), G, E, EV, **options)
    at = 0
    for part in parts:
        cache.append(k[:, :, at:at + part], v[:, :, at:at + part])
        at += part
    return cache


@pytest.mark.parametrize("parts", [(N,), (1,) * N, (100, 1, 49), (64, 64, 22)])
@pytest.mark.parametrize("options", [
    {"causal": "bottom-right"}, {"causal": False}, {"window": (40, 0)}, {"softcap": 3.0},
    {"alibi": True}, {"scale": 0.1}, {"sinks": np.arange(H, dtype=np.float32)},
    {"dropout": 0.3, "seed": 5}, {"prefix_lengths": np.array([3, 80])},
], ids=str)
def test_same_bits(parts, options):
    q, k, v = inputs()
    options = {"causal": "bottom-right"} | options
    cache = filled(k, v, parts)
    assert cache.lengths == [N, N] and len(cache) == B
    last = q[:, :, -7:]
    expected = mh.attention(last, k, v, weights=True, lse=True, **options)
    found = cache.attention(last, weights=True, lse=True, **options)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(cache.attention(last, **options), expected[0])


def test_token_by_token_is_causal_attention():
    q, k, v = inputs()
    whole = mh.attention(q, k, v, causal=True)
    cache = mh.KVCache(B, G, E, EV)
    for t in range(N):
        cache.append(k[:, :, t:t + 1], v[:, :, t:t + 1])
        assert np.array_equal(cache.attention(q[:, :, t:t + 1]), whole[:, :, t:t + 1])


def test_counts_and_packed_rows():
    q, k, v = inputs()
    counts = [90, 30]
    cache, packed = mh.KVCache(B, G, E, EV), mh.KVCache(B, G, E, EV)
    cache.append(k, v, counts)
    rows = [np.concatenate([a[b:b + 1, :, :counts[b]] for b in range(B)], 2) for a in (k, v)]
    packed.append_packed(*rows, starts=[0, 90, 120])
    assert cache.lengths == packed.lengths == counts
    out = cache.attention(q[:, :, :5])
    assert np.array_equal(out, packed.attention(q[:, :, :5]))
    for b in range(B):
        alone = [a[b:b + 1, :, :counts[b]] for a in (k, v)]
        expected = mh.attention(q[b:b + 1, :, :5], *alone, causal="bottom-right")
        assert np.array_equal(out[b:b + 1], expected)
    flat = np.concatenate([q[:1, :, :5], q[1:, :, :3]], 2)
    found = packed.attention(flat, query_starts=[0, 5, 8])
    assert np.array_equal(found[:, :, :5], out[:1])
    with pytest.raises(ValueError, match="packed"):
        packed.attention(flat, query_starts=[0, 5, 8], weights=True)


@pytest.mark.parametrize("dtype, tolerance", [("bf16", 3e-2), ("f16", 3e-3)])
def test_narrow_caches(dtype, tolerance):
    q, k, v = inputs()
    cache, exact = filled(k, v, dtype=dtype), filled(k, v)
    assert cache.nbytes <= 0.55 * exact.nbytes
    error = np.abs(cache.attention(q[:, :, -1:]) - exact.attention(q[:, :, -1:])).max()
    assert 0 < error < tolerance
    if dtype == "f16":  # NumPy rounds the same way
        rounded = [a.astype(np.float16).astype(np.float32) for a in (k, v)]
        assert np.array_equal(cache.attention(q[:, :, -1:]),
                              filled(*rounded).attention(q[:, :, -1:]))


def test_windows_evict():
    q, k, v = inputs()
    cache, whole = filled(k, v, (1,) * N, window=10), filled(k, v)
    assert cache.nbytes < whole.nbytes and cache.lengths == [N, N]
    found = cache.attention(q[:, :, -1:], window=(10, 0))
    assert np.array_equal(found, whole.attention(q[:, :, -1:], window=(10, 0)))
    with pytest.raises(ValueError):
        cache.attention(q[:, :, -1:])


def test_beam_search():
    q, k, v = inputs()
    cache = filled(k, v)
    cache.select([1, 0, 1])
    assert cache.lengths == [N, N, N]
    out = cache.attention(q[[1, 0, 1], :, -1:])
    assert np.array_equal(out, filled(k, v).attention(q[:, :, -1:])[[1, 0, 1]])
    shared = cache.nbytes
    cache.append(k[[1, 0, 1], :, :1], v[[1, 0, 1], :, :1])
    assert cache.nbytes < 1.5 * shared
    cache.truncate(2, 10)
    assert cache.lengths == [N + 1, N + 1, 10]
    cache.extend(2)
    assert cache.lengths[3:] == [0, 0]
    cache.reorder(np.arange(5)[::-1])
    assert cache.lengths == [0, 0, 10, N + 1, N + 1]
    cache.select([])
    assert len(cache) == 0


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    q, k, v = inputs()
    cache = mh.KVCache(B, G, E, EV, dtype="bf16")
    cache.append(*(torch.from_numpy(a).bfloat16() for a in (k, v)))
    out = cache.attention(torch.from_numpy(q[:, :, -1:]).bfloat16())
    assert out.dtype == torch.bfloat16 and out.shape == (B, H, 1, EV)


def test_errors():
    q, k, v = inputs()
    cache = filled(k, v)
    before = cache.lengths
    for call, message in [
        (lambda: mh.KVCache(1, 0, 4), "heads"),
        (lambda: mh.KVCache(1, -1, 4), "heads"),
        (lambda: mh.KVCache(1, 1, 4, dtype="int8"), "dtype"),
        (lambda: cache.append(k[:1], v[:1]), "k"),
        (lambda: cache.append(k, v[:, :, :1]), "v"),
        (lambda: cache.append(k, v, [1, 2, 3]), "counts"),
        (lambda: cache.append(k, v, [1, N + 1]), "counts"),
        (lambda: cache.append_packed(k[:1], v[:1], [0, 9]), "starts"),
        (lambda: cache.attention(q[0]), "q"),
        (lambda: cache.attention(q, causal="sideways"), "causal"),
        (lambda: cache.select([0, 2]), "parents"),
        (lambda: cache.select([0, -1]), "parents"),
        (lambda: cache.truncate(0, N + 1), "length"),
        (lambda: cache.truncate(-1, 0), "truncate"),
        (lambda: cache.extend(-1), "count"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    for call in (lambda: cache.append(None, v), lambda: cache.attention(None),
                 lambda: cache.attention(q, key_lengths=[1, 2])):
        with pytest.raises(TypeError):
            call()
    assert cache.lengths == before


def test_one_thread_at_a_time():
    """Calls of other threads raise, or wait for nobody and compute the right thing."""
    q, k, v = inputs()
    cache = filled(k, v)
    expected, wrong = cache.attention(q), []

    def work():
        for _ in range(30):
            try:
                if not np.array_equal(cache.attention(q), expected):
                    wrong.append("bits")
            except RuntimeError as error:
                if "another thread" not in str(error):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
