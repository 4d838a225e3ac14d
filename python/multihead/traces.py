# SPDX-License-Identifier: MIT
"""Traces: what heads attended to, as arrays, as a page, and as a picture."""
from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _head_patterns, _multihead, _picture
from ._head_patterns import Head

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

# The first that a trace has is what it shows unless told otherwise.
KINDS = ("cross", "encoder.self", "decoder.self", "attention")
SHORT_KINDS = {"encoder": "encoder.self", "decoder": "decoder.self"}
MARKS = ("\u2581", "\u0120")  # of tokenizers, before the first token of a word
FRAME_HEIGHT = 640  # of the page in a notebook


class AttentionGroup(NamedTuple):
    """Attention of one kind in all layers. L layers, H heads, G key/value heads, T queries, S keys.

    Where weights are softmax(scale q k^T), q, k and v are there, too.

    >>> import multihead as mh
    >>> group = mh.load("models/fr-en").look("Bonjour !")["cross"]
    >>> group.weights.shape == (3, 4, len(group.query_tokens), len(group.key_tokens))
    True
    """

    kind: str  # "encoder.self", "decoder.self", "cross" or "attention"
    weights: Array  # (L, H, T, S)
    query_tokens: list[str]  # (T)
    key_tokens: list[str]  # (S)
    sequences: bool  # L counts the sequences of a batch, not layers
    q: Array | None  # (L, H, T, E)
    k: Array | None  # (L, G, S, E)
    v: Array | None  # (L, G, S, Ev)
    out: Array | None  # (L, T, D): the result of the output projection
    mask: Any  # (T, S) or None: nonzero where a query may attend
    scale: float  # of q k; 0: 1 / sqrt(E)


class HeadLink(NamedTuple):
    """How much a head links two words: the attention of one word's tokens to the other's.

    >>> import multihead as mh
    >>> links = mh.load("models/fr-en").look("Le chat noir dort.").links("chat", "dort")
    >>> len(links), links[0].forward <= 1
    (12, True)
    """

    layer: int
    head: int
    forward: float  # from the first word to the second
    backward: float


