#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes sounds/*: 0.25 s of two tones in stereo, in the formats that libmultihead-media decodes.

usage: make_sounds.py      (needs soundfile 0.13.1 from PyPI)

The mean of both channels is 0.25 sin(2 pi 440 t) + 0.125 sin(2 pi 700 t), which tests/audio/test_audio_media.c computes,
too.
"""
import pathlib

import numpy as np
import soundfile

RATE, COUNT = 16000, 4000
FORMATS = {"tones.flac": ("FLAC", "PCM_16"), "tones.ogg": ("OGG", "VORBIS"), "tones.opus": ("OGG", "OPUS"),
           "tones.mp3": ("MP3", "MPEG_LAYER_III"), "adpcm.wav": ("WAV", "MS_ADPCM"),
           "alaw.wav": ("WAV", "ALAW")}


def main():
    there = pathlib.Path(__file__).parent / "sounds"
    t = np.arange(COUNT) / RATE
    stereo = np.stack([0.5 * np.sin(2 * np.pi * 440 * t), 0.25 * np.sin(2 * np.pi * 700 * t)], axis=1)
    for name, (form, subtype) in FORMATS.items():
        soundfile.write(there / name, stereo, RATE, format=form, subtype=subtype)


if __name__ == "__main__":
    main()
