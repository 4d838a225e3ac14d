# SPDX-License-Identifier: MIT
"""whisper.cpp, a peer of bench/compare_speech.py, with the weights of OpenAI's file.

A ggml file is sizes, mel filters, the vocabulary, and tensors under OpenAI's names. Its matrices are
f16: whisper.cpp stops in its convolutions if they are f32.
"""

import base64
import importlib.metadata
import struct

import _pywhispercpp
import numpy as np
from pywhispercpp.model import Model

NAME = "whisper.cpp f16"
MAGIC, F16 = 0x67676D6C, 1
SIZES = ("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer", "n_text_ctx",
         "n_text_state", "n_text_head", "n_text_layer", "n_mels")
BINS = 201


def mel_filters(count):
    """(count, BINS): triangles that are evenly spaced in mel."""
    mels = np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), count + 2)
    hertz = np.where(mels < 15, mels * 200 / 3, 1000 * 6.4 ** ((mels - 15) / 27))
    low, middle, high = hertz[:-2, None], hertz[1:-1, None], hertz[2:, None]
    bins = np.arange(BINS) * 40.0
    rise, fall = (bins - low) / (middle - low), (high - bins) / (high - middle)
    return (np.maximum(0, np.minimum(rise, fall)) * 2 / (high - low)).astype(np.float32)


def write_tensor(file, name, values):
    """Of an array of f32."""
    if name.endswith(("conv1.bias", "conv2.bias")):
        values = values[:, None]
    half = values.ndim > 1 and not name.endswith(("bias", "positional_embedding"))
    values = np.ascontiguousarray(values, np.float16 if half else np.float32)
    file.write(struct.pack("3i", values.ndim, len(name), half))
    file.write(struct.pack(f"{values.ndim}i", *values.shape[::-1]) + name.encode())
    file.write(values.tobytes())


def write(sizes, tensors, ranks, path):
    """A file of a model's sizes and tensors, {OpenAI's name: tensor}, and the lines of `ranks`."""
    words = [base64.b64decode(line.split()[0]) for line in ranks.read_bytes().splitlines()]
    filters = mel_filters(sizes["n_mels"])
    with path.open("wb") as file:
        file.write(struct.pack("12i", MAGIC, *(sizes[name] for name in SIZES), F16))
        file.write(struct.pack("2i", *filters.shape) + filters.tobytes())
        file.write(struct.pack("i", len(words)))
        for word in words:
            file.write(struct.pack("i", len(word)) + word)
        for name, tensor in tensors.items():
            write_tensor(file, name, tensor.float().numpy())
    return path


def make_call(path, samples, threads):
    """A call that gives the ids of the text: English, greedy, no fallback, no timestamps."""
    model = Model(str(path), n_threads=threads, redirect_whispercpp_logs_to=None,
                  print_progress=False, print_realtime=False, language="en", no_context=True,
                  no_timestamps=True, single_segment=True, temperature_inc=0.0)
    get, count = _pywhispercpp.whisper_full_get_token_id, _pywhispercpp.whisper_full_n_tokens

    def run():
        segments = model.transcribe(samples)
        context = model._ctx  # the wrapper has texts, not ids
        return [get(context, s, t) for s in range(len(segments)) for t in range(count(context, s))]
    return run


def version():
    """Of the package, which contains whisper.cpp."""
    return importlib.metadata.version("pywhispercpp")
