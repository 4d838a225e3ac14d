# SPDX-License-Identifier: MIT
"""Results and options of transcription."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict


class TranscribeOptions(TypedDict, total=False):
    """Options of `Model.transcribe`, with their defaults.

    >>> import multihead as mh
    >>> options: mh.TranscribeOptions = {"word_times": True, "num_beams": 5}
    """

    translate: bool  # False; True: to English, by multilingual models
    timestamps: bool  # True; False: one segment per window of 30 seconds
    word_times: bool  # False; True: when each word was said
    num_beams: int  # 1: greedy
    best_of: int  # 5: samples at higher temperatures, of which the likeliest is taken
    fallback: bool  # True: tries higher temperatures after repetition or an improbable text
    seed: int  # 0
    max_compression_ratio: float  # 2.4: text that zlib compresses better is repetition
    min_logprob: float  # -1: a mean below this is a failure
    max_no_speech: float  # 0.6: above, with a mean below min_logprob: silence
    condition_on_previous: bool  # True: the text so far is the context of the next window


class SpokenWord(NamedTuple):
    """A word, with the space before it and its punctuation.

    >>> import multihead as mh
    >>> mh.SpokenWord(0.7, 1.22, " tried,", 0.92).text
    ' tried,'
    """

    begin: float  # in seconds
    end: float
    text: str
    probability: float


class SpeechSegment(NamedTuple):
    """A part of a transcript, about a sentence.

    >>> import multihead as mh
    >>> segment = mh.SpeechSegment(0.0, 1.5, " Hello.", [50363], 0.0, -0.2, 0.9, 0.01, [])
    >>> segment.end - segment.begin
    1.5
    """

    begin: float  # in seconds
    end: float
    text: str
    ids: list[int]  # tokens of text and timestamps
    temperature: float  # of its window, as all below
    logprob: float  # mean of the tokens
    compression_ratio: float
    no_speech: float  # the probability that nothing is said
    words: list[SpokenWord]  # with word_times


class Transcription(str):
    """A transcript, which is a string, with its segments and language.

    >>> import multihead as mh
    >>> mh.Transcription("Hello.").segments
    []
    """

    segments: list[SpeechSegment]
    language: str  #: "en"

    def __new__(cls, text: str = "") -> Transcription:
        """A transcript without segments."""
        made = super().__new__(cls, text)
        made.segments = []
        made.language = ""
        return made

    @classmethod
    def _make(cls, language: str, segments: Sequence[Any]) -> Transcription:
        made = cls("".join(fields[2] for fields in segments).strip())
        made.language = language
        made.segments = [SpeechSegment._make([*fields[:8], [SpokenWord._make(word) for word in fields[8]]])
                         for fields in segments]
        return made
