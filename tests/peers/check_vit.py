# SPDX-License-Identifier: MIT
"""A ViT that `multihead train` made, in transformers: it loads without a word, and gives our probabilities.

usage: check_vit.py MULTIHEAD MODEL PICTURE.pgm...
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

TOLERANCE = 1.5e-6  # of a probability, about twice what was found


def read_pgm(path):
    _, width, height, _, *values = pathlib.Path(path).read_text(encoding="ascii").split()
    return np.array(values, np.float32).reshape(int(height), int(width))


def main():
    multihead, folder, *paths = sys.argv[1:]
    model, loading = transformers.ViTForImageClassification.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32)
    assert not any(loading.values()), loading
    side = model.config.image_size
    random = np.random.default_rng(1)
    pictures = [read_pgm(p) for p in paths] + [random.integers(0, 256, (side, side)).astype(np.float32) for _ in range(30)]
    with tempfile.TemporaryDirectory() as place:
        names = [f"{place}/{i}.pgm" for i in range(len(pictures))]
        for name, picture in zip(names, pictures):
            pathlib.Path(name).write_bytes(b"P5 %d %d 255\n" % (side, side) + picture.astype(np.uint8).tobytes())
        done = subprocess.run([multihead, "classify", "-q", "-m", folder, "--dtype", "f32", "--json", *names],
                              capture_output=True, text=True, check=True)
    with torch.no_grad():
        theirs = model(torch.from_numpy(np.stack(pictures)[:, None] / 127.5 - 1)).logits.softmax(-1).numpy()
    worst = 0
    for row, line in zip(theirs, done.stdout.splitlines(), strict=True):
        found = {x["label"]: x["probability"] for x in json.loads(line)["labels"]}
        assert list(found) and set(found) == set(model.config.id2label.values()), found
        worst = max([worst, *(abs(found[model.config.id2label[i]] - p) for i, p in enumerate(row))])
    print(f"vit: {len(pictures)} pictures, probabilities within {worst:.1e} of transformers'")
    if worst > TOLERANCE:
        sys.exit(f"check_vit: found a difference of {worst:.1e}, expected at most {TOLERANCE:.0e}")


main()
