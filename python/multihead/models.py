# SPDX-License-Identifier: MIT
"""Pretrained models: everything that the command does with one."""
from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from . import _multihead
from ._heads import group_figures, heads_off
from ._pictures import is_picture, listed_pictures
from ._texts import listed
from .generation import (
    GeneratedToken,
    GenerateOptions,
    Generation,
    Message,
    Prompt,
    stream_tokens,
    with_model_defaults,
)
from .speech import TranscribeOptions, Transcription
from .tokenizers import Tokenizer
from .traces import Trace, view
from .translation import TranslateOptions, Translation

if TYPE_CHECKING:
    from typing import Unpack

    import numpy as np
    from numpy.typing import NDArray

    from ._pictures import Picture

    Array = NDArray[np.float32]


def _some(given: list[Any]) -> list[Any]:
    if not given:
        raise ValueError("texts: found none, expected at least 1")
    return given


class Candidate(NamedTuple):
    """A token for a mask.

    >>> import multihead as mh
    >>> mh.Candidate("cat", 0.5, "##cat", 4).text
    'cat'
    """

    text: str  # what it stands for
    probability: float
    token: str  # its name
    id: int


class Label(NamedTuple):
    """A class of a text or a picture.

    >>> import multihead as mh
    >>> label, probability, id = mh.Label("positive", 0.9, 1)
    """

    label: str
    probability: float
    id: int


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def _ranked(logits: Array, names: Sequence[str], top: int | None) -> list[list[Label]]:
    """The likeliest labels of each row; the probability of one label alone is a sigmoid."""
    best = _multihead.top(logits, len(names) if top is None else top)
    if len(names) == 1:
        return [[Label(names[0], _sigmoid(float(row[0])), 0)] for row in logits]
    return [[Label(names[id], math.exp(logp), id) for id, logp in row] for row in best]


def load(name: str | os.PathLike[str], dtype: str = "auto") -> Model:
    """A pretrained model: a directory as Hugging Face publishes it, one that `multihead train` has
    written, or a GGUF file; or the name of one, in $MULTIHEAD_MODELS, ./models, where models are
    installed, or ORG/NAME in Hugging Face's cache. Nothing is downloaded.

    dtype: "f32" or "bf16", of the weights, or "auto": as the command's `generate` and `translate`
    choose, bf16 where the file has fewer than 32 bits per weight or the CPU multiplies it natively.

    >>> import multihead as mh
    >>> mh.load("models/fr-en")
    Model('fr-en', multihead translator, 7.64M parameters: embed, translate)
    """
    return Model(_multihead.find_model(os.fsencode(name)), dtype)


