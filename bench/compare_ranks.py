#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The speed-up of two ranks of one thread over one: `mpirun -n 2 multihead train`, and PyTorch's
DistributedDataParallel (gloo) with the same model. A pass has 2048 tokens, a grain, in all four; an
update of ours has two passes, of PyTorch's as many as there are ranks.

usage: compare_ranks.py BUILD DATA [UPDATES [VALID]]      in bench/venv, or any Python with torch

With VALID, the time of a validation on this file by one rank and by two, too.
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


def pairs_of(data, vocabulary):
    """Words as ids: what they are does not matter for speed."""
    ids = {}
    def encode(text):
        return [3 + ids.setdefault(w, len(ids)) % (vocabulary - 3) for w in text.split()] + [EOS]
    lines = pathlib.Path(data).read_text(encoding="utf-8").splitlines()[:20000]
    return [tuple(encode(side) for side in line.split("\t")[:2]) for line in lines]


def torch_rank(rank, ranks, data, updates, port, results):
    """One process of PyTorch's training."""
    torch.set_num_threads(1)
    training = Training(pairs_of(data, 8259), 8259, TOKENS, False)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        training.model = torch.nn.parallel.DistributedDataParallel(training.model)
        training.generator.manual_seed(1 + rank)
    training.update()
    begun, tokens = time.perf_counter(), 0
    for _ in range(updates):
        tokens += training.update()[0]
    results[rank] = tokens / (time.perf_counter() - begun)
    if ranks > 1:
        dist.destroy_process_group()


def torch_speed(ranks, data, updates):
    """Target tokens per second of all ranks."""
    results = mp.get_context("spawn").Manager().dict()
    mp.spawn(torch_rank, (ranks, data, updates, 29512, results), nprocs=ranks)
    return sum(results.values())


def our_log(build, ranks, data, updates, *options):
    """The lines of the log of `multihead train`."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    with tempfile.TemporaryDirectory() as run:
        subprocess.run(launcher + [f"{build}/multihead", "train", "--data", data, "-q", "--threads", "1",
                                   "--batch-tokens", str(2 * TOKENS), "--save-freq", "0u", "-o", run,
                                   "--tokenizer", "models/fr-en/tokenizer.json",
                                   "--after", f"{updates}u", *options], check=True, env=environment)
        return [json.loads(line) for line in open(f"{run}/log.jsonl", encoding="utf-8")]


def our_speed(build, ranks, data, updates):
    """Target tokens per second, between the first and the last update."""
    lines = our_log(build, ranks, data, updates + 1)
    first, last = lines[0], lines[-1]
    return (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])


def our_validation(build, ranks, data, valid):
    """Seconds of the validation after the first update."""
    updated, validated = our_log(build, ranks, data, 1, "--valid", valid)
    return validated["seconds"] - updated["seconds"]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, data = sys.argv[1:3]
    updates = int(sys.argv[3]) if len(sys.argv) > 3 else 9
    for name, speed in (("multihead", lambda n: our_speed(build, n, data, updates)),
                        ("PyTorch DDP, gloo", lambda n: torch_speed(n, data, updates))):
        one, two = speed(1), speed(2)
        print(f"{name:20} 1 rank {one:6.0f} target tokens/s, 2 ranks {two:6.0f}: {two / one:.2f} times",
              flush=True)
    if len(sys.argv) > 4:
        one, two = (our_validation(build, ranks, data, sys.argv[4]) for ranks in (1, 2))
        print(f"validation           1 rank {one:.1f} s, 2 ranks {two:.1f} s: {one / two:.2f} times")


if __name__ == "__main__":
    main()
