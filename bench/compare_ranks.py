#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The speed-up of two ranks of one thread over one: `mpirun -n 2 multihead train`, and PyTorch's
DistributedDataParallel (gloo) with the same model. An update of ours has 4096 tokens, two passes of
2048, whatever the ranks. PyTorch's has one pass per rank: of 2048 tokens, or of 4096 divided by the
ranks.

usage: compare_ranks.py BUILD DATA [UPDATES [VALID]]      in bench/venv, or any Python with torch

With VALID, the time of a validation on this file by one rank and by two, and of translating its
sources, too.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from torch_translator import EOS, Training

TOKENS = 2048  # of a pass
MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "fr-en"


def pairs_of(data, vocabulary):
    """Words as ids: what they are does not matter for speed."""
    ids = {}
    def encode(text):
        return [3 + ids.setdefault(w, len(ids)) % (vocabulary - 3) for w in text.split()] + [EOS]
    lines = pathlib.Path(data).read_text(encoding="utf-8").splitlines()[:20000]
    return [tuple(encode(side) for side in line.split("\t")[:2]) for line in lines]


def torch_rank(rank, ranks, data, tokens, updates, port, results):
    """One process of PyTorch's training, with passes of `tokens`."""
    torch.set_num_threads(1)
    training = Training(pairs_of(data, 8259), 8259, tokens, False)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        training.model = torch.nn.parallel.DistributedDataParallel(training.model)
        training.generator.manual_seed(1 + rank)
    training.update()
    begun, trained = time.perf_counter(), 0
    for _ in range(updates):
        trained += training.update()[0]
    results[rank] = trained / (time.perf_counter() - begun)
    if ranks > 1:
        dist.destroy_process_group()


def torch_speed(ranks, data, tokens, updates):
    """Target tokens per second of all ranks."""
    results = mp.get_context("spawn").Manager().dict()
    mp.spawn(torch_rank, (ranks, data, tokens, updates, 29512, results), nprocs=ranks)
    return sum(results.values())


def run_ours(build, ranks, *arguments):
    """`multihead` on ranks of this machine."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    subprocess.run(launcher + [f"{build}/multihead", *arguments], check=True, env=environment)


def our_log(build, ranks, threads, data, updates, *options):
    """The lines of the log of `multihead train`."""
    with tempfile.TemporaryDirectory() as run:
        run_ours(build, ranks, "train", "--data", data, "-q", "--threads", str(threads), "--batch-tokens",
                 str(2 * TOKENS), "--save-freq", "0u", "-o", run, "--tokenizer", f"{MODEL}/tokenizer.json",
                 "--after", f"{updates}u", *options)
        return [json.loads(line) for line in open(f"{run}/log.jsonl", encoding="utf-8")]


def our_speed(build, ranks, threads, data, updates):
    """Target tokens per second, between the first and the last update."""
    lines = our_log(build, ranks, threads, data, updates + 1, "--hold-out", "0")
    first, last = lines[0], lines[-1]
    return (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])


def our_validation(build, ranks, data, valid):
    """Seconds of the validation after the first update."""
    updated, validated = our_log(build, ranks, 1, data, 1, "--valid", valid)
    return validated["seconds"] - updated["seconds"]


def our_translation(build, ranks, valid):
    """Seconds of translating the sources, the command's start included; and the translations."""
    with tempfile.TemporaryDirectory() as directory:
        sources = pathlib.Path(directory, "sources")
        lines = pathlib.Path(valid).read_text(encoding="utf-8").splitlines()
        sources.write_text("".join(line.split("\t")[0] + "\n" for line in lines), encoding="utf-8")
        begun = time.perf_counter()
        run_ours(build, ranks, "translate", "-m", str(MODEL), "--threads", "1", "--input", str(sources),
                 "-o", f"{directory}/out")
        return time.perf_counter() - begun, pathlib.Path(directory, "out").read_bytes()


def show_speeds(name, one, two, more=""):
    print(f"{name:34} 1 rank {one:6.0f} target tokens/s, 2 ranks {two:6.0f}: {two / one:.2f} times{more}",
          flush=True)


def show_times(name, one, two):
    print(f"{name:34} 1 rank {one:6.1f} s, 2 ranks {two:6.1f} s: {one / two:.2f} times", flush=True)


def compare_training(build, data, updates):
    one, two = (our_speed(build, ranks, 1, data, updates) for ranks in (1, 2))
    threads = our_speed(build, 1, 2, data, updates)
    show_speeds("multihead", one, two, f"; 1 process of 2 threads {threads:.0f}: {two / threads:.2f} of it")
    one, two = (torch_speed(ranks, data, TOKENS, updates) for ranks in (1, 2))
    show_speeds(f"PyTorch DDP, {TOKENS} tokens per rank", one, two)
    one, two = (torch_speed(ranks, data, 2 * TOKENS // ranks, updates) for ranks in (1, 2))
    show_speeds(f"PyTorch DDP, {2 * TOKENS} tokens in all", one, two)


def compare_uses(build, data, valid):
    show_times("validation", *(our_validation(build, ranks, data, valid) for ranks in (1, 2)))
    (one, expected), (two, found) = (our_translation(build, ranks, valid) for ranks in (1, 2))
    if found != expected:
        sys.exit("two ranks have other translations")
    show_times("translation", one, two)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, data = sys.argv[1:3]
    compare_training(build, data, int(sys.argv[3]) if len(sys.argv) > 3 else 9)
    if len(sys.argv) > 4:
        compare_uses(build, data, sys.argv[4])


if __name__ == "__main__":
    main()
