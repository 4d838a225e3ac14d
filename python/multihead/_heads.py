# SPDX-License-Identifier: MIT
"""Heads that are switched off, as users name them and as the library takes them; figures of heads."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KINDS = {"encoder": 0, "enc": 0, "decoder": 1, "dec": 1, "cross": 2}


def heads_off(heads: Any, info: Mapping[str, Any]) -> bytes | None:
    """Bytes of 0 and 1 for all heads of a model; None if all are on.

    `heads` are (layer, head) or a layer for all of its heads; of an encoder-decoder
    (kind, layer, head) or (kind, layer). Or all of them as an array of bools, (attentions, H):
    layers of the encoder, of the decoder, and of cross-attention.
    """
    if heads is None:
        return None
    layers, decoder, count = info["layers"], info["decoder_layers"], info["heads"]
    total = layers + 2 * decoder
    if hasattr(heads, "shape"):
        if tuple(heads.shape) != (total, count):
            raise ValueError(
                f"disabled_heads: found {tuple(heads.shape)}, expected {(total, count)}")
        return bytes(bool(off) for row in heads for off in row)
    off = bytearray(total * count)
    first, sizes = (0, layers, layers + decoder), (layers, decoder, decoder)
    for name in heads if isinstance(heads, Iterable) else [heads]:
        kind, layer, head = _read(name, bool(decoder))
        if not (0 <= layer < sizes[kind] and (head is None or 0 <= head < count)):
            raise ValueError(f"disabled_heads: found {name!r}, but the model has {sizes[kind]} "
                             f"layers of {count} heads there, from 0")
        row = (first[kind] + layer) * count
        for h in range(count) if head is None else [head]:
            off[row + h] = 1
    return bytes(off)


def _read(name: Any, has_kinds: bool) -> tuple[int, int, int | None]:
    """The kind, the layer and the head, None for all."""
    parts = list(name) if isinstance(name, (tuple, list)) else [name]
    kind = KINDS.get(str(parts.pop(0)), -1) if has_kinds else 0
    whole = all(isinstance(part, int) and not isinstance(part, bool) for part in parts)
    if kind < 0 or not 1 <= len(parts) <= 2 or not whole:
        expected = "(kind, layer, head), kind encoder, decoder or cross" if has_kinds else (
            "(layer, head), or a layer")
        raise ValueError(f"disabled_heads: found {name!r}, expected {expected}")
    return kind, parts[0], parts[1] if len(parts) == 2 else None


def group_figures(layers: int, heads: int, names: list[str],
                  patterns: Mapping[str, tuple[list[float], float, int]], entropy: list[float],
                  distance: list[float], uniform_distance: float) -> dict[str, Any]:
    """The figures of a group of heads by name, in arrays (layers, heads)."""
    import numpy as np

    def table(values: list[float]) -> Any:
        return np.array(values).reshape(layers, heads)

    return {
        "names": [names[i:i + heads] for i in range(0, layers * heads, heads)],
        "weights": {name: table(weights) for name, (weights, _, _) in patterns.items()},
        "uniform": {name: uniform for name, (_, uniform, _) in patterns.items()},
        "queries": {name: queries for name, (_, _, queries) in patterns.items()},
        "entropy": table(entropy),
        "distance": table(distance),
        "uniform_distance": uniform_distance,
    }
