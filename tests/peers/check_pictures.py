# SPDX-License-Identifier: MIT
"""Compares our preprocessing of pictures with that of transformers' image processors in their Pillow form.

usage: check_pictures.py PEER_PICTURES [PICTURES]

Random pictures (200) of random sizes, as PPM, PGM, PNG and JPEG files, go through processors with random settings.
Files that differ from ours by more than 1e-6 after normalisation are an error; 1/255 before it would be 0.0039.
PNG and JPEG are left out where libmultihead-media is not built.
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
import transformers
from PIL import Image

MODEL = pathlib.Path(__file__).parent.parent / "goldens/models/vit"
CLASSES = ["ViTImageProcessorPil", "DeiTImageProcessorPil", "CLIPImageProcessorPil", "BitImageProcessorPil"]


def random_picture(random):
    width, height = (int(2 ** random.uniform(2, 9)) for _ in range(2))
    small = random.integers(0, 256, (1 + height // 9, 1 + width // 9, 3), dtype=np.uint8)
    pixels = np.array(Image.fromarray(small).resize((width, height), 3)).astype(float)
    pixels += random.normal(0, random.choice([0, 5, 60]), pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def random_settings(random):
    name = str(random.choice(CLASSES))
    sides = [int(random.integers(8, 80)) for _ in range(4)]
    shortest = name.startswith(("CLIP", "Bit"))
    options = dict(size={"shortest_edge": sides[0]} if shortest else {"height": sides[0], "width": sides[1]},
                   resample=int(random.integers(0, 6)))
    if not name.startswith("ViT"):
        options["crop_size"] = {"height": sides[2], "width": sides[3]}
    return name, options


def save(image, folder, number, media):
    kind = ["ppm", "pgm", "png", "jpg"][number % (4 if media else 2)]
    path = folder / f"{number}.{kind}"
    (image.convert("L") if kind == "pgm" else image).save(path)
    return path


def ours(program, model, paths):
    data = subprocess.run([program, model, *paths], check=True, capture_output=True).stdout
    for _ in paths:
        shape = struct.unpack("<3Q", data[:24])
        count = 4 * shape[0] * shape[1] * shape[2]
        yield np.frombuffer(data[24:24 + count], np.float32).reshape(shape)
        data = data[24 + count:]


def main(program, pictures):
    random = np.random.default_rng(24)
    media = (pathlib.Path(program).parent.parent / "libmultihead-media.so.0").exists()
    worst, done = 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = shutil.copytree(MODEL, folder / "model")
        while done < pictures:
            cls, options = random_settings(random)
            (model / "preprocessor_config.json").write_text(json.dumps(dict(options, image_processor_type=cls[:-3])))
            processor = getattr(transformers, cls)(**options)
            paths = [save(random_picture(random), folder, done + i, media) for i in range(8)]
            for path, found in zip(paths, ours(program, model, paths)):
                wanted = processor(Image.open(path).convert("RGB"), return_tensors="np")["pixel_values"][0]
                if found.shape != wanted.shape:
                    sys.exit(f"pictures: {path.name}, {cls} {options}: found {found.shape}, expected {wanted.shape}")
                worst = max(worst, float(np.abs(found - wanted).max()))
                if worst > 1e-6:
                    sys.exit(f"pictures: {path.name}, {cls} {options}: differs by {worst}")
            done += len(paths)
    kinds = "PPM, PGM, PNG, JPEG" if media else "PPM, PGM; skipped: PNG and JPEG, libmultihead-media is not built"
    print(f"pictures: {done} through transformers' processors, largest difference {worst:.1e} ({kinds})")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)