class Model:
    """What `load` returns: a model and all that it can do. Immutable: threads may share it.

    A text gives one result, a list of texts a list of them; a text's result does not depend on
    the others.

    >>> import multihead as mh
    >>> model = mh.load("models/fr-en")
    >>> model.translate(["Bonjour !", "Merci beaucoup."])
    ['Good morning.', 'Thank you very much.']
    """

    def __init__(self, path: str | os.PathLike[str], dtype: str = "auto") -> None:
        self.path = os.fspath(path)
        self.dtype = dtype
        self._core = _multihead.Model(self.path, dtype)
        self._info: dict[str, Any] = self._core.describe()
        core = self._core.tokenizer()
        self._tokenizer = Tokenizer._of(core) if core else None

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.path, self.dtype)  # loaded again, in another process

    def __repr__(self) -> str:
        size = self._info["parameters"]
        shown = f"{size / 1e6:.3g}M" if size < 1e9 else f"{size / 1e9:.3g}B"
        return (f"Model({self.name!r}, {self._info['family']}, {shown} parameters: "
                f"{', '.join(self.abilities)})")

    # ---- what it is -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The last part of its path."""
        return os.path.basename(os.path.abspath(self.path))

    @property
    def abilities(self) -> list[str]:
        """What it can do: some of embed, fill, classify, generate, translate, transcribe, and match,
        pictures with texts."""
        return list(self._info["abilities"])

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer.

        >>> import multihead as mh
        >>> mh.load("models/fr-en").tokenizer.encode("Bonjour !").tokens
        ['B', 'on', 'jour', 'Ġ!', '</s>']
        """
        if self._tokenizer is None:
            raise ValueError(f"{self.path}: has no tokenizer, expected one of tokenizer.json, vocab.txt, vocab.json "
                             "with merges.txt, tokenizer.model, spiece.model or source.spm")
        return self._tokenizer

    def info(self) -> dict[str, Any]:
        """Sizes, abilities and settings, under the names of `multihead info -m MODEL --json`;
        memory_bytes is what it takes as it was loaded.

        >>> import multihead as mh
        >>> info = mh.load("models/fr-en").info()
        >>> info["layers"], info["heads"], info["d_model"]
        (3, 4, 256)
        """
        found = dict(self._info, name=self.name, path=self.path)
        found["can"] = found.pop("abilities")
        found["label_names"] = found.pop("labels")
        found["labels"] = len(found["label_names"])
        has_tokenizer = found.pop("tokenizer")
        if has_tokenizer:
            ids = dict.fromkeys(self.tokenizer.special_ids.values())
            found["tokenizer_size"] = len(self.tokenizer)
            found["special_tokens"] = [self.tokenizer.token(id) for id in ids]
        return found

    def _need(self, ability: str, what: str) -> None:
        if ability not in self._info["abilities"]:
            raise ValueError(f"{self.path}: this model ({self._info['family']}) {what}; "
                             f"it can {', '.join(self.abilities) or 'do nothing'}")

    # ---- vectors ----------------------------------------------------------------------------

    def embed(self, texts: str | Iterable[str] | Picture | Iterable[Picture], *,
              pooling: str | None = None, normalize: bool | None = None, truncate: bool = True,
              batch: int | None = None) -> Array:
        """Vectors of texts, (N, D), or (D) of one text: similar for texts of similar meaning.

        pooling: "mean", "cls", "last" or "max"; with normalize: of length 1. By default both are
        as the model's files say. Texts that are too long are truncated, or refused. `batch`:
        tokens that are computed together.

        A model that reads pictures takes these: paths, arrays (height, width, 3) or (height,
        width) of uint8, or Pillow's images. To CLIP a string is a text, a pathlib.Path a picture.

        >>> import multihead as mh
        >>> mh.load("models/fr-en").embed(["un chat", "un chien"]).shape
        (2, 256)
        """
        if self._reads_pictures:
            return self._embed_pictures(texts, pooling, normalize, truncate, batch)
        found: Array = self._core.embed(
            listed(texts, "texts"),  # type: ignore[arg-type]
            pooling=pooling, normalize=normalize, truncate=truncate, batch=batch)
        return found[0] if isinstance(texts, str) else found

    @property
    def _reads_pictures(self) -> bool:
        return bool(self._info["image_size"])

    def _embed_pictures(self, given: Any, pooling: str | None, normalize: bool | None,
                        truncate: bool, batch: int | None) -> Array:
        """Of CLIP strings are texts, all else, and all of the others, pictures."""
        import numpy as np

        def is_text(one: Any) -> bool:
            return isinstance(one, str) and "match" in self._info["abilities"]

        def texts(some: list[str]) -> Array:
            found: Array = self._core.embed(some, pooling=pooling, normalize=normalize,
                                            truncate=truncate, batch=batch)
            return found

        if is_text(given):
            return texts([given])[0]  # type: ignore[no-any-return]
        if not isinstance(given, str) and not is_picture(given):
            given = list(given)
            chosen = np.array([is_text(one) for one in given], bool)
            if chosen.any():
                rows = np.empty((len(given), self._info["embedding_dim"]), np.float32)
                rows[chosen] = texts([one for one in given if is_text(one)])
                if not chosen.all():
                    rest, _ = listed_pictures([one for one in given if not is_text(one)], "pictures")
                    rows[~chosen] = self._core.embed_pictures(rest, pooling, normalize)
                return rows
        pictures, single = listed_pictures(given, "pictures")
        found: Array = self._core.embed_pictures(pictures, pooling, normalize)
        return found[0] if single else found

    def hidden(self, text: str | Sequence[int], *, truncate: bool = True) -> Array:
        """The last layer's output for every token of a text, or of token ids: (T, D).

        >>> import multihead as mh
        >>> mh.load("models/fr-en").hidden("un chat").shape
        (3, 256)
        """
        ids = self._core.encode([text], truncate)[0][0] if isinstance(text, str) else text
        found: Array = self._core.hidden(ids)
        return found

    # ---- masks and classes ------------------------------------------------------------------

    @overload
    def fill(  # type: ignore[overload-overlap]
            self, text: str, *, top: int = ..., truncate: bool = ...) -> list[list[Candidate]]: ...

    @overload
    def fill(self, text: Sequence[str], *, top: int = ...,
             truncate: bool = ...) -> list[list[list[Candidate]]]: ...

    def fill(self, text: str | Sequence[str], *, top: int = 5, truncate: bool = True) -> Any:
        """The likeliest tokens for each mask of a text, by a masked language model.

        A mask is the model's own mask token, [MASK], <mask> or ___.
        """
        self._need("fill", "has no masked language model head")
        filled = [self._fill(one, top, truncate) for one in listed(text, "text")]
        return filled[0] if isinstance(text, str) else filled

    def _fill(self, text: str, top: int, truncate: bool) -> list[list[Candidate]]:
        import numpy as np

        mask_id = self.tokenizer.special_ids.get("mask")
        mask = None if mask_id is None else self.tokenizer.token(mask_id)
        if not mask:
            raise ValueError(f"{self.path}: the tokenizer has no mask token")
        pattern = f"{re.escape(mask)}|\\[MASK\\]|<mask>|___+"
        ids, truncated = self._core.encode([re.sub(pattern, lambda _: mask, text)], truncate)[0]
        rows = np.flatnonzero(np.array(ids) == mask_id)
        if len(rows) == 0:
            where = " among the tokens that fit" if truncated else ""
            raise ValueError(f"text: found no mask{where}, expected {mask} or ___")
        logits = self._core.logits(self._core.hidden(ids)[rows])
        return [[self._candidate(id, logp) for id, logp in best]
                for best in _multihead.top(logits, top)]

    def _candidate(self, id: int, logp: float) -> Candidate:
        name, meant = self.tokenizer.token(id) or "", self.tokenizer.token_bytes(id) or b""
        try:
            text = meant.decode()
        except UnicodeDecodeError:  # a part of a character
            text = name
        return Candidate(text, math.exp(logp), name, id)

    @overload
    def classify(  # type: ignore[overload-overlap]
            self, text: Picture, pair: str | None = None, *,
            labels: Sequence[str] | None = ..., top: int | None = ...,
            truncate: bool = ...) -> list[Label]: ...

    @overload
    def classify(self, text: Sequence[str] | Sequence[Picture], pair: str | None = None, *,
                 labels: Sequence[str] | None = ..., top: int | None = ...,
                 truncate: bool = ...) -> list[list[Label]]: ...

    def classify(self, text: Any, pair: str | None = None, *, labels: Sequence[str] | None = None,
                 top: int | None = None, truncate: bool = True) -> Any:
        """The labels of a text, or of a picture, with their probabilities, the likeliest first.

        pair: the second text of every pair, such as the hypothesis of an entailment model. `top`:
        only the likeliest labels. A picture is a path, an array (height, width, 3) or (height,
        width) of uint8, or Pillow's; an array of four dimensions is a list of them. With CLIP,
        `labels` are the texts that a picture is compared with. The probability of a classifier with
        one label is the sigmoid of its logit.
        """
        if self._reads_pictures:
            if pair is not None:
                raise ValueError(f"pair: expected None: {self.path} reads pictures")
            return self._classify_pictures(text, labels, top, truncate)
        if labels is not None:
            raise ValueError("labels: expected None: they are for models that match pictures with "
                             "texts, such as CLIP")
        self._need("classify", "has no sequence classifier")
        found = [self._classify(one, pair, top, truncate) for one in listed(text, "text")]
        return found[0] if isinstance(text, str) else found

    def _classify(self, text: str, pair: str | None, top: int | None, truncate: bool) -> list[Label]:
        types = None
        if pair is None:
            ids = self._core.encode([text], truncate)[0][0]
        else:
            encoding = self.tokenizer.encode(
                text, pair, max_length=self._info["max_length"] if truncate else None)
            ids, types = encoding.ids, encoding.types
        return _ranked(self._core.classify(ids, types), self._info["labels"], top)[0]

    def _classify_pictures(self, given: Any, labels: Sequence[str] | None, top: int | None,
                           truncate: bool) -> Any:
        pictures, single = listed_pictures(given, "pictures")
        if "match" in self._info["abilities"]:
            names = listed(labels or [], "labels")
            if not names:
                raise ValueError(f"labels: expected texts: {self.path} has no labels of its own")
            texts = self._core.embed(names, normalize=True, truncate=truncate)
            logits = self._info["logit_scale"] * (self._core.embed_pictures(pictures, None, True) @ texts.T)
        elif labels is not None:
            raise ValueError(f"labels: expected None: {self.path} has labels of its own")
        else:
            self._need("classify", "has no classifier")
            names = self._info["labels"]
            logits = self._core.classify_pictures(pictures)
        found = _ranked(logits, names, top) if pictures else []
        return found[0] if single else found

    # ---- generation -------------------------------------------------------------------------

    def chat_prompt(self, messages: Sequence[Message], template: str | None = None) -> str:
        """A conversation as the model's chat template writes it, ready for the answer.

        messages: {"role": "system", "user" or "assistant", "content": text}, as in transformers.
        template: "chatml", "llama3", "gemma", "mistral" or "zephyr", for a model without one.
        """
        pairs = []
        for i, message in enumerate(messages):
            if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
                raise TypeError(f"messages[{i}]: found {message!r}, expected a dictionary of role "
                                "and content")
            pairs.append((message["role"], message["content"]))
        return self._core.chat(pairs, template)

    def _prompts(self, prompt: Any) -> tuple[list[Any], bool, bool]:
        """The prompts as a list, whether there is only one, and whether they are conversations."""
        if isinstance(prompt, str):
            return [prompt], True, False
        try:
            items = list(prompt)
        except TypeError:
            raise TypeError(f"prompt: found {prompt!r}, expected a text, token ids, a conversation, "
                            "or a list of these") from None
        if items and isinstance(items[0], Mapping):
            return [self.chat_prompt(items)], True, True
        if items and all(isinstance(item, (list, tuple)) and item and isinstance(item[0], Mapping)
                         for item in items):
            return [self.chat_prompt(item) for item in items], False, True
        one = bool(items) and not isinstance(items[0], (str, Sequence)) and not hasattr(
            items[0], "__len__")
        return [items] if one else items, one, False

    def _generate(self, prompts: list[Any], conversation: bool, stop: str | Iterable[str],
                  disabled_heads: Any, model_defaults: bool, options: GenerateOptions,
                  callback: Callable[..., Any] | None, stopper: Any) -> Any:
        self._need("generate", "is no causal language model")
        given: dict[str, Any] = dict(options)
        if model_defaults:
            given = with_model_defaults(options, self._info["generation_defaults"])
        if conversation:
            given.setdefault("add_special_tokens", False)
        return self._core.generate(prompts, listed(stop, "stop"), heads_off(disabled_heads, self._info),
                                   callback, stopper, **given)

    @overload
    def generate(  # type: ignore[overload-overlap]
            self, prompt: str, *, on_token: Callable[[GeneratedToken], bool | None] | None = ...,
            stop: str | Iterable[str] = ..., disabled_heads: Any = ..., model_defaults: bool = ...,
            **options: Unpack[GenerateOptions]) -> Generation: ...

    @overload
    def generate(self, prompt: Sequence[int] | Sequence[Message], *,
                 on_token: Callable[[GeneratedToken], bool | None] | None = ...,
                 stop: str | Iterable[str] = ..., disabled_heads: Any = ..., model_defaults: bool = ...,
                 **options: Unpack[GenerateOptions]) -> Generation: ...

    @overload
    def generate(self, prompt: Sequence[str] | Sequence[Sequence[int]] | Sequence[Sequence[Message]],
                 *, on_token: Callable[[GeneratedToken], bool | None] | None = ...,
                 stop: str | Iterable[str] = ..., disabled_heads: Any = ..., model_defaults: bool = ...,
                 **options: Unpack[GenerateOptions]) -> list[Generation]: ...

    def generate(
        self,
        prompt: Any,
        *,
        on_token: Callable[[GeneratedToken], bool | None] | None = None,
        stop: str | Iterable[str] = (),
        disabled_heads: Any = None,
        model_defaults: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Generation | list[Generation]:
        """Continues a text, token ids, or a conversation; a list of them gives a list.

        The result is a string with ids, logprobs and more; see Generation. By default the likeliest
        token is taken; temperature=0.8, top_p=0.95, seed=7 and so on sample: see GenerateOptions.
        What is generated for a prompt depends on it, its index, the options and the seed only.

        on_token is called with each GeneratedToken; if it returns False, that sequence ends.
        stop: strings before which the text ends. model_defaults: what the model's
        generation_config.json says, where options do not. disabled_heads: (layer, head), or a
        layer for all of its heads.
        """
        prompts, one, conversation = self._prompts(prompt)
        callback = None
        if on_token is not None:
            handler = on_token

            def callback(*fields: Any) -> bool | None:
                return handler(GeneratedToken._make(fields, self._tokenizer))

        found = self._generate(prompts, conversation, stop, disabled_heads, model_defaults, options,
                               callback, None)
        made = [Generation._make(fields, self._tokenizer) for fields in found]
        return made[0] if one else made

    def stream(
        self,
        prompt: Prompt | Sequence[Prompt],
        *,
        stop: str | Iterable[str] = (),
        disabled_heads: Any = None,
        model_defaults: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Iterator[GeneratedToken]:
        """The same, token by token, as they are generated:

            for token in model.stream("Once upon a time"):
                print(token, end="", flush=True)

        Leaving the loop ends the generation. Options are those of `generate`.
        """
        prompts, _, conversation = self._prompts(prompt)
        return stream_tokens(
            lambda callback, stopper: self._generate(prompts, conversation, stop, disabled_heads,
                                                     model_defaults, options, callback, stopper),
            self._tokenizer)

    def chat(self, messages: str | Sequence[Message], *, system: str | None = None,
             template: str | None = None, on_token: Callable[[GeneratedToken], bool | None] | None = None,
             stop: str | Iterable[str] = (), model_defaults: bool = False,
             **options: Unpack[GenerateOptions]) -> Generation:
        """The answer to a message, or to a conversation: {"role": ..., "content": ...} each.

        system: a system message before them. Other options are those of `generate`.
        """
        turns: list[Message] = [{"role": "user", "content": messages}] if isinstance(
            messages, str) else list(messages)
        if system is not None:
            turns.insert(0, {"role": "system", "content": system})
        options.setdefault("add_special_tokens", False)
        return self.generate(self.chat_prompt(turns, template), on_token=on_token, stop=stop,
                             model_defaults=model_defaults, **options)

    # ---- translation ------------------------------------------------------------------------

    @overload
    def translate(  # type: ignore[overload-overlap]
            self, texts: str, target: str | None = None, *, n_best: None = None,
            disabled_heads: Any = ..., **options: Unpack[TranslateOptions]) -> Translation: ...

    @overload
    def translate(self, texts: Sequence[str], target: Sequence[str] | None = None, *,
                  n_best: None = None, disabled_heads: Any = ...,
                  **options: Unpack[TranslateOptions]) -> list[Translation]: ...

    @overload
    def translate(  # type: ignore[overload-overlap]
            self, texts: str, target: None = None, *, n_best: int, disabled_heads: Any = ...,
            **options: Unpack[TranslateOptions]) -> list[Translation]: ...

    @overload
    def translate(self, texts: Sequence[str], target: None = None, *, n_best: int,
                  disabled_heads: Any = ...,
                  **options: Unpack[TranslateOptions]) -> list[list[Translation]]: ...

    def translate(self, texts: str | Sequence[str], target: str | Sequence[str] | None = None, *,
                  n_best: int | None = None, disabled_heads: Any = None,
                  **options: Unpack[TranslateOptions]) -> Any:
        """Translates a text, or a list of texts, by beam search; see TranslateOptions.

        The result is a string with its score, tokens and, with attention=True, cross-attention;
        see Translation. With n_best, each text has a list of that many, the best first. With
        target, nothing is searched: the translation that is given gets its scores.
        disabled_heads: (kind, layer, head), kind encoder, decoder or cross.

        >>> import multihead as mh
        >>> model = mh.load("models/fr-en")
        >>> [str(t) for t in model.translate("Il fait beau.", n_best=2)]
        ['The weather is beautiful.', "It's beautiful."]
        >>> given = model.translate("Il fait beau.", "The weather is fine.")
        >>> len(given.token_logprobs) == len(given.tokens) + 1
        True
        """
        self._need("translate", "does not translate")
        given: dict[str, Any] = dict(options)
        if n_best is not None:
            given.setdefault("num_beams", max(4, n_best))
        targets = None if target is None else listed(target, "target")
        if target is not None and isinstance(target, str) != isinstance(texts, str):
            raise TypeError(f"target: found {target!r}, expected a text for a text, or a list")
        made = self._core.translate(listed(texts, "texts"), targets,
                                    heads_off(disabled_heads, self._info), n_best=n_best, **given)
        ranked = [[Translation._make(fields) for fields in ranks] for ranks in made]
        found = ranked if n_best is not None else [ranks[0] for ranks in ranked]
        return found[0] if isinstance(texts, str) else found

    # ---- speech -----------------------------------------------------------------------------

    def transcribe(self, samples: Any, rate: int = 16000, *, language: str | None = None,
                   prompt: str = "", **options: Unpack[TranscribeOptions]) -> Transcription:
        """The text of speech, by Whisper; see TranscribeOptions.

        samples: of one channel, floats with full scale -1 to 1, or integers of 16 or 32 bits, at
        any rate. language: "fr" or "french"; detected by default. prompt: what came before the
        sound: names, spellings, style.

        The result is a string with its segments and, with word_times=True, their words:

            samples, rate = soundfile.read("talk.flac")      # of one channel
            print(mh.load("whisper-tiny.en").transcribe(samples, rate))
        """
        import numpy as np

        self._need("transcribe", "does not transcribe")
        sound = np.asarray(samples)
        if sound.ndim != 1:
            raise ValueError(f"samples: found shape {sound.shape}, expected (samples,): one channel, "
                             "or the mean of several")
        if sound.dtype in (np.int16, np.int32):
            sound = sound / -float(np.iinfo(sound.dtype).min)
        elif not np.issubdtype(sound.dtype, np.floating):
            raise ValueError(f"samples: found {sound.dtype}, expected floats, int16 or int32")
        sound = np.ascontiguousarray(sound, np.float32)
        if not np.isfinite(sound).all():
            raise ValueError("samples: found NaN or infinity")
        return Transcription._make(*self._core.transcribe(sound, rate, language, prompt, **options))

    # ---- what heads attend to ---------------------------------------------------------------

    def look(self, text: str | Sequence[int] | Generation | Picture, pair: str | None = None, *,
             target: str | None = None, disabled_heads: Any = None) -> Trace:
        """What the heads attend to in a text, or a pair of texts; of an encoder-decoder, in a
        translation: the one that it finds, or `target`.

        Token ids are looked at as they are, a Generation together with its prompt. With a model
        that reads pictures: a picture, as in `embed`.

        >>> import multihead as mh
        >>> mh.load("models/fr-en").look("Bonjour !", target="Good morning!")
        Trace('Bonjour !': encoder.self (3, 4, 5, 5), decoder.self (3, 4, 4, 4), cross (3, 4, 4, 5))
        """
        if self._reads_pictures and (is_picture(text) or "match" not in self._info["abilities"]):
            return self._look_at_picture(text, pair, target, disabled_heads)
        if self._reads_pictures and disabled_heads is not None:
            raise ValueError("disabled_heads: expected None: of this model they are for pictures")
        off = heads_off(disabled_heads, self._info)
        if isinstance(text, Generation):
            return self._look_at_ids([*text.prompt_ids, *text.ids], off, None)
        if not isinstance(text, str):
            if not hasattr(text, "__iter__"):
                raise TypeError(f"text: found {text!r}, expected a text or token ids")
            return self._look_at_ids(list(text), off, target)  # type: ignore[arg-type]
        if "translate" not in self._info["abilities"]:
            if target is not None:
                raise ValueError("target: expected None: the model is no encoder-decoder")
            return Trace(self._core.trace(text, pair, off), model=self.name)
        if pair is not None:
            raise ValueError("pair: found an encoder-decoder, whose second text is target")
        found = self.translate(text, target)
        return Trace(self._core.trace_translation(text, found.ids, off), model=self.name)

    def heads(self, texts: str | Iterable[str] | Picture | Iterable[Picture],
              target: Iterable[str] | None = None, *, far: int = 5) -> dict[str, dict[str, Any]]:
        """What each head does on average over many texts, as `multihead heads` tells: how much of
        its attention goes to the previous token, to equal words, to rare ones and so on.

        For each kind of attention, in arrays (layers, heads):

            weights[pattern]    the part of attention on keys of this pattern, 0 to 1, averaged over
                                the queries that have such a key
            entropy, distance   as a part of the largest entropy; the mean distance in tokens
            names               lists of lists: the pattern far above a uniform head's that counts
                                most, else "broad" or "mixed"

        and as numbers queries[pattern], uniform[pattern] and uniform_distance, of a head with equal
        weights. `far`: tokens beyond which a key is "far". Of a model that translates, `target` are
        the translations, or else its own; of one that reads pictures, the texts are pictures.

        >>> import multihead as mh
        >>> model = mh.load("models/fr-en")
        >>> found = model.heads(["Le chat noir dort.", "Il fait beau."], ["A cat.", "It's nice."])
        >>> found["cross"]["weights"]["aligned"].shape, found["cross"]["queries"]["aligned"]
        ((3, 4), 8)
        """
        words, traces = self._traced(texts, target)
        return {kind: group_figures(*group)
                for kind, group in _multihead.head_statistics(words, traces, far).items()}

    def _traced(self, texts: Any, target: Any) -> tuple[list[str], Iterator[Any]]:
        """All texts, whose words are counted, and the traces, one after the other."""
        translates = "translate" in self._info["abilities"]
        if target is not None and not translates:
            raise ValueError("target: expected None: the model is no encoder-decoder")
        if self._reads_pictures:
            pictures, _ = listed_pictures(texts, "texts")
            return [], (self._core.trace_picture([one], None, None) for one in _some(pictures))
        sources = _some(listed(texts, "texts"))
        if not translates:
            return sources, (self._core.trace(text, None, None) for text in sources)
        given = self.translate(sources, None if target is None else listed(target, "target"))
        return sources + [str(t) for t in given], (
            self._core.trace_translation(text, t.ids, None) for text, t in zip(sources, given))

    def _look_at_picture(self, picture: Any, pair: Any, target: Any, disabled_heads: Any) -> Trace:
        if pair is not None or target is not None:
            raise ValueError(f"{'target' if pair is None else 'pair'}: expected None: it is for texts")
        pictures, single = listed_pictures(picture, "picture")
        if not single:
            raise TypeError(f"picture: found {len(pictures)}, expected one")
        name = os.fspath(picture) if isinstance(picture, (str, os.PathLike)) else None
        off = heads_off(disabled_heads, self._info)
        return Trace(self._core.trace_picture(pictures, name, off), model=self.name)

    def _look_at_ids(self, ids: list[int], off: bytes | None, target: str | None) -> Trace:
        if target is not None:
            raise ValueError("target: expected None: it is for a text, not for token ids")
        made = Trace(self._core.trace_ids(ids, off), model=self.name)
        if self._tokenizer is None:
            return made
        group = made[made.kinds[0]]
        title = self._tokenizer.decode(ids)
        return view(group.weights, [self._tokenizer.token(id) or str(id) for id in ids],
                    kind=group.kind, title=title, model=self.name, q=group.q, k=group.k, v=group.v,
                    out=group.out, mask=group.mask, scale=group.scale or None)
