# SPDX-License-Identifier: MIT
"""Tokenizers: text to token ids and back."""
from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

from . import _multihead
from ._texts import listed


class Encoding(NamedTuple):
    """The tokens of a text, or of a pair of texts.

    >>> import multihead as mh
    >>> tokenizer = mh.Tokenizer.train(["a cat and a cat"] * 2)
    >>> encoding = tokenizer.encode("a cat")
    >>> [(token, "a cat"[begin:end]) for token, (begin, end) in zip(encoding.tokens, encoding.offsets)]
    [('a', 'a'), ('Ġcat', ' cat')]
    """

    ids: list[int]
    tokens: list[str]  # their names, as files write them: "Ġthe" for " the"
    offsets: list[tuple[int, int]]  # characters of the text; (0, 0) if special
    words: list[int]  # the number of the word in its text; -1 if special
    types: list[int]  # token type ids
    special: list[int]  # 1 for a token that the template has added
    sequences: list[int]  # 0, or 1 for tokens of the pair
    truncated: bool  # max_length has left tokens out


class Tokenizer:
    """The tokenizer of a published model, or one trained here. Ids and offsets are those of
    Hugging Face's tokenizers.

    `path` is a tokenizer.json or a model's directory, in which the tokenizer is found whatever its
    format: tokenizer.json, vocab.txt, vocab.json with merges.txt, SentencePiece or tiktoken.

    >>> import multihead as mh, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tokenizer.json")
    >>> mh.Tokenizer.train(["a cat and a cat"] * 2).save(path)
    >>> tokenizer = mh.Tokenizer(path)
    >>> tokenizer.decode(tokenizer.encode("a cat").ids)
    'a cat'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._core = _multihead.load_tokenizer(os.fspath(path))

    @classmethod
    def _of(cls, core: _multihead.Tokenizer) -> Tokenizer:
        made = cls.__new__(cls)
        made._core = core
        return made

    @classmethod
    def train(
        cls, texts: Iterable[str], *, merges: int = 8000, min_frequency: int = 2
    ) -> Tokenizer:
        """Learns a byte-level BPE vocabulary: <pad>, <s>, </s>, 256 bytes, and the merges.

        The same texts in any order give the same vocabulary. A pair seen less often than
        min_frequency is not merged.

        >>> import multihead as mh
        >>> len(mh.Tokenizer.train(["low lower lowest"] * 2, merges=4))
        263
        """
        return cls._of(
            _multihead.train_tokenizer(texts, merges=merges, min_frequency=min_frequency))

    def __len__(self) -> int:
        """The number of ids."""
        return self._core.size()

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"

    @overload  # a string is a sequence of strings, too
    def encode(  # type: ignore[overload-overlap]
        self, text: str, pair: str | None = None, *, add_special_tokens: bool = ...,
        special_from_text: bool = ..., max_length: int | None = ...,
    ) -> Encoding: ...

    @overload
    def encode(self, text: Sequence[str], pair: Sequence[str] | None = None, *,
               add_special_tokens: bool = ..., special_from_text: bool = ...,
               max_length: int | None = ...) -> list[Encoding]: ...

    def encode(
        self,
        text: str | Sequence[str],
        pair: str | Sequence[str] | None = None,
        *,
        add_special_tokens: bool = True,
        special_from_text: bool = True,
        max_length: int | None = None,
    ) -> Encoding | list[Encoding]:
        """The tokens of a text or of a pair; of a list of texts a list, on all threads.

        `add_special_tokens`: those of the tokenizer's template, such as [CLS] and [SEP].
        `special_from_text`: the name of a special token in a text becomes that token.

        >>> import multihead as mh
        >>> tokenizer = mh.Tokenizer.train(["a cat and a cat"] * 2)
        >>> [e.tokens for e in tokenizer.encode(["a cat", "and"])]
        [['a', 'Ġcat'], ['a', 'nd']]
        """
        if isinstance(text, str):
            if pair is not None and not isinstance(pair, str):
                raise TypeError(f"pair: found {pair!r}, expected a string, as text is")
            texts, pairs = [text], None if pair is None else [pair]
        else:
            texts, pairs = listed(text, "text"), None if pair is None else listed(pair, "pair")
        made = [Encoding(*fields) for fields in self._core.encode(
            texts, pairs, add_special_tokens=add_special_tokens,
            special_from_text=special_from_text, max_length=max_length)]
        return made[0] if isinstance(text, str) else made

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        return self._core.decode(ids, skip_special_tokens)

    def token(self, id: int) -> str | None:
        """The name of a token, or None if there is no such id."""
        return self._core.name(id)

    def id(self, token: str) -> int | None:
        """The id of the token of this name, or None if there is none."""
        return self._core.id(token)

    def token_bytes(self, id: int) -> bytes | None:
        """What a token stands for, perhaps a part of a character."""
        return self._core.token_bytes(id)

    @property
    def special_ids(self) -> dict[str, int]:
        """The special tokens by role: pad, bos, eos, unk, cls, sep, mask.

        >>> import multihead as mh
        >>> mh.Tokenizer.train(["text"]).special_ids
        {'pad': 0, 'bos': 1, 'eos': 2}
        """
        return self._core.roles()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes tokenizer.json, of a tokenizer that was trained here."""
        self._core.save(os.fspath(path))
