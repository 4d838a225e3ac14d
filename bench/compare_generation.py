# SPDX-License-Identifier: MIT
"""Measures text generation: multihead, transformers, CTranslate2 and llama.cpp.

Greedy, from token ids to token ids, with the same weights and number of threads: one prompt of 256
tokens, and eight of them at once, until their first new token, and 64 new tokens for 1, 8 and 32
short prompts at once. All contenders are loaded before; they take turns, and the best turn of each
counts. Ratios are time of the peer / time of multihead: above 1 multihead is faster. `best` is the
fastest peer of the same precision; quantised peers are shown beside multihead's bf16.
"""

import argparse
import json
import math
import os
import sys
from pathlib import Path

import numpy as np

import compare_chart
import generation_peers
import multihead_ctypes as mh
from compare_run import cpu_model, positive_numbers, say, tame_onednn, write_whole
from compare_timing import Effort, interleave, time_calls
from generation_models import MODELS, Files
from multihead_model_ctypes import Model

ROOT = Path(__file__).resolve().parent.parent
OURS, BEST = "multihead", "best"
PRECISIONS = {"f32": ["f32"], "bf16": ["bf16", "int8"]}  # ours: the peers'
CASES = {"prompt": (1, 256, 1), "8 prompts at once": (8, 256, 1), "1 at once": (1, 8, 64),
         "8 at once": (8, 8, 64), "32 at once": (32, 8, 64)}  # sequences, tokens of a prompt, new
VOCABULARY = 1000, 40000  # ids of words in both vocabularies
SAME = 8            # first new tokens that are compared
AGREEMENT = 0.9     # of the sequences, between f32 contenders
LEAST_MEAN, LEAST = 1.0, 0.95  # ratios to the best peer
LEAST_GAIN = 3.0               # tokens/s of 8 at once / 1


# ---- measuring -------------------------------------------------------------------------------

def agreement(ours, theirs):
    """The part of sequences that begin with the same tokens."""
    return float((ours[:, :SAME] == theirs[:, :SAME]).all(1).mean())


def measure(ready, case, effort):
    """({contender: Timing}, {contender: agreement with ours})"""
    sequences, tokens, count = CASES[case]
    ids = np.random.default_rng(1).integers(*VOCABULARY, (sequences, tokens)).astype(np.int32)
    results, calls = {}, {}
    for key, run in ready.items():
        def call(key=key, run=run):
            results[key] = run(ids, count)
        calls[key] = call
    first = {key: time_calls(call) for key, call in calls.items()}
    best = interleave(calls, first, effort)
    ours = next(key for key in ready if key[0] == OURS)
    return best, {key: agreement(results[ours], found) for key, found in results.items()}


def make_row(model, case, precision, threads, best, same):
    """Speeds and ratios; contenders of the same precision count for the best one."""
    sequences, tokens, count = CASES[case]
    units = sequences * (tokens if count == 1 else count)
    names = {key: OURS if key[0] == OURS else " ".join(key[:2]) for key in best}
    ms = {names[key]: 1e3 * timing.seconds for key, timing in best.items()}
    ratio = {name: ms[name] / ms[OURS] for name in ms if name != OURS}
    equals = [ratio[names[key]] for key in best if key[0] != OURS and key[2] == precision]
    if equals:
        ratio[BEST] = min(equals)
    return {"operation": model, "case": case, "dtype": precision, "threads": threads, "ms": ms,
            "tokens_per_second": {name: 1e3 * units / time for name, time in ms.items()},
            "ratio": ratio, "same": {names[key]: part for key, part in same.items()},
            "disturbed": [names[key] for key, timing in best.items() if timing.disturbed],
            "wrong": [names[key] for key, part in same.items()
                      if precision == "f32" and part < AGREEMENT]}


