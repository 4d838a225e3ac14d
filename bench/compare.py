# SPDX-License-Identifier: MIT
"""Measures multihead beside PyTorch, ONNX Runtime and OpenBLAS: one run, same inputs and threads.

What is measured stands in compare_operations.py and compare_modules.py. Contenders take turns,
A B C A B C ..., and the best turn of each counts, so that a noisy neighbour hits all of them.
Before that, each result is compared with the expected one. Times of different runs cannot be
compared on a shared machine; the ratio peer / ours within a run can. The table goes to stdout,
progress to stderr; compare.json, compare.svg and compare.md to --out.
"""

import argparse
import json
import math
import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import compare_chart
import compare_markdown
import compare_modules
import compare_operations
import multihead_ctypes as mh
from compare_operations import DTYPES, OURS, Case, Unsupported, onnxruntime
from compare_run import cpu_model, positive_numbers, say, tame_onednn, write_whole
from compare_timing import FULL, QUICK, interleave, time_calls

ROOT = Path(__file__).resolve().parent.parent
OPERATIONS = {**compare_operations.OPERATIONS, **compare_modules.MODULES}


class Job(NamedTuple):
    """A case, and how it is to be run."""
    operation: str
    case: Case
    dtype: str
    threads: int


# ---- measuring -------------------------------------------------------------------------------

def prepare(job, x, context, library):
    """The contenders that can do the job: (name, way or None) -> (call, results)."""
    ready = {}
    for name, make in OPERATIONS[job.operation].contenders.items():
        try:
            made = make(job, x, context, library)
            ways = made if isinstance(made, dict) else {None: made}
            ready.update({(name, way): pair for way, pair in ways.items()})
        except Unsupported as why:
            say(f"    without {name}: {why}")
    return ready


def first_calls(ready, expected, error):
    """Each contender's first Timing, and the largest error of its results."""
    timings, errors = {}, {}
    for name, (run, results) in ready.items():
        timings[name] = time_calls(run)
        errors[name] = max(error(found[index].double(), wanted)
                           for found, (index, wanted) in zip(results(), expected))
    return timings, errors


def fastest_ways(best):
    """Which of its ways counts for each contender: name -> (name, way)."""
    return {name: min((key for key in best if key[0] == name), key=best.get) for name, _ in best}


def measure(job, library, effort):
    """One row: times, ratios and errors of a job."""
    operation = OPERATIONS[job.operation]
    torch.manual_seed(1)
    x = operation.inputs(job.case.size, DTYPES[job.dtype][0])
    torch.set_num_threads(os.cpu_count())
    expected = operation.expected(x)
    torch.set_num_threads(job.threads)
    with library.context(job.threads) as context:
        ready = prepare(job, x, context, library)
        with torch.inference_mode(not operation.gradients):
            timings, errors = first_calls(ready, expected, operation.error)
            best = interleave({key: run for key, (run, _) in ready.items()}, timings, effort)
    keys = fastest_ways(best)
    ms = {name: 1e3 * best[key].seconds for name, key in keys.items()}
    errors = {name: errors[key] for name, key in keys.items()}
    limit = operation.tolerance[job.dtype]
    return {"operation": job.operation, "case": job.case.name, **job.case.size,
            "dtype": job.dtype, "threads": job.threads,
            "ms": ms, "ratio": {name: ms[name] / ms[OURS] for name in ms if name != OURS},
            "way": {name: way for name, way in keys.values() if way},
            "disturbed": [name for name, key in keys.items() if best[key].disturbed],
            "error": errors, "wrong": [n for n, e in errors.items() if not e <= limit]}


# ---- the text table --------------------------------------------------------------------------

def print_heading(name):
    """The title of an operation and its columns."""
    operation = OPERATIONS[name]
    peers = "".join(f" {peer + ' ms':>16} {'ratio':>6}" for peer in list(operation.contenders)[1:])
    print(f"\n{operation.title}")
    print(f"{'case':<14} {'shape':<25} {'mask':<6} {'dtype':<5} {'threads':>7} "
          f"{OURS + ' ms':>12}{peers} {'error':>8}")


def time_cell(row, name):
    """Milliseconds, marked if disturbed; - if the contender does not do the case."""
    mark = "~" if name in row["disturbed"] else ""
    return f"{mark}{row['ms'][name]:.3f}" if name in row["ms"] else "-"


def print_row(row, case):
    """One row; `error` is ours, others' are in the JSON file. A disturbed time has a ~."""
    cells = ""
    for peer in list(OPERATIONS[row["operation"]].contenders)[1:]:
        ratio = f"{row['ratio'][peer]:.2f}x" if peer in row["ratio"] else "-"
        cells += f" {time_cell(row, peer):>16} {ratio:>6}"
    mask = "causal" if row.get("causal") else "-"
    tail = f"{row['error'][OURS]:8.1e}"
    if row["wrong"]:
        tail += f"  WRONG: {', '.join(row['wrong'])}"
    print(f"{row['case']:<14} {case.shape():<25} {mask:<6} {row['dtype']:<5} "
          f"{row['threads']:>7} {time_cell(row, OURS):>12}{cells} {tail}", flush=True)


def geometric_means(rows):
    """The mean ratio of each operation (or pass), dtype, number of threads and peer."""
    groups = {}
    for row in rows:
        for peer in row["ratio"]:
            key = (row["operation"], row["dtype"], row["threads"], peer)
            groups.setdefault(key, []).append(row)
    names = ("operation", "dtype", "threads", "peer")
    return [dict(zip(names, key), **mean_ratio(key[-1], members))
            for key, members in groups.items()]


