# SPDX-License-Identifier: MIT
"""Measures trainings of the same translator: `multihead train` beside PyTorch's nn.Transformer.

The preset small, the same sentence pairs, tokens, batch sizes and threads, one process each for
ours. All take turns, an update each, A B C D A B C D ...; tokens/s counts target tokens, never
padding. What is measured is checked, too: the first loss of each must be near ln(vocabulary), and
the last ones lower, or the exit status is 1.
"""

import argparse
import math
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import tokenizers
import torch

import compare_speeds
import torch_translator
from compare_run import Turns, cpu_model, positive_numbers, say, tame_onednn

ROOT = Path(__file__).resolve().parent.parent
PAIRS = [("multihead default", "torch f32"), ("multihead default", "torch bf16"),
         ("multihead f32", "torch f32")]


# ---- data ------------------------------------------------------------------------------------

def write_made_up_pairs(path, count=20000):
    """Sentences of made-up words, and the same words in another spelling, backwards."""
    rng = random.Random(1)
    words = ["".join(rng.choice("bdfklmnprstv") + rng.choice("aeiou")
                     for _ in range(rng.randint(1, 4))) for _ in range(5000)]
    weights = [1 / (i + 3) for i in range(len(words))]  # few are common, as in languages
    with path.open("w") as file:
        for _ in range(count):
            sentence = rng.choices(words, weights, k=rng.randint(3, 16))
            print(" ".join(sentence), " ".join(w[::-1] for w in sentence[::-1]), sep="\t",
                  file=file)


def read_pairs(path, tokenizer, most=256):
    """[(source ids, target ids)], each with </s>; pairs with a longer side are left out."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t")[:2] for line in file]
    sides = [[e.ids + [torch_translator.EOS] for e in
              tokenizer.encode_batch([line[side] for line in lines], add_special_tokens=False)]
             for side in (0, 1)]
    return [pair for pair in zip(*sides) if max(map(len, pair)) <= most]


# ---- contenders ------------------------------------------------------------------------------

class Ours:
    """One of our trainings: update() gives (seconds, tokens, loss)."""

    def __init__(self, program, data, folder, tokenizer, precision, threads, batch_tokens):
        self.turns = Turns(program, data, folder, tokenizer, precision, threads, batch_tokens)
        self.level, self.precision, self.vocabulary = self.turns.ready
        self.mean = None

    def update(self):
        """What it tells is a mean over time: mean += 0.02 (loss - mean)."""
        seconds, tokens, mean = map(float, self.turns.ask())
        loss = mean if self.mean is None else self.mean + (mean - self.mean) / 0.02
        self.mean = mean
        return seconds, tokens, loss


class Torch:
    """One of PyTorch's."""

    def __init__(self, *arguments):
        self.training = torch_translator.Training(*arguments)

    def update(self):
        """As ours."""
        start = time.perf_counter()
        tokens, loss = self.training.update()
        return time.perf_counter() - start, tokens, loss


# ---- measuring -------------------------------------------------------------------------------

def take_turns(contenders, warm_up, rounds):
    """{name: [tokens/s]}, {name: [loss]}"""
    speeds, losses = ({name: [] for name in contenders} for _ in range(2))
    for turn in range(warm_up + rounds):
        for name, contender in contenders.items():
            time.sleep(0.02)  # threads of the last one stop spinning
            seconds, tokens, loss = contender.update()
            losses[name].append(loss)
            if turn >= warm_up:
                speeds[name].append(tokens / seconds)
        say(f"round {turn + 1} of {warm_up + rounds}: " + ", ".join(
            f"{name} {values[-1]:.2f}" for name, values in losses.items()))
    return speeds, losses


def do_not_learn(losses, vocabulary):
    """Those whose first loss is not that of a guess, or that have not improved."""
    guess = math.log(vocabulary)
    return [name for name, values in losses.items()
            if not abs(values[0] / guess - 1) < 0.2 or not sum(values[-3:]) < sum(values[:3])]


def measure(arguments, data, threads, folder):
    """The row for a number of threads, and details."""
    torch.set_num_threads(threads)
    program, tokens = arguments.build / "bench" / "train_turns", arguments.batch_tokens
    say(f"{threads} threads: learning the tokens of {data.name}")
    default = Ours(program, data, folder / "default", "-", "auto", threads, tokens)
    file = folder / "default" / "tokenizer.json"
    f32 = Ours(program, data, folder / "f32", file, "f32", threads, tokens)
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    pairs, vocabulary = read_pairs(data, tokenizer), tokenizer.get_vocab_size()
    contenders = {"multihead default": default, "multihead f32": f32,
                  "torch f32": Torch(pairs, vocabulary, tokens, False)}
    if torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        contenders["torch bf16"] = Torch(pairs, vocabulary, tokens, True)
    else:
        say("without torch bf16, which takes 30 times as long as f32 on a CPU without AVX-512")
    speeds, losses = take_turns(contenders, arguments.warm_up, arguments.rounds)
    for ours in (default, f32):
        ours.turns.close()
    found = compare_speeds.row("training", "small", threads, "target tokens/s", speeds,
                               [pair for pair in PAIRS if pair[1] in contenders])
    found["losses"], found["wrong"] = losses, do_not_learn(losses, vocabulary)
    compare_speeds.print_row(found)
    for name, values in losses.items():
        print(f"  {name:<18} loss {values[0]:.2f} -> {sum(values[-3:]) / 3:.2f}, "
              f"ln(vocabulary) {math.log(vocabulary):.2f}")
    return found, {"level": default.level, "default": default.precision, "vocabulary": vocabulary,
                   "pairs": len(pairs), "batch_tokens": tokens}


def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-training",
                                     description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, metavar="FILE",
                        help="source TAB target a line (default: made-up sentences)")
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--batch-tokens", type=int, default=4096, metavar="N",
                        help="source and target tokens of an update (default: 4096)")
    parser.add_argument("--rounds", type=int, default=30, metavar="N",
                        help="updates of each that count (default: 30)")
    parser.add_argument("--warm-up", type=int, default=5, metavar="N",
                        help="updates before that (default: 5)")
    parser.add_argument("--quick", action="store_true", help="8 rounds of 1024 tokens")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where bench/train_turns is, and where compare-training.json, .svg "
                        "and .md go (default: build)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.warm_up, arguments.batch_tokens = 8, 2, 1024
    if not (arguments.build / "bench" / "train_turns").exists():
        parser.error(f"{arguments.build}/bench/train_turns does not exist: run "
                     "`make compare-training`")
    return arguments


def main():
    """Returns 1 if a contender does not learn."""
    arguments = parse_arguments()
    note = tame_onednn()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = arguments.data
        if data is None:
            data = Path(folder) / "pairs.tsv"
            write_made_up_pairs(data)
        for threads in arguments.threads:
            place = Path(folder) / str(threads)
            place.mkdir()
            found, details = measure(arguments, data, threads, place)
            rows.append(found)
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs; multihead at level {details['level']}, by "
             f"default {details['default']}; PyTorch {torch.__version__}.")
    if note:
        about += f" Note: {note}."
    print(f"\n{about}")
    compare_speeds.write_files(arguments.build, "compare-training", rows, about, details)
    wrong = sorted({name for found in rows for name in found["wrong"]})
    if wrong:
        say(f"WRONG: does not learn: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
