# SPDX-License-Identifier: MIT
"""Measures sentence embeddings by MiniLM: multihead, ONNX Runtime, OpenVINO, sentence-transformers.

From token ids to vectors of length 1, batches of equally long sentences, so that nobody pads. Before
a case is timed, results are compared with PyTorch's in double precision. Then contenders take turns,
and the best turn of each counts; where a peer has several ways, the fastest one. Ratios are time of
the peer / time of multihead: above 1 multihead is faster. `best f32` is the fastest f32 peer of the
case.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import compare_chart
import embedding_peers
import multihead_ctypes as mh
from compare_run import cpu_model, say, thread_counts, write_whole
from compare_timing import FULL, QUICK, interleave, time_calls
from multihead_model_ctypes import Model

ROOT = Path(__file__).resolve().parent.parent
LENGTHS, BATCHES = [16, 64, 256], [1, 32]
OURS, BEST = "multihead", "best f32"
INT8 = "onnxruntime int8"
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
    return make_row(f"{batch} x {tokens}", batch, threads, best, errors)


def make_row(case, batch, threads, best, errors):
    """The fastest way of each contender, and the ratios."""
    keys = {name: min((key for key in best if key[0] == name), key=best.get) for name, _ in best}
    ms = {name: 1e3 * best[key].seconds for name, key in keys.items()}
    ratio = {name: ms[name] / ms[OURS] for name in ms if name != OURS}
    ratio[BEST] = min(r for name, r in ratio.items() if name != INT8)
    return {"operation": "embedding", "case": case, "dtype": "f32", "threads": threads, "ms": ms,
            "sentences_per_second": {name: 1e3 * batch / time for name, time in ms.items()},
            "ratio": ratio, "way": {name: way for name, way in keys.values() if way},
            "disturbed": [name for name, key in keys.items() if best[key].disturbed],
            "error": {name: errors[key] for name, key in keys.items()},
            "wrong": [name for name, key in keys.items()
                      if name != INT8 and not errors[key] <= TOLERANCE]}


# ---- tables ----------------------------------------------------------------------------------

def mean_ratios(rows):
    """(threads, peer) -> the geometric mean, the worst ratio, and where that is."""
    found = {}
    for row in rows:
        for peer in row["ratio"]:
            found.setdefault((row["threads"], peer), []).append((row["ratio"][peer], row["case"]))
    return [{"threads": threads, "peer": peer, "worst": min(ratios)[0],
             "worst_case": min(ratios)[1],
             "mean": math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))}
            for (threads, peer), ratios in found.items()]


def mark(row, name):
    """~ if the contender was preempted even in its best turn."""
    return "~" if name in row["disturbed"] else ""


def markdown(rows, means, about):
    """Sentences/s, then ratios, with a line per case and number of threads."""
    names = list(rows[0]["ms"])
    peers = list(rows[0]["ratio"])
    lines = [about, "", "Sentences/s:", "",
             "| " + " | ".join(["batch x tokens", "threads", *names]) + " |",
             "|---" * (len(names) + 2) + "|"]
    for row in rows:
        cells = [f"{mark(row, n)}{row['sentences_per_second'][n]:.0f}" for n in names]
        lines.append("| " + " | ".join([row["case"], str(row["threads"]), *cells]) + " |")
    lines += ["", "Time of the peer / time of multihead:", "",
              "| " + " | ".join(["batch x tokens", "threads", *peers]) + " |",
              "|---" * (len(peers) + 2) + "|"]
    for row in rows:
        cells = [f"{mark(row, OURS) or mark(row, p)}{row['ratio'][p]:.2f}" for p in peers]
        lines.append("| " + " | ".join([row["case"], str(row["threads"]), *cells]) + " |")
    for key, name in (("mean", "geometric mean"), ("worst", "worst")):
        for threads in dict.fromkeys(m["threads"] for m in means):
            cells = [f"{m[key]:.2f}" for m in means if m["threads"] == threads]
            lines.append("| " + " | ".join([name, str(threads), *cells]) + " |")
    return "\n".join(lines) + "\n"


def print_row(row):
    """Sentences/s and ratios of all contenders."""
    print(f"\n{row['case']} tokens, {row['threads']} thread{'s' if row['threads'] > 1 else ''}:"
          + (f"  WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""))
    for name, speed in row["sentences_per_second"].items():
        ratio = f"{row['ratio'][name]:.2f}x" if name in row["ratio"] else ""
        print(f"  {name:<22} {mark(row, name) + f'{speed:.1f}':>10} sentences/s {ratio:>7}  "
              f"{row['way'].get(name, ''):<14} error {row['error'][name]:.1e}", flush=True)


# ---- the run ---------------------------------------------------------------------------------

def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-models", description=__doc__.split("\n", 1)[0])
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="DIR",
                        help="all-MiniLM-L6-v2; `make compare-models` downloads it")
    parser.add_argument("--threads", type=thread_counts, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--tokens", type=thread_counts, default=LENGTHS, metavar="N,...",
                        help="lengths of sentences (default: 16,64,256)")
    parser.add_argument("--batches", type=thread_counts, default=BATCHES, metavar="N,...",
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
                    print_row(rows[-1])
    means = mean_ratios(rows)
    named = ", ".join(f"{n} {v}" for n, v in embedding_peers.versions().items())
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs ({library.cpu_features}); multihead "
             f"{library.version}, {named}; all-MiniLM-L6-v2, from token ids.")
    print(f"\n{about}\ngeometric mean of peer / multihead, and the worst case:")
    for m in means:
        print(f"  {m['threads']} thread{'s' if m['threads'] > 1 else ' '} {m['peer']:<22} "
              f"{m['mean']:5.2f}x  worst {m['worst']:.2f}x ({m['worst_case']})")
    report = {"about": about, "rows": rows, "geometric_means": means}
    write_whole(arguments.build / "compare-models.json", json.dumps(report, indent=1) + "\n")
    write_whole(arguments.build / "compare-models.svg", compare_chart.draw(rows))
    write_whole(arguments.build / "compare-models.md", markdown(rows, means, about))
    say(f"wrote {arguments.build}/compare-models.json, .svg and .md")
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
