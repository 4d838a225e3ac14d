# SPDX-License-Identifier: MIT
"""Makes pictures/: small picture files, and what Pillow and the image processors of transformers make of them.

    VENV/bin/python make_pictures.py        # pillow==13.0.0 transformers==5.23.0 numpy safetensors

pictures/expected.safetensors has for each FILE

    FILE                      (height, width, channels) U8: as Pillow decodes and turns it, gray or RGB
    FILE/filter-F/WxH         the same, resized by Pillow's filter number F
    FILE/PROCESSOR            (3, height, width) F32: pixel_values of pictures/PROCESSOR/preprocessor_config.json
"""
import io
import json
import pathlib
import shutil

import numpy as np
import transformers
from PIL import Image, ImageOps
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent / "pictures"
SIZES = [(32, 32), (7, 61), (90, 11)]
PROCESSORS = {
    "vit": dict(cls="ViTImageProcessorPil", size={"height": 20, "width": 20}),
    "vit-int": dict(cls="ViTImageProcessorPil", size=18, resample=0, image_mean=[0.485, 0.456, 0.406],
                    image_std=[0.229, 0.224, 0.225], rescale_factor=0.00390625),
    "deit": dict(cls="DeiTImageProcessorPil", size={"height": 26, "width": 23}, crop_size={"height": 21, "width": 20}),
    "clip": dict(cls="CLIPImageProcessorPil", size={"shortest_edge": 22}, crop_size={"height": 20, "width": 20}),
    "bit-padded": dict(cls="BitImageProcessorPil", size={"shortest_edge": 15}, crop_size={"height": 20, "width": 18},
                       resample=1, do_normalize=False),
    "plain": dict(cls="ViTImageProcessorPil", size={"height": 9, "width": 30}, resample=4, do_rescale=False),
}


def picture(width, height, channels, seed):
    """Smooth colours, noise and hard edges."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [127 + 120 * np.sin((c + 1) * x / 7 + y / (5 + c)) for c in range(channels)]
    pixels = np.stack(waves, -1) + random.normal(0, 12, (height, width, channels))
    pixels[height // 3:height // 2, width // 4:width // 2] = random.choice([0, 255], channels)
    return pixels.clip(0, 255).astype(np.uint8)


def pnm(pixels, magic, largest=255, text=False):
    height, width, channels = pixels.shape
    values = (pixels.astype(np.int64) * largest + 127) // 255
    header = f"{magic}\n# made by make_pictures.py\n{width} {height}\n{largest}\n".encode()
    if text:
        return header + " ".join(str(v) for v in values.ravel()).encode() + b"\n"
    return header + values.astype(">u2" if largest > 255 else np.uint8).tobytes()


def encoded(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def files():
    rgb, gray = picture(61, 47, 3, 1), picture(33, 52, 1, 2)
    small, wide = picture(5, 9, 3, 3), picture(120, 16, 3, 4)
    colour, light = Image.fromarray(rgb), Image.fromarray(gray[..., 0])
    rgba = Image.fromarray(np.concatenate([rgb, gray[:47, :33].repeat(2, 1)[:, :61]], -1))
    made = {
        "rgb.ppm": pnm(rgb, "P6"), "gray.pgm": pnm(gray, "P5"), "small.ppm": pnm(small, "P6"),
        "wide.ppm": pnm(wide, "P6"), "text.ppm": pnm(small, "P3", text=True), "text.pgm": pnm(gray[:9, :11], "P2", text=True),
        "five-bits.ppm": pnm(small, "P6", 31), "rgb.png": encoded(colour, format="PNG"),
        "gray.png": encoded(light, format="PNG"), "rgba.png": encoded(rgba, format="PNG"),
        "palette.png": encoded(colour.quantize(17), format="PNG"), "bits.png": encoded(light.convert("1"), format="PNG"),
        "gray-alpha.png": encoded(rgba.convert("LA"), format="PNG"),
        "turned.png": encoded(colour, format="PNG", exif=exif(5)),
        "rgb.jpg": encoded(colour, format="JPEG", quality=90),
        "plain.jpg": encoded(colour, format="JPEG", quality=80, subsampling=0),
        "progressive.jpg": encoded(colour, format="JPEG", quality=70, progressive=True),
        "gray.jpg": encoded(light, format="JPEG"), "cmyk.jpg": encoded(colour.convert("CMYK"), format="JPEG", quality=95),
    }
    for orientation in (2, 3, 4, 6, 7, 8):
        made[f"turned-{orientation}.jpg"] = encoded(Image.fromarray(small), format="JPEG", exif=exif(orientation))
    return made


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    processors = {}
    for name, options in PROCESSORS.items():
        options = dict(options)
        cls = getattr(transformers, options.pop("cls"))
        processors[name] = cls(**options)
        (HERE / name).mkdir()
        config = dict(options, image_processor_type=cls.__name__[:-3])
        (HERE / name / "preprocessor_config.json").write_text(json.dumps(config, indent=1) + "\n")
    expected = {}
    for name, data in files().items():
        (HERE / name).write_bytes(data)
        image = ImageOps.exif_transpose(Image.open(HERE / name))
        image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
        pixels = np.array(image)
        expected[name] = pixels.reshape(*pixels.shape[:2], -1)
        if name.endswith(("m", "rgba.png", "rgb.jpg")):
            for size in SIZES if name in ("rgb.ppm", "gray.pgm", "wide.ppm") else []:
                for number in range(6):
                    key = f"{name}/filter-{number}/{size[0]}x{size[1]}"
                    expected[key] = np.array(image.resize(size, number)).reshape(size[1], size[0], -1)
            for key, processor in processors.items():
                values = processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]
                expected[f"{name}/{key}"] = values.astype(np.float32)
    save_file({k: np.ascontiguousarray(v) for k, v in sorted(expected.items())}, HERE / "expected.safetensors")
    print(f"{len(files())} pictures, {len(expected)} results, {sum(p.stat().st_size for p in HERE.rglob('*') if p.is_file()) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
