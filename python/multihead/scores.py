# SPDX-License-Identifier: MIT
"""Scores of translations, as sacreBLEU computes them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import _multihead


class BleuScore(NamedTuple):
    """What `bleu` returns.

    >>> import multihead as mh
    >>> mh.bleu(["a b c d e"], ["a b c d e"]).hypothesis_length
    5
    """

    score: float  # 0 to 100
    precisions: list[float]  # of n-grams of 1 to 4 words, in percent, smoothed
    brevity_penalty: float  # 0 to 1
    hypothesis_length: int  # in words
    reference_length: int


def _flat(references: Sequence[str] | Sequence[Sequence[str]], count: int) -> list[str]:
    """One reference per hypothesis, or several lists of them, as sacreBLEU takes them."""
    if isinstance(references, str):
        raise TypeError("references: found a string, expected a list of them")
    flat: list[str] = []
    for one in references:
        if isinstance(one, str):
            flat.append(one)
        elif len(one) != count:
            raise ValueError(f"references: found a list of {len(one)}, expected {count}")
        else:
            flat.extend(one)
    return flat


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
) -> BleuScore:
    """BLEU of a corpus: 13a tokenisation, exponential smoothing; sacreBLEU's defaults.

    references: one for each hypothesis, or several such lists.

    >>> import multihead as mh
    >>> round(mh.bleu(["the cat sat on the mat"], ["the cat sat on a mat"]).score, 2)
    53.73
    """
    return BleuScore(*_multihead.bleu(hypotheses, _flat(references, len(hypotheses)), lowercase))


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    word_order: int = 0,
    lowercase: bool = False,
) -> float:
    """chrF2 of a corpus, in percent; with word_order 2, chrF2++.

    >>> import multihead as mh
    >>> round(mh.chrf(["the cat sat"], ["the cat sits"]), 2)
    61.03
    """
    return _multihead.chrf(hypotheses, _flat(references, len(hypotheses)), word_order, lowercase)