def measure_model(library, arguments, llama, name, precision, threads):
    """The rows of a model, precision and number of threads."""
    files = Files(name, arguments.model, arguments.folder)
    effort = Effort(arguments.rounds, 0.2, 0, 0.02)
    rows = []
    with library.context(threads) as context, \
            generation_peers.make_peers(files, llama, PRECISIONS[precision], threads) as peers:
        ours = Model(context, files.ours(), precision)
        ready = {(OURS, precision, precision): ours.generate, **peers}
        for case in arguments.cases:
            say(f"{name} {precision}, {case}, {threads} threads")
            rows.append(make_row(name, case, precision, threads, *measure(ready, case, effort)))
            print_row(rows[-1])
    return rows


# ---- tables ----------------------------------------------------------------------------------

def mean_ratios(rows):
    """Per precision and number of threads: the mean and worst ratio to the best peer."""
    found = {}
    for row in rows:
        if BEST in row["ratio"]:
            found.setdefault((row["dtype"], row["threads"]), []).append(
                (row["ratio"][BEST], f"{row['operation']}, {row['case']}"))
    return [{"dtype": dtype, "threads": threads, "worst": min(ratios)[0],
             "worst_case": min(ratios)[1],
             "mean": math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))}
            for (dtype, threads), ratios in found.items()]


def batch_gains(rows):
    """Our tokens/s of 8 sequences at once / one."""
    speeds = {(row["operation"], row["dtype"], row["threads"], row["case"]):
              row["tokens_per_second"][OURS] for row in rows}
    return [{"model": key[0], "dtype": key[1], "threads": key[2],
             "gain": speed / speeds[*key[:3], "1 at once"]}
            for key, speed in speeds.items()
            if key[3] == "8 at once" and (*key[:3], "1 at once") in speeds]


def mark(row, name):
    """~ if the contender was preempted even in its best turn."""
    return "~" if name in row["disturbed"] else ""


def print_row(row):
    """Tokens/s and ratios of all contenders."""
    print(f"\n{row['operation']} {row['dtype']}, {row['case']}, {row['threads']} "
          f"thread{'s' if row['threads'] > 1 else ''}:"
          + (f"  WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""))
    for name, speed in row["tokens_per_second"].items():
        ratio = f"{row['ratio'][name]:.2f}x" if name in row["ratio"] else ""
        print(f"  {name:<22} {mark(row, name) + f'{speed:.1f}':>10} tokens/s {ratio:>7}  "
              f"{100 * row['same'][name]:3.0f} % begin as ours", flush=True)


def table(rows, values, show):
    """Markdown: a line per case, a column per name in `values`."""
    names = list(dict.fromkeys(name for row in rows for name in row[values]))
    lines = ["| " + " | ".join(["model", "case", "threads", *names]) + " |",
             "|---" * (len(names) + 3) + "|"]
    for row in rows:
        cells = [show(row, name) if name in row[values] else "" for name in names]
        lines.append("| " + " | ".join([row["operation"], row["case"], str(row["threads"]),
                                        *cells]) + " |")
    return lines


def markdown(rows, about):
    """Per precision: tokens/s, then ratios."""
    lines = [about]
    for precision in PRECISIONS:
        chosen = [row for row in rows if row["dtype"] == precision]
        if not chosen:
            continue
        lines += ["", f"Tokens/s, {precision}:", "", *table(
            chosen, "tokens_per_second",
            lambda row, name: f"{mark(row, name)}{row['tokens_per_second'][name]:.0f}")]
        lines += ["", f"Time of the peer / time of multihead, {precision}:", "", *table(
            chosen, "ratio",
            lambda row, name: f"{mark(row, OURS) or mark(row, name)}{row['ratio'][name]:.2f}")]
    return "\n".join(lines) + "\n"


def print_summary(about, means, gains):
    """What is required, and whether it is so."""
    print(f"\n{about}\nbest peer / multihead, geometric mean of the cases, and the worst one:")
    for m in means:
        late = "" if m["mean"] >= LEAST_MEAN and m["worst"] >= LEAST else "  SLOWER"
        print(f"  {m['dtype']:<5} x{m['threads']} {m['mean']:5.2f}x  worst {m['worst']:.2f}x "
              f"({m['worst_case']}){late}")
    print("multihead, tokens/s of 8 at once / 1:")
    for g in gains:
        late = "" if g["gain"] >= LEAST_GAIN else "  TOO LITTLE"
        print(f"  {g['model']} {g['dtype']} x{g['threads']} {g['gain']:.1f}{late}")


# ---- the run ---------------------------------------------------------------------------------

def choice(known):
    """An argument type: some of the known names, separated by commas."""
    def parse(text):
        chosen = text.split(",")
        if not set(chosen) <= set(known):
            raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}")
        return chosen
    return parse


def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-generation",
                                     description=__doc__.split("\n", 1)[0])
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="FILE",
                        help="SmolLM2-135M-Instruct as GGUF; `make compare-generation` downloads it")
    parser.add_argument("--models", type=choice(MODELS), default=MODELS, metavar="NAME,...",
                        help=f"default: {','.join(MODELS)}")
    parser.add_argument("--precisions", type=choice(PRECISIONS), default=list(PRECISIONS),
                        metavar="NAME,...", help=f"default: {','.join(PRECISIONS)}")
    parser.add_argument("--cases", type=choice(CASES), default=list(CASES), metavar="NAME,...",
                        help=f"default: {','.join(CASES)}")
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="how often all take turns, at most (default: 5)")
    parser.add_argument("--add", action="store_true",
                        help="keep the rows of the last compare-generation.json that are not "
                        "measured again")
    parser.add_argument("--folder", type=Path, default=ROOT / "bench" / "venv-generation" / "models",
                        metavar="DIR", help="where converted models and llama.cpp are kept "
                        "(default: bench/venv-generation/models)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where libmultihead-model.so is, and where compare-generation.json, "
                        ".svg and .md go (default: build)")
    arguments = parser.parse_args()
    if not (arguments.build / "libmultihead-model.so").exists():
        parser.error(f"{arguments.build}/libmultihead-model.so does not exist: run `make`")
    return arguments


