# SPDX-License-Identifier: MIT
"""Attention as a static picture: SVG without scripts, for where the page cannot run.

Each head is one small PNG inside of the SVG, so that the size grows with the weights and not with
the number of rectangles.
"""
from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

# The page's colours (web/support.js), light: lightness is monotonic.
ANCHORS = ((255, 255, 255), (226, 240, 217), (160, 210, 190), (84, 164, 176), (38, 110, 158),
           (27, 66, 124), (14, 26, 66))
MOST_PIXELS = 96  # of a side of a small head
INK, MUTED, LINE = "#1d2230", "#5d6474", "#e2dfd7"


def _palette() -> bytes:
    colours = bytearray()
    for i in range(256):
        place = i / 255 * (len(ANCHORS) - 1)
        below = min(int(place), len(ANCHORS) - 2)
        part = place - below
        colours += bytes(round(a * (1 - part) + b * part)
                         for a, b in zip(ANCHORS[below], ANCHORS[below + 1]))
    return bytes(colours)


def _png(levels: NDArray[np.uint8]) -> bytes:
    """An image of palette indices (rows, columns)."""
    rows, columns = levels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))

    lines = b"".join(b"\0" + row.tobytes() for row in levels)  # filter 0 before each row
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0))
            + chunk(b"PLTE", _palette()) + chunk(b"IDAT", zlib.compress(lines, 9))
            + chunk(b"IEND", b""))


def _levels(weights: Matrix) -> NDArray[np.uint8]:
    """Shades by the square root of the weight relative to the largest, as in a terminal."""
    import numpy as np

    most = float(weights.max(initial=0.0))
    scaled = np.sqrt(np.clip(weights, 0, None) / most) if most > 0 else np.zeros_like(weights)
    return np.rint(255 * scaled).astype(np.uint8)


def _shrink(weights: Matrix, most: int) -> Matrix:
    """The largest weight of each block, so that a thin diagonal stays visible."""
    import numpy as np

    for axis in (0, 1):
        starts = np.unique(np.linspace(0, weights.shape[axis], most, endpoint=False).astype(int))
        if weights.shape[axis] > most:
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def _image(weights: Matrix, x: float, y: float, width: float, height: float) -> str:
    data = base64.b64encode(_png(_levels(weights))).decode()
    return (f'<image x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{data}"/>'
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="none" '
            f'stroke="{LINE}"/>')


def _document(width: float, height: float, title: str, parts: list[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="11" '
            f'fill="{INK}"><title>{escape(title)}</title>'
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
            f'<text x="8" y="18" font-size="13">{escape(title)}</text>' + "".join(parts) + "</svg>\n")


def grid(weights: NDArray[np.float32], title: str, axis: str) -> str:
    """All heads (L, H, T, S): a row for each layer, a column for each head."""
    layers, heads, queries, keys = weights.shape
    width = max(24.0, min(96.0, 900 / heads))
    height = max(12.0, min(2 * width, width * queries / keys))
    left, top, gap = 64.0, 44.0, 4.0
    parts = [f'<text x="{left + h * (width + gap) + width / 2:g}" y="{top - 6:g}" fill="{MUTED}" '
             f'text-anchor="middle">{h}</text>' for h in range(heads)]
    for layer in range(layers):
        y = top + layer * (height + gap)
        parts.append(f'<text x="{left - 8:g}" y="{y + height / 2 + 4:g}" fill="{MUTED}" '
                     f'text-anchor="end">{axis} {layer}</text>')
        parts += [_image(_shrink(weights[layer, h], MOST_PIXELS), left + h * (width + gap), y,
                         width, height) for h in range(heads)]
    return _document(left + heads * (width + gap) + 4, top + layers * (height + gap) + 4, title, parts)


def heatmap(weights: Matrix, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """One head (T, S): a row for each query, a column for each key, with their tokens."""
    queries, keys = weights.shape
    cell = max(4.0, min(22.0, 700 / max(queries, keys)))
    label = 8 + 6.5 * min(24, max((len(t) for t in [*rows, *columns]), default=0))
    left, top = label, 28 + label
    parts = [_image(weights, left, top, cell * keys, cell * queries)]
    step = 1 if cell >= 11 else max(1, int(11 / cell + 1))  # labels that would overlap are left out
    for i in range(0, queries, step):
        parts.append(f'<text x="{left - 5:g}" y="{top + (i + 0.5) * cell + 4:g}" '
                     f'text-anchor="end">{escape(rows[i][:24])}</text>')
    for j in range(0, keys, step):
        x = left + (j + 0.5) * cell + 4
        parts.append(f'<text x="{x:g}" y="{top - 5:g}" transform="rotate(-90 {x:g} {top - 5:g})">'
                     f'{escape(columns[j][:24])}</text>')
    return _document(max(left + cell * keys + 8, 12 + 7 * len(title)), top + cell * queries + 8, title,
                     parts)
