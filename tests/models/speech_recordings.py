# SPDX-License-Identifier: MIT
"""Makes recordings for comparisons of speech recognition, with nothing but Python.

    speech_recordings.py BECKETT.wav DIR

From a recording of ten seconds (16 kHz, 16 bits, mono): itself at another rate, in stereo, louder, with noise, nine
times in a row with pauses, and half of it; and silence and noise without speech. The same files on every machine.
"""
import array
import pathlib
import random
import sys
import wave


def read(path):
    with wave.open(str(path)) as file:
        return array.array("h", file.readframes(file.getnframes()))


def write(path, samples, rate=16000, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(array.array("h", [max(-32768, min(32767, int(s))) for s in samples]).tobytes())


def noise(count, amplitude, seed=1):
    generator = random.Random(seed)
    return [generator.uniform(-amplitude, amplitude) for _ in range(count)]


def make(source, folder):
    """The names, in order."""
    speech = list(read(source))
    pause = [0] * 8000
    sounds = {
        "half": (speech[:80000], 16000, 1),
        "8khz": ([(a + b) / 2 for a, b in zip(speech[::2], speech[1::2])], 8000, 1),
        "stereo": ([s for x in speech for s in (x, x * 0.5)], 16000, 2),
        "quick": (speech, 18000, 1),
        "slow": (speech, 13000, 1),
        "loud": ([3 * s for s in speech], 16000, 1),
        "noisy": ([s + n for s, n in zip(speech, noise(len(speech), 600))], 16000, 1),
        "long": ((speech + pause) * 9, 16000, 1),
        "silence": ([0] * 16000 * 8, 16000, 1),
        "noise": (noise(16000 * 8, 3000), 16000, 1),
    }
    for name, (samples, rate, channels) in sounds.items():
        write(pathlib.Path(folder) / f"{name}.wav", samples, rate, channels)
    return list(sounds)


if __name__ == "__main__":
    print(*make(sys.argv[1], sys.argv[2]))