class Trace:
    """What the heads of a model attended to.

    In a notebook a trace is shown as the viewer, which needs no network; `save` writes the same
    page to a file.

    >>> import multihead as mh
    >>> trace = mh.load("models/fr-en").look("Bonjour !")
    >>> trace.kinds, trace.weights.shape
    (['encoder.self', 'decoder.self', 'cross'], (3, 4, 4, 5))
    >>> trace["encoder"].key_tokens
    ['B', 'on', 'jour', '▁!', '</s>']
    """

    def __init__(self, core: Any, title: str | None = None, model: str | None = None) -> None:
        self._core = core
        found_title, found_model, tokens = core.describe()
        self._sides: dict[str, tuple[list[str], list[bool] | None]] = tokens
        self.title: str | None = title or found_title
        self.model: str | None = model or found_model
        self._groups = {kind: self._group(kind, fields) for kind, fields in core.groups().items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """A trace from a file that `save` or the command's --trace-out has written.

        >>> import multihead as mh, numpy as np, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "trace.safetensors")
        >>> mh.view(np.eye(2), ["a", "b"]).save(path)
        >>> mh.Trace.load(path).tokens
        ['a', 'b']
        """
        return cls(_multihead.open_trace(os.fspath(path)))

    def __repr__(self) -> str:
        groups = ", ".join(f"{g.kind} {g.weights.shape}" for g in self._groups.values())
        return f"Trace({self.title!r}: {groups})"

    # ---- weights and tokens -----------------------------------------------------------------

    def _group(self, kind: str, fields: Mapping[str, Any]) -> AttentionGroup:
        weights = fields["weights"]
        if weights.dtype.kind == "u":  # k / 255, k / 65535
            weights = weights / weights.dtype.type(~weights.dtype.type(0)).astype("float32")
        source, target, given = (self._sides[side][0] for side in ("source", "target", "given"))
        if kind == "encoder.self":
            queries = keys = source
        elif kind == "decoder.self":
            queries = keys = given or target
        else:
            queries, keys = target or source, source or target
        rows, columns = weights.shape[2:]
        return AttentionGroup(
            kind, weights, _named(queries, rows), _named(keys, columns), fields["sequences"],
            fields["q"], fields["k"], fields["v"], fields["out"], fields["mask"], fields["scale"])

    @property
    def picture(self) -> NDArray[np.uint8] | None:
        """The picture that a vision model read, as it saw it: (height, width, 3), or None. Its
        patches are the last tokens, row by row."""
        found = self._core.picture()
        return found[0] if found else None

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention that the trace has."""
        return list(self._groups)

    def __getitem__(self, kind: str) -> AttentionGroup:
        """The group of a kind: "cross", "encoder", "decoder" or "attention"."""
        group = self._groups.get(SHORT_KINDS.get(kind, kind))
        if group is None:
            raise KeyError(f"kind: found {kind!r}, expected one of {', '.join(self.kinds)}")
        return group

    def _shown(self, kind: str | None) -> AttentionGroup:
        return self[kind or next(k for k in KINDS if k in self._groups)]

    @property
    def weights(self) -> Array:
        """(L, H, T, S): of cross-attention if there is any, else of self-attention."""
        return self._shown(None).weights

    @property
    def tokens(self) -> list[str]:
        """The tokens of the text; of a translation, those of the source."""
        return self._shown(None).key_tokens

    @property
    def target_tokens(self) -> list[str]:
        """The tokens of a translation; of one text, its tokens."""
        return self._shown(None).query_tokens

    # ---- what heads do ----------------------------------------------------------------------

    def heads(self, kind: str | None = None) -> list[Head]:
        """What each head does: where its attention goes, and a name for the pattern.

        >>> import multihead as mh, numpy as np
        >>> mh.view(np.eye(6, k=-1) + np.eye(6)[:1].T @ np.eye(6)[:1]).heads()[0].pattern
        'previous token'
        """
        group = self._shown(kind)
        layers, heads, rows, columns = group.weights.shape
        square = group.kind != "cross" and rows == columns
        return [_head_patterns.describe_head(layer, head, group.weights[layer, head],
                                             group.query_tokens, group.key_tokens, square)
                for layer in range(layers) for head in range(heads)]

    def links(self, first: str, second: str) -> list[HeadLink]:
        """The heads that link two words of the text, the strongest first.

        >>> import multihead as mh, numpy as np
        >>> w = np.zeros((1, 2, 3, 3)); w[0, 0] = np.eye(3); w[0, 1] = np.eye(3)[::-1]
        >>> mh.view(w, ["the", "cat", "ran"], kind="encoder").links("the", "ran")[0]
        HeadLink(layer=0, head=1, forward=1.0, backward=1.0)
        """
        for word in (first, second):
            if not isinstance(word, str):
                raise TypeError(f"word: found {word!r}, expected a string")
        side = "source" if "encoder.self" in self._groups else "target"
        group = self["encoder" if "encoder.self" in self._groups else "decoder"]
        tokens, starts = self._sides[side]
        words = _Words(tokens, starts)
        a = words.find(first, 0)
        b = words.find(second, a[1]) if first.lower() == second.lower() and words.has(
            second, a[1]) else words.find(second, 0)
        links = [HeadLink(layer, head, _attention(w, a, b), _attention(w, b, a))
                 for layer, of_layer in enumerate(group.weights)
                 for head, w in enumerate(of_layer)]
        return sorted(links, key=lambda link: -max(link.forward, link.backward))

    # ---- showing it -------------------------------------------------------------------------

    def _options(self, kind: str | None, layer: int | None, head: int | None) -> dict[str, Any]:
        if kind is not None:
            kind = self[kind].kind
        return dict(kind=kind, layer=layer, head=head, title=self.title, model=self.model)

    def page(self, kind: str | None = None, layer: int | None = None, head: int | None = None, *,
             bits: int | None = None) -> str:
        """One self-contained HTML page with every view; it makes no network requests.

        It opens with the overview, or with a layer and head. Weights have 16 bits up to 4 million
        of them, else 8, or as many as `bits` says.

        >>> import multihead as mh, numpy as np
        >>> mh.view(np.eye(3)).page()[:15].lower()
        '<!doctype html>'
        """
        page: str = self._core.page(bits=bits, **self._options(kind, layer, head))
        return page

    def text(self, kind: str | None = None, layer: int | None = None, head: int | None = None, *,
             width: int = 80, colour: bool = False) -> str:
        """Heatmaps of a layer's heads for a terminal, by default of the last layer.

        >>> import multihead as mh, numpy as np
        >>> "cat" in mh.view(np.eye(2), ["the", "cat"]).text()
        True
        """
        text: str = self._core.text(width=width, colour=colour, **self._options(kind, layer, head))
        return text

    def svg(self, kind: str | None = None, layer: int | None = None, head: int | None = None) -> str:
        """A picture without scripts: all heads, or one of them with its tokens.

        >>> import multihead as mh, numpy as np
        >>> mh.view(np.eye(2), ["the", "cat"]).svg()[:4]
        '<svg'
        """
        group = self._shown(kind)
        layers, heads = group.weights.shape[:2]
        _check("layer", layer, layers)
        _check("head", head, heads)
        axis = "text" if group.sequences else "layer"
        weights = group.weights if layer is None else group.weights[layer:layer + 1]
        weights = (weights if head is None else weights[:, head:head + 1]).astype("float32")
        title = f"{self.title or 'Attention'}: {group.kind}"
        if weights.shape[:2] != (1, 1):
            return _picture.grid(weights, title, axis)
        if layers * heads > 1:
            title += f", {axis} {layer or 0}, head {head or 0}"
        return _picture.heatmap(weights[0, 0], group.query_tokens, group.key_tokens, title)

    def save(self, path: str | os.PathLike[str], kind: str | None = None, layer: int | None = None,
             head: int | None = None) -> None:
        """Writes the page (.html), a picture (.svg), or the trace itself (.safetensors).

        >>> import multihead as mh, numpy as np, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "page.html")
        >>> mh.view(np.eye(3)).save(path)
        >>> os.path.getsize(path) > 10000
        True
        """
        name = os.fspath(path)
        suffix = os.path.splitext(name)[1].lower()
        if suffix in (".html", ".htm"):
            self._core.write_page(name, **self._options(kind, layer, head))
        elif suffix == ".svg":
            with open(name, "w", encoding="utf-8") as file:
                file.write(self.svg(kind, layer, head))
        elif suffix == ".safetensors":
            self._core.write(name, title=self.title, model=self.model)
        else:
            raise ValueError(f"path: found {name!r}, expected .html, .svg or .safetensors")

    # ---- notebooks --------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """The page in a frame and, until its scripts run, or where they never do, a picture.

        The frame has its document in itself, so that the notebook's file is all that is needed.
        """
        import base64

        picture = base64.b64encode(self.svg().encode()).decode()
        return (f'<div><img alt="{escape(repr(self))}" style="max-width:100%" '
                f'src="data:image/svg+xml;base64,{picture}">'
                f'<iframe title="Attention" sandbox="allow-scripts allow-downloads" '
                f'style="width:100%;height:{FRAME_HEIGHT}px;border:0" '
                f"onload=\"this.previousElementSibling.style.display='none'\" "
                f'srcdoc="{escape(self.page())}"></iframe></div>')

    def _repr_svg_(self) -> str:
        return self.svg()


# ---- helpers ------------------------------------------------------------------------------------


def _named(tokens: list[str], count: int) -> list[str]:
    return tokens if len(tokens) == count else [str(i) for i in range(count)]


def _check(name: str, found: int | None, count: int) -> None:
    if found is not None and not 0 <= found < count:
        raise ValueError(f"{name}: found {found}, expected 0 to {count - 1}")


def _attention(weights: Array, a: tuple[int, int], b: tuple[int, int]) -> float:
    return float(weights[a[0]:a[1], b[0]:b[1]].sum(dtype="float64")) / (a[1] - a[0])


class _Words:
    """Words of a text by its tokens, as the command's `look --link` finds them."""

    def __init__(self, tokens: list[str], starts: Sequence[bool] | None) -> None:
        marked = any(token.startswith(MARKS) for token in tokens)
        self.tokens = [token.lstrip("".join(MARKS)).removeprefix("##") for token in tokens]
        self.starts = starts or [token.startswith(MARKS) if marked else not token.startswith("##")
                                 for token in tokens]

    def _end(self, begin: int, text: str) -> int:
        """Where the tokens from `begin` on that make up the text end; 0 if they do not."""
        at = 0
        for i in range(begin, len(self.tokens)):
            if i > begin and self.starts[i]:
                if text[at:at + 1] != " ":
                    return 0
                at += 1
            token = self.tokens[i]
            if not token or text[at:at + len(token)].lower() != token.lower():
                return 0
            at += len(token)
            if at == len(text):
                return i + 1
        return 0

    def _is_whole(self, begin: int, end: int) -> bool:
        def separate(token: str) -> bool:
            return not (token[:1].isalnum() or token[:1] >= "\x80")

        return ((begin == 0 or self.starts[begin] or separate(self.tokens[begin - 1]))
                and (end == len(self.tokens) or self.starts[end] or separate(self.tokens[end])))

    def _places(self, text: str, begin: int) -> list[tuple[int, int]]:
        ends = [(i, self._end(i, text)) for i in range(begin, len(self.tokens))]
        return [place for place in ends if place[1]]

    def has(self, text: str, begin: int) -> bool:
        return bool(self._places(text, begin))

    def find(self, text: str, begin: int) -> tuple[int, int]:
        """The first place of a word, as a whole word if there is one."""
        places = self._places(text, begin)
        if not places:
            raise ValueError(f"word: found {text!r}, expected one of the text, whose tokens are "
                             + " ".join(self.tokens[:100]))
        return next((place for place in places if self._is_whole(*place)), places[0])