def identity(row):
    """What a row measures."""
    return row["operation"], row["dtype"], row["threads"], row["case"]


def merge(old, new):
    """All rows, in the order of a whole run."""
    rows = {identity(row): row for row in [*old, *new]}
    order = list(PRECISIONS), MODELS, list(CASES)
    return sorted(rows.values(), key=lambda row: (
        order[0].index(row["dtype"]), row["threads"], order[1].index(row["operation"]),
        order[2].index(row["case"])))


def main():
    """Returns 1 if an f32 contender's result is wrong, or multihead is slower than required."""
    arguments = parse_arguments()
    tame_onednn()
    library = mh.Library(str((arguments.build / "libmultihead-model.so").resolve()))
    llama = generation_peers.open_llama(arguments.folder / "llama.cpp")
    report = arguments.build / "compare-generation.json"
    rows = json.loads(report.read_text())["rows"] if arguments.add and report.exists() else []
    for threads in arguments.threads:
        for precision in arguments.precisions:
            for name in arguments.models:
                rows = merge(rows, measure_model(library, arguments, llama, name, precision,
                                                 threads))
    means, gains = mean_ratios(rows), batch_gains(rows)
    named = ", ".join(f"{n} {v}" for n, v in generation_peers.versions(llama).items())
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs ({library.cpu_features}); multihead "
             f"{library.version}, {named}.")
    print_summary(about, means, gains)
    write_whole(report, json.dumps({"about": about, "rows": rows, "geometric_means": means,
                                    "batch_gains": gains}, indent=1) + "\n")
    write_whole(report.with_suffix(".svg"), compare_chart.draw(rows))
    write_whole(report.with_suffix(".md"), markdown(rows, about))
    say(f"wrote {arguments.build}/compare-generation.json, .svg and .md")
    slow = [m for m in means if m["mean"] < LEAST_MEAN or m["worst"] < LEAST]
    slow += [g for g in gains if g["gain"] < LEAST_GAIN]
    return 1 if slow or any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
