#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many pictures of an idx file `multihead classify` recognises.

usage: picture_accuracy.py BUILD MODEL IMAGES LABELS [LEAST]

IMAGES and LABELS are idx files, plain or gzip; a label's number is its place in the model's config.json. Prints the
accuracy of every label and of all; fails if that of all is below LEAST, in per cent.
"""
import gzip
import json
import pathlib
import struct
import subprocess
import sys
import tempfile


def read_idx(path):
    """The sizes and the bytes of an idx file."""
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    rank = data[3]
    return struct.unpack(f">{rank}I", data[4:4 + 4 * rank]), data[4 + 4 * rank:]


def classify(build, model, folder, count, height, width, pixels):
    """The likeliest label of every picture."""
    head = b"P5 %d %d 255\n" % (width, height)
    names = []
    for i in range(count):
        names.append(f"{folder}/{i}.pgm")
        pathlib.Path(names[-1]).write_bytes(head + pixels[i * height * width:(i + 1) * height * width])
    done = subprocess.run([f"{build}/multihead", "classify", "-q", "-m", model, "--top", "1", "--json"],
                          input="\n".join(names) + "\n", capture_output=True, text=True, check=True)
    return [json.loads(line)["labels"][0] for line in done.stdout.splitlines()]


def main():
    build, model, images, labels = sys.argv[1:5]
    least = float(sys.argv[5]) if len(sys.argv) > 5 else 0
    (count, height, width), pixels = read_idx(images)
    _, answers = read_idx(labels)
    names = json.loads(pathlib.Path(model, "config.json").read_text(encoding="utf-8"))["id2label"]
    with tempfile.TemporaryDirectory() as folder:
        found = classify(build, model, folder, count, height, width, pixels)
    right = {name: [0, 0] for name in names.values()}
    for answer, one in zip(answers, found, strict=True):
        name = names[str(answer)]
        right[name][0] += one["label"] == name
        right[name][1] += 1
    for name, (good, total) in right.items():
        print(f"{name:<12} {100 * good / max(total, 1):5.1f} %")
    accuracy = 100 * sum(good for good, _ in right.values()) / count
    print(f"{'all':<12} {accuracy:5.2f} %")
    if accuracy < least:
        sys.exit(f"picture_accuracy: {model}: found {accuracy:.2f} %, expected at least {least} %")


main()
