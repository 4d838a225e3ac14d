# SPDX-License-Identifier: MIT
"""A KV cache for autoregressive decoding."""
from __future__ import annotations

from typing import Any

from . import _multihead


def _vector(values: Any) -> Any:
    """Integers as the contiguous int64 vector that the library takes."""
    import numpy as np

    return None if values is None else np.ascontiguousarray(values, np.int64)


class KVCache:
    """Keys and values of some sequences, which grow by a few tokens at a time.

    Attention over a float32 cache has the same bits as `attention` over all keys and values,
    whether they were appended at once or token by token. dtype "bf16" and "f16" take half the
    memory. With a window, keys more than that before the next token may be evicted.

    >>> import multihead as mh, numpy as np
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 1, 2, 5, 8)).astype(np.float32)
    >>> cache = mh.KVCache(sequences=1, heads=2, key_width=8)
    >>> for t in range(5):
    ...     cache.append(k[:, :, t:t + 1], v[:, :, t:t + 1])
    >>> out = cache.attention(q[:, :, 4:])                   # the last token sees all
    >>> bool((out == mh.attention(q, k, v, causal=True)[:, :, 4:]).all())
    True
    """

    def __init__(
        self,
        sequences: int,
        heads: int,
        key_width: int,
        value_width: int | None = None,
        *,
        dtype: str = "f32",
        window: int | None = None,
    ) -> None:
        self._core = _multihead.KVCache(
            sequences=sequences, heads=heads, key_width=key_width, value_width=value_width,
            dtype=dtype, window=window)

    def __repr__(self) -> str:
        return f"KVCache(lengths={self.lengths}, nbytes={self.nbytes})"

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """The tokens of each sequence, evicted ones included."""
        return self._core.lengths()

    @property
    def nbytes(self) -> int:
        """The memory of the keys and values held."""
        return self._core.nbytes()

    def append(self, k: Any, v: Any, counts: Any = None) -> None:
        """Appends k (B, G, T, E), v (B, G, T, Ev): T tokens each, or the first counts[b]."""
        self._core.append(k, v, _vector(counts))

    def append_packed(self, k: Any, v: Any, starts: Any) -> None:
        """Appends k (1, G, rows, E), v (1, G, rows, Ev): sequence b gets rows starts[b] to
        starts[b + 1] - 1, perhaps none."""
        self._core.append_packed(k, v, _vector(starts))

    def attention(self, q: Any, *, causal: bool | str | int = "bottom-right",
                  query_starts: Any = None, **options: Any) -> Any:
        """Attention of q (B, H, T, E) over the cache: the last query sees all keys.

        Options are those of `multihead.attention`: mask, window, scale, softcap, prefix_lengths,
        documents, alibi, sinks, dropout, seed, precision, empty_row, and weights and lse for
        further results. Or q is packed, (1, H, rows, E) with query_starts (B + 1).
        """
        return self._core.attention(q, causal=causal, query_starts=_vector(query_starts), **options)

    def extend(self, count: int) -> None:
        """Adds empty sequences after those of the cache."""
        self._core.extend(count)

    def select(self, parents: Any) -> None:
        """Sequence i continues from sequence parents[i]: beam search, and dropping sequences.

        Common prefixes are shared, not copied.

        >>> import multihead as mh, numpy as np
        >>> cache = mh.KVCache(2, 1, 4)
        >>> cache.append(np.ones((2, 1, 3, 4), np.float32), np.ones((2, 1, 3, 4), np.float32))
        >>> cache.select([0, 0, 1])
        >>> cache.lengths
        [3, 3, 3]
        """
        self._core.select(_vector(parents))

    reorder = select

    def truncate(self, sequence: int, length: int) -> None:
        """Drops the tokens of a sequence from `length` on."""
        self._core.truncate(sequence, length)
