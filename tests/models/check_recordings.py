# SPDX-License-Identifier: MIT
"""Compares transcripts by Whisper tiny.en with those of OpenAI's package, which are stored.

    check_recordings.py MULTIHEAD MODEL GOLDEN

GOLDEN, tests/goldens/recordings.json, is written by tests/peers/check_speech.py --golden: of each recording its
SHA-256, the greedy tokens, and words with their times. The recordings are made here (speech_recordings.py); those of espeak-ng
are left out by name where it is not, or where its version speaks in another way.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import speech_recordings

WORD_TIME = 0.1  # seconds


def fail(message):
    raise SystemExit(f"check_recordings: {message}")


def compare(name, found, expected):
    """The largest difference of a word's times."""
    tokens = [t for s in found["segments"] for t in s["tokens"]]
    words = [w for s in found["segments"] for w in s["words"]]
    if tokens != expected["tokens"]:
        fail(f"{name}: found tokens {tokens}, expected {expected['tokens']}")
    if [w["word"] for w in words] != [w[0] for w in expected["words"]]:
        fail(f"{name}: found words {words}, expected {expected['words']}")
    worst = max((max(abs(w["start"] - e[1]), abs(w["end"] - e[2])) for w, e in zip(words, expected["words"])), default=0)
    if worst > WORD_TIME:
        fail(f"{name}: times of words differ by {worst:.2f} s")
    return worst


def main():
    multihead, model, golden = sys.argv[1:]
    goldens = json.loads(pathlib.Path(golden).read_text())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        made = speech_recordings.make(pathlib.Path(model) / "beckett.wav", folder) + speech_recordings.speak(folder)
        names = [n for n in goldens if n in made
                 and hashlib.sha256((folder / f"{n}.wav").read_bytes()).hexdigest() == goldens[n]["sha256"]]
        if left := [n for n in goldens if n not in names]:
            print(f"check_recordings: skipped, as espeak-ng is not here or another one: {', '.join(left)}", file=sys.stderr)
        lines = subprocess.run(
            [multihead, "transcribe", "-q", "-m", model, "--json", "--word-times", "--no-fallback",
             *(folder / f"{n}.wav" for n in names)], check=True, capture_output=True, text=True).stdout.splitlines()
    worst = max(compare(n, json.loads(line), goldens[n]) for n, line in zip(names, lines, strict=True))
    print(f"{len(names)} recordings: the tokens of openai-whisper, times of words within {worst:.2f} s")


if __name__ == "__main__":
    main()
