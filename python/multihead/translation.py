# SPDX-License-Identifier: MIT
"""Results and options of translation."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TranslateOptions(TypedDict, total=False):
    """Options of `Model.translate`, with their defaults.

    >>> import multihead as mh
    >>> options: mh.TranslateOptions = {"num_beams": 1}
    >>> mh.load("models/fr-en").translate("Merci.", **options)
    'Thanks.'
    """

    num_beams: int  # 4: hypotheses per sentence; 1: greedy search
    length_penalty: float  # 1: score = log-probability / tokens^length_penalty
    max_length_factor: float  # 2: at most factor * source tokens + constant tokens
    max_length_constant: int  # 20
    batch: int  # 32: sentences at a time
    attention: bool  # False; True: cross-attention with the translation
    alignment_layer: int  # the decoder layer of that; the mean over all


class Translation(str):
    """A translation, which is a string, and how it was found.

    >>> import multihead as mh
    >>> found = mh.load("models/fr-en").translate("Il fait beau.", attention=True)
    >>> found
    'The weather is beautiful.'
    >>> found.attention.shape == (len(found.tokens), len(found.source_tokens))
    True
    """

    score: float = 0.0  #: the log-probability, normalised by length
    logprob: float = 0.0  #: of the whole
    ids: list[int]
    tokens: list[str]
    source_tokens: list[str]
    attention: NDArray[np.float32] | None = None  #: (tokens, source tokens), rows sum to 1
    token_logprobs: list[float] | None = None  #: of a translation that was given, </s> the last

    def __new__(cls, text: str = "") -> Translation:
        """A translation without tokens."""
        made = super().__new__(cls, text)
        made.ids, made.tokens, made.source_tokens = [], [], []
        return made

    @classmethod
    def _make(cls, fields: Sequence[Any]) -> Translation:
        made = cls(fields[0])
        (made.score, made.logprob, made.ids, made.tokens, made.source_tokens, made.attention,
         made.token_logprobs) = fields[1:]
        return made
