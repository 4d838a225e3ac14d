# SPDX-License-Identifier: MIT
"""Measures sentence embeddings by MiniLM: multihead, ONNX Runtime, OpenVINO, sentence-transformers.

From token ids to vectors of length 1, batches of equally long sentences, so that nobody pads. Before
a case is timed, results are compared with PyTorch's in double precision. Then contenders take turns,
and the best turn of each counts; where a peer has several ways, the fastest one. Ratios are time of
the peer / time of multihead: above 1 multihead is faster. `best f32` is the fastest f32 peer of the
case.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import compare_rates
import embedding_peers
import multihead_ctypes as mh
from compare_rates import OURS
from compare_run import cpu_model, positive_numbers, say
from compare_timing import FULL, QUICK, interleave, time_calls
from multihead_model_ctypes import Model

ROOT = Path(__file__).resolve().parent.parent
LENGTHS, BATCHES = [16, 64, 256], [1, 32]
INT8 = "onnxruntime int8"
UNIT = "sentences"
TOLERANCE = 2e-6  # of an element, where vectors have length 1; of f32 contenders
VOCABULARY = 1000, 28000  # ids of words in BERT's vocabulary


# ---- measuring -------------------------------------------------------------------------------

def expected_embeddings(model, ids):
    """In double precision, by PyTorch."""
    with torch.inference_mode():
        inputs = [torch.from_numpy(x) for x in embedding_peers.feed(ids).values()]
        return model(*inputs).numpy()


def make_contenders(context, directory, peers, ids, threads):
    """(name, way) -> (call, result)"""
    out = np.empty((ids.shape[0], 384), np.float32)
    ready = {(OURS, None): (Model(context, directory).embedder(ids, out), lambda: out)}
    for name, make in peers.items():
        ready.update({(name, way): pair for way, pair in make(ids, threads).items()})
    return ready


def measure(library, arguments, peers, reference, batch, tokens, threads):
    """A row: milliseconds, ratios and errors of a case."""
    ids = np.random.default_rng(1).integers(*VOCABULARY, (batch, tokens)).astype(np.int32)
    ids[:, 0], ids[:, -1] = 101, 102  # [CLS], [SEP]
    wanted = expected_embeddings(reference, ids)
    torch.set_num_threads(threads)
    with library.context(threads) as context, torch.inference_mode():
        ready = make_contenders(context, arguments.model, peers, ids, threads)
        first, errors = {}, {}
        for key, (run, result) in ready.items():
            first[key] = time_calls(run)
            errors[key] = float(np.abs(result() - wanted).max())
        effort = QUICK if arguments.quick else FULL
        best = interleave({key: run for key, (run, _) in ready.items()}, first, effort)
    return compare_rates.make_row("embedding", f"{batch} x {tokens}", batch, threads, best, errors,
                                  TOLERANCE, [INT8])


# ---- the run ---------------------------------------------------------------------------------

def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-models", description=__doc__.split("\n", 1)[0])
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="DIR",
                        help="all-MiniLM-L6-v2; `make compare-models` downloads it")
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--tokens", type=positive_numbers, default=LENGTHS, metavar="N,...",
                        help="lengths of sentences (default: 16,64,256)")
    parser.add_argument("--batches", type=positive_numbers, default=BATCHES, metavar="N,...",
                        help="sentences at once (default: 1,32)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where libmultihead-model.so is, and where compare-models.json, .svg "
                        "and .md go (default: build)")
    arguments = parser.parse_args()
    if not (arguments.build / "libmultihead-model.so").exists():
        parser.error(f"{arguments.build}/libmultihead-model.so does not exist: run `make`")
    return arguments


def main():
    """Returns 1 if an f32 contender's result is wrong."""
    arguments = parse_arguments()
    library = mh.Library(str((arguments.build / "libmultihead-model.so").resolve()))
    reference = embedding_peers.SentenceEncoder(arguments.model).eval().double()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        peers = embedding_peers.make_peers(arguments.model, Path(folder))
        for threads in arguments.threads:
            for tokens in arguments.tokens:
                for batch in arguments.batches:
                    say(f"{batch} x {tokens} tokens, {threads} threads")
                    rows.append(measure(library, arguments, peers, reference, batch, tokens,
                                        threads))
                    compare_rates.print_row(rows[-1], UNIT)
    named = ", ".join(f"{n} {v}" for n, v in embedding_peers.versions().items())
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs ({library.cpu_features}); multihead "
             f"{library.version}, {named}; all-MiniLM-L6-v2, from token ids.")
    return compare_rates.finish("compare-models", rows, UNIT, about, arguments.build)


if __name__ == "__main__":
    sys.exit(main())
