# SPDX-License-Identifier: MIT
"""Makes recordings for comparisons of speech recognition, with nothing but Python and espeak-ng.

    speech_recordings.py BECKETT.wav DIR

From a recording of ten seconds (16 kHz, 16 bits, mono): itself at another rate, in stereo, louder, with noise, nine
times in a row with pauses, and half of it; and silence and noise without speech. The same files on every machine.
Besides, where espeak-ng is, speech of its voices, the same by the same version of it.
"""
import array
import pathlib
import random
import shutil
import subprocess
import sys
import wave

STORY = [
    "Early in the morning the fishing boats left the harbour, and the gulls followed them out to sea.",
    "My grandmother kept a small garden behind the house, where she grew beans, carrots and sunflowers.",
    "The train to London was twenty minutes late, so we drank a cup of coffee at the station.",
    "Nobody knows exactly how old the bridge is, but the first drawing of it was made in seventeen eighty four.",
    "If you turn left after the church, you will see a red door with a brass handle.",
    "She wrote the letter three times before she was happy with it, and then she forgot to post it.",
    "In winter the lake freezes, and children skate across it to school.",
    "He opened the box very slowly. Inside there was nothing but an old photograph and a key.",
    "The weather forecast promised sunshine, yet by noon it was raining heavily.",
    "Please remember to lock the back door when you leave the building tonight.",
]
# name: espeak-ng's voice, words per minute, sentences of STORY; rate and channels that check_speech.py gives the file
SPOKEN = {
    "voice": ("en-us", 160, STORY[:2], 22050, 1),
    "slowly": ("en-gb", 110, STORY[2:4], 22050, 1),
    "fast": ("en-us", 230, STORY[4:8], 22050, 1),
    "woman": ("en-us+f3", 150, STORY[6:8], 22050, 1),
    "scottish": ("en-gb-scotland", 150, STORY[1:3], 22050, 1),
    "telephone": ("en-us", 150, STORY[8:], 8000, 1),
    "studio": ("en-us", 150, STORY[3:5], 48000, 2),
    "disc": ("en-gb", 170, STORY[5:7], 44100, 2),
    "odd": ("en-us", 170, STORY[7:9], 11025, 1),
    "story": ("en-us", 140, STORY + STORY[:4], 16000, 1),
}
# Whose results tests/goldens/recordings.json has; those of espeak-ng are as it writes them.
SHORT = ("half", "8khz", "quick", "noisy", "silence", "voice", "slowly", "fast", "woman", "scottish")


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


def speak(folder):
    """Recordings by espeak-ng, at its own rate of 22,050 Hz; their names, none without it."""
    if not shutil.which("espeak-ng"):
        return []
    for name, (voice, speed, sentences, _, _) in SPOKEN.items():
        path = pathlib.Path(folder) / f"{name}.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-w", path, " ".join(sentences)], check=True)
    return list(SPOKEN)


if __name__ == "__main__":
    print(*make(sys.argv[1], sys.argv[2]), *speak(sys.argv[2]))
