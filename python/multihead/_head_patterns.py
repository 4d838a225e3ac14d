# SPDX-License-Identifier: MIT
"""What a head does: where its attention goes on average, and a name for it.

The same figures as the page's table of heads (web/patterns.js), which in cross-attention measures from
the aligned word, and also knows punctuation. `multihead heads` and Model.heads() name heads over many
texts, by heads.h.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAR = 2.5  # tokens


class Head(NamedTuple):
    """A head of a trace: averages over the queries; shares are 0 to 1.

    In cross-attention a query's own position is the proportional one in the other sentence.

    >>> import multihead as mh, numpy as np
    >>> head = mh.view(np.eye(8)).heads()[0]
    >>> head.pattern, head.itself, head.entropy == 0
    ('itself', 1.0, True)
    """

    layer: int
    head: int
    pattern: str  # "previous token", "itself", "first token", "local", "broad", ...
    entropy: float  # bits
    distance: float  # mean distance from query to key, in tokens
    itself: float  # share on the query's own position
    previous: float
    next: float
    first: float  # share on the first token
    end: float  # share on the last token
    same: float  # share on equal tokens at other positions


def _bare(token: str) -> str:
    """Without a tokenizer's marks."""
    return re.sub("(@@|</w>)$", "", re.sub("^(\u2581|\u0120|##)", "", token))


def _name(h: Head, near: float, evenness: float, square: bool, keys: int) -> str:
    small = keys < 6  # all positions are near each other
    patterns = [
        (square and h.previous >= 0.4, "previous token"),
        (square and h.next >= 0.4, "next token"),
        (square and h.itself >= 0.4, "itself"),
        (h.first >= 0.4, "first token"),
        (h.end >= 0.4, "end token"),
        (h.same >= 0.35, "same token"),
        (not small and near >= 0.6, "local" if square else "monotone"),
        (evenness >= 0.85, "broad"),
        (not small and h.distance >= 0.4 * keys, "long-range"),
        (evenness < 0.55, "focused"),
    ]
    return next((name for found, name in patterns if found), "mixed")


def describe_head(layer: int, head: int, weights: NDArray[np.float32], queries: Sequence[str],
                  keys: Sequence[str], square: bool) -> Head:
    """The figures of one head's weights (T, S)."""
    import numpy as np

    rows, columns = weights.shape
    w = weights.astype(np.float64)
    live = w.sum(1) > 0
    count = max(1, int(live.sum()))
    place = np.arange(rows) * (1.0 if square or rows < 2 else (columns - 1) / (rows - 1))
    own = np.floor(place + 0.5).astype(int)
    away = np.abs(np.arange(columns) - place[:, None])
    entropy = -(w * np.log2(w, where=w > 0, out=np.zeros_like(w))).sum(1)
    seen = (w > 0).sum(1)
    even = entropy[seen > 1] / np.log2(seen[seen > 1])
    equal = np.array([_bare(q) for q in queries])[:, None] == np.array([_bare(k) for k in keys])
    equal &= np.arange(columns) != own[:, None]

    def share(offset: int) -> float:
        at = own + offset
        inside = (at >= 0) & (at < columns)
        return float(w[np.nonzero(inside)[0], at[inside]].sum() / count)

    found = Head(layer, head, "", float(entropy.sum() / count), float((w * away).sum() / count),
                 share(0), share(-1), share(1), float(w[:, 0].sum() / count),
                 float(w[:, -1].sum() / count), float((w * equal).sum() / count))
    near = float((w * (away <= NEAR)).sum() / count)
    evenness = float(even.mean()) if even.size else 0.0
    return found._replace(pattern=_name(found, near, evenness, square, columns))
