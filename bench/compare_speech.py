# SPDX-License-Identifier: MIT
"""Measures transcription by Whisper: multihead, faster-whisper, f32 and int8, and whisper.cpp, f16.

From samples to text, greedy, without fallback and timestamps: tiny.en on a recording of ten seconds,
and on the same three times in one window of 30 seconds; and the base size with random weights, whose
text is as long as it may be, on the ten seconds. Spectrograms are part of the time, loading is not.
Before a case is timed, texts are compared token by token. Then contenders take turns, and the best
turn of each counts. Rates are seconds of sound per second.
"""

import argparse
import os
import shutil
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np

import compare_rates
import multihead_ctypes as mh
import speech_peers
import whisper_cpp_peer
from compare_rates import OURS
from compare_run import cpu_model, positive_numbers, say
from compare_timing import FULL, QUICK, interleave, time_calls
from multihead_model_ctypes import Model

ROOT = Path(__file__).resolve().parent.parent
UNIT = "seconds of sound"
INT8, CPP = "faster-whisper int8", whisper_cpp_peer.NAME
RATE = 16000
CASES = {"tiny.en, 10 s": ("tiny.en", 1), "tiny.en, 30 s": ("tiny.en", 3),
         "base, 10 s": ("base", 1)}  # the model, how often the recording is repeated
TEXT_END = 50256                # ids of text are below


def read_wav(path):
    """Samples of 16 bits and 16 kHz."""
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 2, 1):
            raise SystemExit(f"compare: {path}: expected 16 bits, {RATE} Hz, one channel")
        data = file.readframes(file.getnframes())
    return np.frombuffer(data, np.int16).astype(np.float32) / 32768


def measure(library, quick, models, samples, case, threads):
    """A row: milliseconds, ratios and differing tokens of a case."""
    folder, converted, ggml = models[CASES[case][0]]
    samples = np.tile(samples, CASES[case][1])
    with library.context(threads) as context:
        calls = {(OURS, None): Model(context, folder).transcriber(samples, RATE)}
        calls.update({(name, None): speech_peers.make_call(converted, name, samples, threads)
                      for name in speech_peers.COMPUTE})
        if ggml:
            calls[CPP, None] = whisper_cpp_peer.make_call(ggml, samples, threads)
        texts = {key: [t for t in run() if t < TEXT_END] for key, run in calls.items()}
        first = {key: time_calls(run) for key, run in calls.items()}
        best = interleave(calls, first, QUICK if quick else FULL)
    ours = texts[OURS, None]
    errors = {key: sum(a != b for a, b in zip(text, ours)) + abs(len(text) - len(ours))
              for key, text in texts.items()}
    return compare_rates.make_row("speech", case, len(samples) / RATE, threads, best, errors, 0,
                                  [INT8, CPP])


def prepare(arguments, folder):
    """Of each model the directory for us, the one for faster-whisper, and whisper.cpp's file or
    None: from random weights it writes another number of tokens."""
    weights = arguments.model / "tiny.en.pt"
    ours = folder / "ours"
    ours.mkdir()
    (ours / weights.name).symlink_to(weights.resolve())
    shutil.copy(arguments.ranks, ours)
    (folder / "base").mkdir()
    return {"tiny.en": (ours, speech_peers.convert(weights, arguments.ranks, folder),
                        speech_peers.convert_for_cpp(weights, arguments.ranks, folder / "ggml.bin")),
            "base": (folder / "base" / "hf",
                     speech_peers.convert(None, arguments.ranks, folder / "base"), None)}


def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-speech", description=__doc__.split("\n", 1)[0])
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="DIR",
                        help="with tiny.en.pt and beckett.wav; `make compare-speech` downloads it")
    parser.add_argument("--ranks", type=Path, metavar="FILE",
                        default=Path(os.environ.get("MH_TEST_DATA", ".")) / "whisper/gpt2.tiktoken",
                        help="the vocabulary, of the package openai-whisper (default: "
                        "$MH_TEST_DATA/whisper/gpt2.tiktoken)")
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where libmultihead-model.so is, and where compare-speech.json, .svg "
                        "and .md go (default: build)")
    arguments = parser.parse_args()
    if not (arguments.build / "libmultihead-model.so").exists():
        parser.error(f"{arguments.build}/libmultihead-model.so does not exist: run `make`")
    if not arguments.ranks.exists():
        parser.error(f"{arguments.ranks} does not exist; expected gpt2.tiktoken of openai-whisper")
    return arguments


def main():
    """Returns 1 if faster-whisper's f32 text is not ours."""
    arguments = parse_arguments()
    library = mh.Library(str((arguments.build / "libmultihead-model.so").resolve()))
    samples = read_wav(arguments.model / "beckett.wav")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        models = prepare(arguments, Path(name))
        for threads in arguments.threads:
            for case in CASES:
                say(f"{case}, {threads} threads")
                rows.append(measure(library, arguments.quick, models, samples, case, threads))
                compare_rates.print_row(rows[-1], UNIT)
    named = ", ".join(f"{n} {v}" for n, v in speech_peers.versions().items())
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs ({library.cpu_features}); multihead "
             f"{library.version}, {named}; Whisper, from samples.")
    return compare_rates.finish("compare-speech", rows, UNIT, about, arguments.build)


if __name__ == "__main__":
    sys.exit(main())
