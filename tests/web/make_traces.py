#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the traces that the page is tested and designed with (docs/reference/trace-format.md).

usage: make_traces.py FOLDER

    sentence.safetensors  a sentence and its translation, 3 layers x 4 heads, q, k, v and out
    base.safetensors      12 layers x 12 heads, 128 tokens: the size of a usual encoder
    long.npy              one head of 2,048 x 2,048
    picture.safetensors   a picture of 5 x 7 patches, 3 layers x 4 heads
    sound.safetensors     a transcript over 40 moments of sound and silence, 2 layers x 3 heads
    hostile.safetensors   tokens that would like to be markup or to steer a terminal

Nothing here is learnt: scores are made up so that heads have recognisable patterns, and softmax
makes weights of them. The file is written with struct and json alone, as another program would.
"""
import json
import pathlib
import struct
import sys

import numpy as np

DTYPES = {"float32": "F32", "float16": "F16", "bool": "BOOL", "uint8": "U8"}


def write_safetensors(path, tensors, metadata):
    header, offset, blobs = {"__metadata__": metadata}, 0, []
    for name, array in sorted(tensors.items(), key=lambda item: -item[1].itemsize):
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def softmax(scores):
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def pattern(rng, which, rows, cols):
    """Scores of one head that looks somewhere."""
    i = np.arange(rows)[:, None] * ((cols - 1) / max(rows - 1, 1) if rows != cols else 1)
    j = np.arange(cols)[None, :]
    noise = rng.normal(0, 0.7, (rows, cols))
    return noise + {
        "previous": -4.0 * np.abs(j - i + 1), "next": -4.0 * np.abs(j - i - 1),
        "itself": -5.0 * np.abs(j - i), "local": -0.35 * (j - i) ** 2,
        "first": 5.0 * (j == 0), "end": 5.0 * (j == cols - 1), "broad": 0.0 * (i + j),
        "far": 0.06 * np.abs(j - i), "sharp": 2.5 * rng.normal(0, 1, (rows, cols)),
    }[which]


PATTERNS = ["previous", "next", "itself", "local", "first", "end", "broad", "far", "sharp"]


def group(rng, tensors, name, layers, heads, rows, cols, width, align=None):
    """Weights, q, k, v and out of one kind; scores become q and k by a singular value split."""
    shape = (layers, heads, rows, cols)
    mask = np.tril(np.ones((rows, cols), bool)) if name == "decoder.self" else np.ones((rows, cols), bool)
    q = np.zeros((layers, heads, rows, width))
    k = np.zeros((layers, heads, cols, width))
    for l in range(layers):
        for h in range(heads):
            which = PATTERNS[(l * heads + h) % len(PATTERNS)]
            scores = pattern(rng, which, rows, cols) if align is None or h % 2 else \
                6.0 * align + rng.normal(0, 0.5, (rows, cols))
            u, s, v = np.linalg.svd(scores)
            n = min(width, len(s))
            q[l, h, :, :n] = u[:, :n] * np.sqrt(s[:n])
            k[l, h, :, :n] = v[:n].T * np.sqrt(s[:n]) * np.sqrt(width)
    q, k = q.astype(np.float32), k.astype(np.float32)
    v = rng.normal(0, 1, (layers, heads, cols, width)).astype(np.float32)
    scores = np.einsum("lhte,lhse->lhts", q, k, dtype=np.float64) / np.sqrt(width)
    weights = softmax(np.where(mask, scores, -np.inf))
    outputs = np.einsum("lhts,lhse->lhte", weights, v)
    joined = outputs.transpose(0, 2, 1, 3).reshape(layers, rows, heads * width)
    w = rng.normal(0, 1 / np.sqrt(heads * width), (heads * width, heads * width))
    assert weights.shape == shape
    tensors.update({name: weights.astype(np.float32), name + ".q": q, name + ".k": k, name + ".v": v,
                    name + ".out": (joined @ w).astype(np.float32)})
    if name == "decoder.self":
        tensors[name + ".mask"] = mask


def sentence(folder):
    rng = np.random.default_rng(1)
    source = "▁Le ▁petit ▁chat ▁dor mait ▁sur ▁le ▁vieux ▁tap is ▁. </s>".split()
    target = "<s> ▁The ▁little ▁cat ▁was ▁sleep ing ▁on ▁the ▁old ▁carpet ▁.".split()
    links = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (4, 4), (5, 3), (6, 4), (7, 5), (8, 6), (9, 7),
             (10, 8), (10, 9), (11, 10)]
    align = np.zeros((len(target), len(source)))
    for i, j in links:
        align[i, j] = 1
    tensors = {"cross.scale": np.array(0.25, np.float32)}
    group(rng, tensors, "encoder.self", 3, 4, len(source), len(source), 16)
    group(rng, tensors, "decoder.self", 3, 4, len(target), len(target), 16)
    group(rng, tensors, "cross", 3, 4, len(target), len(source), 16, align)
    write_safetensors(folder / "sentence.safetensors", tensors, {
        "trace": "1", "title": "Le petit chat dormait sur le vieux tapis.", "model": "made up, 3 layers, 4 heads",
        "source.tokens": json.dumps(source), "target.tokens": json.dumps(target)})


def base(folder):
    rng = np.random.default_rng(2)
    words = "the of and to in a is that for it as was with be by on not he his but at are this have " \
            "from or had an they which one you were her all she there would their we him been has when".split()
    tokens = ["[CLS]"] + [words[i] for i in rng.integers(0, len(words), 126)] + ["[SEP]"]
    weights = np.zeros((12, 12, 128, 128), np.float32)
    for l in range(12):
        for h in range(12):
            weights[l, h] = softmax(pattern(rng, PATTERNS[rng.integers(0, len(PATTERNS))], 128, 128))
    write_safetensors(folder / "base.safetensors", {"encoder.self": weights}, {
        "title": "12 layers, 12 heads, 128 tokens", "source.tokens": json.dumps(tokens)})
    np.save(folder / "base.npy", weights)


def long(folder):
    rng = np.random.default_rng(3)
    np.save(folder / "long.npy", softmax(pattern(rng, "local", 2048, 2048) +
                                         6 * (rng.random((2048, 2048)) < 0.001))[None].astype(np.float16))


def hostile(folder):
    tokens = ["</script><script>window.hurt=1</script>", "<img src=x onerror=window.hurt=1>", "<!--",
              "\u202eevil", "\x1b[31mred", "\"quoted\" & 'more'", "漢字", "👩‍🚀", "", " ", "\n", "a" * 300]
    rng = np.random.default_rng(4)
    weights = softmax(rng.normal(0, 2, (2, 2, len(tokens), len(tokens)))).astype(np.float16)
    write_safetensors(folder / "hostile.safetensors", {"attention": weights}, {
        "title": tokens[0], "model": tokens[1], "target.tokens": json.dumps(tokens)})


def picture(folder):
    rng = np.random.default_rng(5)
    rows, columns, patch = 5, 7, 8
    y, x = np.mgrid[:rows * patch, :columns * patch]
    sun = np.hypot(y - 12, x - 38) < 7
    pixels = np.where(sun[..., None], (255, 210, 60), np.where((y > 26 + 4 * np.sin(x / 6))[..., None],
                                                               (60, 120, 50), (90, 150, 220))).astype(np.uint8)
    count = rows * columns + 1
    weights = softmax(rng.normal(0, 1.5, (3, 4, count, count))).astype(np.float32)
    tokens = ["[CLS]"] + [f"{i // columns},{i % columns}" for i in range(rows * columns)]
    write_safetensors(folder / "picture.safetensors", {"encoder.self": weights, "picture": pixels}, {
        "title": "A field", "source.tokens": json.dumps(tokens), "picture.patches": f"{rows},{columns}"})


def sound(folder):
    rng = np.random.default_rng(6)
    said = "Ever tried , ever failed . No matter .".split() + ["<|endoftext|>"]
    moments = [f"{i * 0.08:.2f}s" for i in range(40)] + ["silence"]
    rows, columns = len(said), len(moments)
    spoken = 4 * np.arange(rows)[:, None] + 2
    column = np.arange(columns)[None, :]
    kinds = [-1.0 * (column - spoken) ** 2, 6.0 * (column == columns - 1) + 0.0 * spoken, np.zeros((rows, columns))]
    weights = softmax(np.array([kinds, kinds]) + rng.normal(0, 0.1, (2, 3, rows, columns))).astype(np.float32)
    write_safetensors(folder / "sound.safetensors", {"cross": weights}, {
        "title": "Ever tried, ever failed. No matter.", "source.tokens": json.dumps(moments),
        "target.tokens": json.dumps(said)})


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (sentence, base, long, picture, sound, hostile):
        make(folder)


main()