def mean_ratio(peer, rows):
    """The geometric mean over rows, the worst of them, and how many were disturbed."""
    logs = [math.log(row["ratio"][peer]) for row in rows]
    disturbed = sum(1 for row in rows if {OURS, peer} & set(row["disturbed"]))
    worst = min(rows, key=lambda row: row["ratio"][peer])
    return {"cases": len(rows), "disturbed": disturbed,
            "ratio": math.exp(sum(logs) / len(logs)),
            "worst": worst["ratio"][peer], "worst_case": worst["case"]}


def print_means(means):
    """The geometric means, and where each is worst."""
    print("\ngeometric mean of peer / multihead: above 1 multihead is faster, below 1 slower")
    print("~ and disturbed: other programs wanted the CPUs even during the best repetition")
    for m in means:
        disturbed = f", {m['disturbed']} disturbed" if m["disturbed"] else ""
        print(f"{m['operation']:<16} {m['dtype']:<5} {m['threads']} thread"
              f"{'s' if m['threads'] > 1 else ' '}  {m['peer']:<13} {m['ratio']:5.2f}x "
              f"over {m['cases']} case{'s' if m['cases'] > 1 else ''}, "
              f"worst {m['worst']:.2f}x {m['worst_case']}{disturbed}")


# ---- the run ---------------------------------------------------------------------------------

def machine(library):
    """What it ran on; no names of hosts or users."""
    return {"cpu": cpu_model(), "cpus": os.cpu_count(), "features": library.cpu_features,
            "system": platform.system()}


def versions(library):
    """Whose time it is."""
    found = {OURS: library.version, "torch": torch.__version__, "numpy": np.__version__}
    if onnxruntime is not None:
        found["onnxruntime"] = onnxruntime.__version__
    return found


def words(known):
    """An argument type: a comma-separated list out of `known`."""
    def parse(text):
        found = text.split(",")
        for word in found:
            if word not in known:
                raise argparse.ArgumentTypeError(f"found '{word}', expected some of "
                                                 f"{','.join(known)}")
        return found
    return parse


def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--quick", action="store_true",
                        help="less precise, and without the longest cases: some minutes")
    parser.add_argument("--case", metavar="NAME,...", default="",
                        help="only cases with one of these in their name")
    parser.add_argument("--operation", type=words(OPERATIONS), default=list(OPERATIONS),
                        metavar="NAME,...", help="out of " + ", ".join(OPERATIONS))
    parser.add_argument("--dtype", type=words(DTYPES), default=list(DTYPES), metavar="NAME,...",
                        help="out of " + ", ".join(DTYPES))
    parser.add_argument("--compile", action="store_true",
                        help="modules also by torch.compile, which takes some 15 s each time")
    parser.add_argument("--library", type=Path, default=ROOT / "build" / "libmultihead.so",
                        metavar="FILE", help="default: build/libmultihead.so")
    parser.add_argument("--out", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where compare.json, .svg and .md go (default: build)")
    arguments = parser.parse_args()
    if not arguments.library.exists():
        parser.error(f"{arguments.library} does not exist: run `make`, or pass --library")
    return parser, arguments


def list_jobs(arguments):
    """Everything that is to be measured, in the order of the table."""
    parts = arguments.case.split(",")
    return [Job(name, case, dtype, threads)
            for name in arguments.operation
            for dtype in arguments.dtype
            for threads in arguments.threads
            for case in OPERATIONS[name].cases()
            if any(part in case.name for part in parts)
            and not (arguments.quick and case.is_long())]


def run_jobs(jobs, library, effort):
    """Measures, and prints each row as soon as it is there."""
    rows = []
    for i, job in enumerate(jobs):
        say(f"[{i + 1}/{len(jobs)}] {job.operation} {job.case.name} {job.dtype} x{job.threads}")
        if i == 0 or job.operation != jobs[i - 1].operation:
            print_heading(job.operation)
        rows.append(measure(job, library, effort))
        print_row(rows[-1], job.case)
    return rows


def write_files(out, rows, means, about):
    """compare.json, compare.svg and compare.md"""
    report = {**about, "rows": rows, "geometric_means": means}
    titles = {name: operation.title for name, operation in OPERATIONS.items()}
    write_whole(out / "compare.json", json.dumps(report, indent=1) + "\n")
    write_whole(out / "compare.svg", compare_chart.draw(rows))
    write_whole(out / "compare.md", compare_markdown.draw(rows, means, about, titles, OURS))
    say(f"wrote {out}/compare.json, compare.svg and compare.md")


def main():
    """Returns 1 if a contender's result is wrong."""
    parser, arguments = parse_arguments()
    if not arguments.compile:
        for operation in OPERATIONS.values():
            operation.contenders.pop("torch-compile", None)
    jobs = list_jobs(arguments)
    if not jobs:
        parser.error(f"--case: no case has '{arguments.case}' in its name, or only the longest "
                     "ones, which are not for --quick")
    note = tame_onednn() if "bf16" in arguments.dtype else None
    library = mh.Library(str(arguments.library.resolve()))
    about = {"machine": machine(library), "versions": versions(library), "note": note}
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    print(f"{about['machine']['cpu']}, {about['machine']['cpus']} CPUs")
    if note:
        print(f"note: {note}")
    rows = run_jobs(jobs, library, QUICK if arguments.quick else FULL)
    means = geometric_means(rows)
    print_means(means)
    write_files(arguments.out, rows, means, about)
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