# ---- arrays of one's own ------------------------------------------------------------------------


def _array(value: Any, rank: int, name: str) -> Any:
    """An array of `rank` dimensions, with ones in front, of a dtype that a trace may have."""
    import numpy as np

    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "shape"):  # of layers
        parts = [_array(part, rank, name) for part in value]
        if any(len(part) != 1 for part in parts):
            raise ValueError(f"{name}: found a list of batches, expected layers of one sequence")
        return np.concatenate(parts)
    if hasattr(value, "detach"):  # PyTorch's
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    found = np.asarray(value)
    if found.ndim > rank or found.ndim < rank - 2:
        raise ValueError(f"{name}: found {found.ndim} dimensions, expected {rank - 2} to {rank}")
    if found.dtype not in (np.float32, np.float64, np.float16):
        found = found.astype(np.float32)
    return found.reshape((1,) * (rank - found.ndim) + found.shape)


def _file_of(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> bytes:
    """A trace file in memory (docs/reference/trace-format.md)."""
    import numpy as np

    names = {"float32": "F32", "float64": "F64", "float16": "F16", "uint8": "U8"}
    header: dict[str, Any] = {"__metadata__": {"trace": "1", **metadata}}
    data = [(name, np.ascontiguousarray(array)) for name, array in tensors.items()]
    at = 0
    for name, array in sorted(data, key=lambda item: -item[1].itemsize):
        header[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    bodies = (array.tobytes() for _, array in sorted(data, key=lambda item: -item[1].itemsize))
    return struct.pack("<Q", len(text)) + text + b"".join(bodies)


def view(
    weights: Any,
    tokens: Iterable[str] | None = None,
    *,
    keys: Iterable[str] | None = None,
    kind: str = "attention",
    title: str | None = None,
    model: str | None = None,
    batch: bool = False,
    q: Any = None,
    k: Any = None,
    v: Any = None,
    out: Any = None,
    mask: Any = None,
    scale: float | None = None,
) -> Trace:
    """A trace of weights of one's own, from NumPy or PyTorch, to look at and to save.

    weights: (T, S), (H, T, S) or (L, H, T, S), or a list of one array for each layer, such as the
    attentions of transformers' models. With `batch`, L counts the sequences of a batch.
    tokens: those of the queries, and of the keys unless `keys` names them.
    kind: "attention", "encoder", "decoder" or "cross". q, k, v, out and mask show the steps.

    >>> import multihead as mh, numpy as np
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 2, 4, 8)).astype(np.float32)
    >>> out, weights = mh.attention(q, k, v, weights=True)
    >>> mh.view(weights, "the cat sat down".split(), title="my heads", q=q, k=k, v=v)
    Trace('my heads': attention (1, 2, 4, 4))
    """
    kind = SHORT_KINDS.get(kind, kind)
    if kind not in KINDS:
        raise ValueError(f"kind: found {kind!r}, expected attention, encoder, decoder or cross")
    tensors = {kind: _array(weights, 4, "weights")}
    for name, value, rank in (("q", q, 4), ("k", k, 4), ("v", v, 4), ("out", out, 3)):
        if value is not None:
            tensors[f"{kind}.{name}"] = _array(value, rank, name)
    if mask is not None:
        tensors[f"{kind}.mask"] = _array(mask, 2, "mask").astype(bool).astype("uint8")
    if scale is not None:
        tensors[f"{kind}.scale"] = _array([scale], 1, "scale")
    metadata = {"title": title, "model": model,
                f"{kind}.axes": "batch,heads" if batch else None}
    own, other = "target", "source"
    if kind == "encoder.self":
        own, other = other, own
    if tokens is not None:
        metadata[f"{own}.tokens"] = json.dumps([str(t) for t in tokens])
    if keys is not None:
        metadata[f"{other}.tokens"] = json.dumps([str(t) for t in keys])
    given = {name: value for name, value in metadata.items() if value is not None}
    return Trace(_multihead.parse_trace(_file_of(tensors, given)))
