# SPDX-License-Identifier: MIT
"""Results and options of text generation."""
from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from . import _multihead
from .tokenizers import Tokenizer

Message = Mapping[str, str]  # {"role": "user", "content": "..."}
Prompt = str | Sequence[int] | Sequence[Message]  # a text, token ids or a conversation


class TokenScore(NamedTuple):
    """A token and the logarithm of its probability, before temperature and filters.

    >>> import multihead as mh
    >>> mh.TokenScore(7, "cat", -0.5).logprob
    -0.5
    """

    id: int
    token: str | None
    logprob: float


class GenerateOptions(TypedDict, total=False):
    """Options of `Model.generate` and `Model.stream`, with their defaults.

    Filters apply in this order: repetition penalty, the model's token rules, temperature, top_k,
    top_p, min_p.

    >>> import multihead as mh
    >>> options: mh.GenerateOptions = {"temperature": 0.8, "top_p": 0.95, "seed": 7}
    """

    max_new_tokens: int  # 128
    max_length: int  # of prompt and generated tokens together; no limit
    temperature: float  # 0: greedy, the likeliest token
    top_k: int  # only the k likeliest tokens; all
    top_p: float  # the fewest likeliest tokens whose probabilities reach it; 1
    min_p: float  # tokens of at least min_p times the highest probability; 0
    repetition_penalty: float  # 1
    seed: int  # 0
    num_beams: int  # 1; more: beam search, only with temperature 0
    length_penalty: float  # 1
    top_logprobs: int  # how many of the likeliest tokens to report for each step; 0
    ignore_eos: bool  # end-of-text tokens do not end a sequence
    add_special_tokens: bool  # True; False for rendered conversations
    batch: int  # 16: sequences at a time
    segment: int  # 512: prompt tokens per step
    cache_dtype: str  # "f32", "bf16" or "f16": of keys and values


class Generation(str):
    """A generated text, which is a string, and how it came about.

    >>> import multihead as mh
    >>> text = mh.Generation("A continuation.")
    >>> text.upper(), text.finish
    ('A CONTINUATION.', '')
    """

    ids: list[int]  #: all generated tokens, the end-of-text token included
    tokens: list[str | None]  #: their names
    logprobs: list[float]  #: logarithms of their probabilities
    top_logprobs: list[list[TokenScore]]  #: the likeliest tokens of each step, if asked for
    prompt_ids: list[int]  #: the tokens before them
    finish: str = ""  #: why it ended: "stop", "length" or "stopped", by on_token

    def __new__(cls, text: str = "") -> Generation:
        """A text without tokens."""
        made = super().__new__(cls, text)
        made.ids, made.tokens, made.logprobs, made.top_logprobs, made.prompt_ids = [], [], [], [], []
        return made

    @classmethod
    def _make(cls, fields: Sequence[Any], tokenizer: Tokenizer | None) -> Generation:
        text, ids, logprobs, top, prompt, finish = fields
        made = cls(text)
        made.ids, made.logprobs, made.prompt_ids, made.finish = ids, logprobs, prompt, finish
        made.tokens = [tokenizer.token(i) if tokenizer else None for i in ids]
        made.top_logprobs = [_scores(step, tokenizer) for step in top]
        return made


class GeneratedToken(str):
    """The text that one more token adds, which may be none, and what else is known of it.

    Text that may be the beginning of a stop string, or of a character, comes with a later token.

    >>> import multihead as mh
    >>> token = mh.GeneratedToken(" cat")
    >>> token + "s", token.last
    (' cats', False)
    """

    sequence: int = 0  #: the index of the prompt
    position: int = 0  #: 0 for the first generated token
    id: int = -1
    logprob: float = 0.0
    top_logprobs: list[TokenScore]
    last: bool = False  #: of its sequence
    finish: str = ""  #: of the last: "stop", "length" or "stopped"

    def __new__(cls, text: str = "") -> GeneratedToken:
        """A text without a token."""
        made = super().__new__(cls, text)
        made.top_logprobs = []
        return made

    @classmethod
    def _make(cls, fields: Sequence[Any], tokenizer: Tokenizer | None) -> GeneratedToken:
        sequence, position, id, logprob, text, top, last, finish = fields
        made = cls(text)
        made.sequence, made.position, made.id, made.logprob = sequence, position, id, logprob
        made.top_logprobs, made.last, made.finish = _scores(top, tokenizer), last, finish
        return made


def _scores(top: Sequence[tuple[int, float]], tokenizer: Tokenizer | None) -> list[TokenScore]:
    return [TokenScore(id, tokenizer.token(id) if tokenizer else None, logprob)
            for id, logprob in top if id >= 0]


def with_model_defaults(options: GenerateOptions, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and what the model's generation_config.json says about the others."""
    usual_top_k = 50  # of transformers, where the file has none
    made: dict[str, Any] = {name: defaults[name] for name in (
        "top_p", "min_p", "repetition_penalty", "length_penalty", "num_beams", "max_new_tokens")
        if defaults[name] > 0}
    sampling = options.get("temperature", 0) > 0
    searching = options.get("num_beams", 1) > 1
    if sampling:  # an option wins over a default that contradicts it
        made.pop("num_beams", None)
    elif defaults["sample"] and not searching and "temperature" not in options:
        if made.get("num_beams", 1) > 1 and "num_beams" not in options:
            raise ValueError("generation_config.json: found do_sample and num_beams, and beam search does not "
                             "sample: expected temperature=0 or num_beams=1, too")
        made["temperature"] = defaults["temperature"] or 1.0
    if defaults["max_length"] and "max_new_tokens" not in {**made, **options}:
        made.update(max_new_tokens=2**31 - 1, max_length=defaults["max_length"])
    made.update(options)
    if made.get("temperature", 0) > 0:
        made.setdefault("top_k", defaults["top_k"] or usual_top_k)
    return made


# ---- streams ------------------------------------------------------------------------------------

_running: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """A program may end in the middle of a stream."""
    for thread in list(_running):
        thread.stopper.stop()
        thread.join()


class _Generating(threading.Thread):
    """Generates in a thread of its own, so that its consumer can stop at any token."""

    def __init__(self, run: Callable[[Callable[..., None], Any], Any]) -> None:
        super().__init__(name="multihead.stream", daemon=True)
        self.stopper = _multihead.Stop()
        self.found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._generate = run

    def run(self) -> None:
        try:
            self._generate(lambda *fields: self.found.put(fields), self.stopper)
            self.found.put(None)
        except BaseException as error:  # the consumer's
            self.found.put(error)


def stream_tokens(run: Callable[[Callable[..., None], Any], Any],
                  tokenizer: Tokenizer | None) -> Iterator[GeneratedToken]:
    """The tokens of run(callback, stopper), as they come."""
    thread = _Generating(run)
    _running.add(thread)
    thread.start()
    try:
        while (found := thread.found.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield GeneratedToken._make(found, tokenizer)
    finally:
        thread.stopper.stop()
        thread.join()
