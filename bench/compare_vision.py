# SPDX-License-Identifier: MIT
"""Measures a Vision Transformer: multihead, ONNX Runtime, OpenVINO and transformers.

ViT-B/16 with random weights in f32, one and 16 pictures of 224 x 224 at once, to logits: ours from
pixels of 8 bits, the peers from normalised ones. Before a case is timed, results are compared with
transformers' in double precision. Then contenders take turns, and the best turn of each counts;
where a peer has several ways, the fastest one.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import compare_rates
import multihead_ctypes as mh
import vision_peers
from compare_rates import OURS
from compare_run import cpu_model, positive_numbers, say
from compare_timing import FULL, QUICK, interleave, time_calls
from multihead_model_ctypes import Model

ROOT = Path(__file__).resolve().parent.parent
BATCHES = [1, 16]
UNIT = "pictures"
SIDE = 224
TOLERANCE = 1e-5  # of a logit, relative to the largest one
PROCESSOR = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "do_rescale": True,
             "do_normalize": True, "size": {"height": SIDE, "width": SIDE}, "resample": 2,
             "rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def save_model(folder):
    """The same weights for all."""
    model = vision_peers.make_model()
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return model


def measure(library, arguments, folder, model, batch, threads):
    """A row: milliseconds, ratios and errors of a case."""
    pixels = np.random.default_rng(1).integers(0, 256, (batch, SIDE, SIDE, 3), np.uint8)
    values = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2) / np.float32(127.5) - np.float32(1))
    torch.set_num_threads(threads)
    with library.context(threads) as context, torch.inference_mode():
        wanted = model.double()(torch.from_numpy(values).double()).logits.numpy()
        model.float()
        out = np.empty(wanted.shape, np.float32)
        ready = {(OURS, None): (Model(context, folder).picture_classifier(pixels, out),
                                lambda: out)}
        ready.update(vision_peers.make_calls(model, folder / "model.onnx", values, threads))
        first, errors = {}, {}
        for key, (run, result) in ready.items():
            first[key] = time_calls(run)
            errors[key] = float(np.abs(result() - wanted).max() / np.abs(wanted).max())
        effort = QUICK if arguments.quick else FULL
        best = interleave({key: run for key, (run, _) in ready.items()}, first, effort)
    return compare_rates.make_row("vision", f"{batch} at once", batch, threads, best, errors,
                                  TOLERANCE)


def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-vision", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--batches", type=positive_numbers, default=BATCHES, metavar="N,...",
                        help="pictures at once (default: 1,16)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where libmultihead-model.so is, and where compare-vision.json, .svg "
                        "and .md go (default: build)")
    arguments = parser.parse_args()
    if not (arguments.build / "libmultihead-model.so").exists():
        parser.error(f"{arguments.build}/libmultihead-model.so does not exist: run `make`")
    return arguments


def main():
    """Returns 1 if a contender's result is wrong."""
    arguments = parse_arguments()
    library = mh.Library(str((arguments.build / "libmultihead-model.so").resolve()))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_model(folder)
        vision_peers.export_onnx(model, folder / "model.onnx")
        for threads in arguments.threads:
            for batch in arguments.batches:
                say(f"{batch} pictures at once, {threads} threads")
                rows.append(measure(library, arguments, folder, model, batch, threads))
                compare_rates.print_row(rows[-1], UNIT)
    named = ", ".join(f"{n} {v}" for n, v in vision_peers.versions().items())
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs ({library.cpu_features}); multihead "
             f"{library.version}, {named}; ViT-B/16, {SIDE} x {SIDE}, f32.")
    return compare_rates.finish("compare-vision", rows, UNIT, about, arguments.build)


if __name__ == "__main__":
    sys.exit(main())
