# SPDX-License-Identifier: MIT
"""Measures translating by the same model: multihead beside CTranslate2.

Both get the same weights, sentences, beam, length penalty and number of threads. Before they are
timed, their greedy translations are compared, token by token; less than 98 % of the same ones is
exit status 1. Each tries a few batch sizes, CTranslate2 also one worker of all threads and a worker
a thread, and keeps the fastest; then all take turns. Loading is not measured. Ours goes from text
to text, CTranslate2 from tokens to tokens.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import ctranslate2

import compare_speeds
import translation_models
from compare_run import Turns, cpu_model, positive_numbers, say

ROOT = Path(__file__).resolve().parent.parent
BEAMS = {"greedy": 1, "beam 5": 5}
PAIRS = [(f"multihead {ours}", f"ctranslate2 {theirs}")
         for ours in ("f32", "bf16") for theirs in ("f32", "int8")]
AGREEMENT = 0.98


# ---- contenders ------------------------------------------------------------------------------

class Ours:
    """run(beam, batch) gives seconds."""

    def __init__(self, arguments, sentences, precision, threads):
        self.turns = Turns(arguments.build / "bench" / "translate_turns", arguments.model,
                           sentences, precision, threads)
        self.ways = [{"batch": n} for n in arguments.batches]

    def run(self, beam, batch):
        """Translates all sentences."""
        return float(self.turns.ask(f"{beam} {batch} -")[0])

    def greedy_ids(self, file):
        """Lists of ids, by way of a file."""
        self.turns.ask(f"1 32 {file}")
        return [[int(word) for word in line.split()] for line in file.read_text().splitlines()]

    def close(self):
        """Ends the program."""
        self.turns.close()


class Theirs:
    """The same; `workers` of threads / workers threads each."""

    def __init__(self, arguments, model, tokens, compute_type, threads):
        self.tokens = tokens
        self.translators = {n: ctranslate2.Translator(
            str(model), compute_type=compute_type, inter_threads=n, intra_threads=threads // n)
            for n in sorted({1, threads})}
        self.ways = [{"batch": b, "workers": n} for n in self.translators
                     for b in arguments.batches]

    def translate(self, beam, batch, workers):
        """All sentences; CTranslate2 sorts them by length and cuts them into batches."""
        return self.translators[workers].translate_batch(
            self.tokens, beam_size=beam, max_batch_size=batch, length_penalty=1,
            max_decoding_length=256, disable_unk=True)

    def run(self, beam, batch, workers):
        """As ours."""
        start = time.perf_counter()
        self.translate(beam, batch, workers)
        return time.perf_counter() - start

    def greedy_ids(self, ids):
        """Lists of ids, by way of token -> id."""
        return [[ids[token] for token in result.hypotheses[0]]
                for result in self.translate(1, 32, 1)]

    def close(self):
        """Frees the translators."""
        self.translators.clear()


# ---- measuring -------------------------------------------------------------------------------

def agreement(ours, theirs):
    """The part of sentences with the same translation."""
    return sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)


def fastest_way(contender, beam):
    """Tries each once, after a warm-up."""
    contender.run(beam, **contender.ways[0])
    return min(contender.ways, key=lambda way: contender.run(beam, **way))


def take_turns(contenders, ways, beam, count, rounds):
    """{name: [sentences/s]}"""
    speeds = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            time.sleep(0.02)  # threads of the last one stop spinning
            speeds[name].append(count / contender.run(beam, **ways[name]))
    return speeds


def measure(arguments, contenders, case, threads, count):
    """The row of a beam and number of threads."""
    beam = BEAMS[case]
    ways = {name: fastest_way(contender, beam) for name, contender in contenders.items()}
    for name, way in ways.items():
        say(f"{case} x{threads}: {name} with {way}")
    speeds = take_turns(contenders, ways, beam, count, arguments.rounds)
    found = compare_speeds.row("translating", case, threads, "sentences/s", speeds, PAIRS)
    found["ways"] = ways
    compare_speeds.print_row(found)
    return found


def compare_outputs(contenders, ids, folder):
    """{name: part of sentences that it translates as our f32 does}"""
    found = {name: contender.greedy_ids(folder / "ids.txt" if isinstance(contender, Ours) else ids)
             for name, contender in contenders.items()}
    first = found["multihead f32"]
    return {name: agreement(first, other) for name, other in found.items()}


def measure_threads(arguments, sentences, ids, tokens, threads, folder):
    """The rows of a number of threads, the same translations, the level."""
    contenders = {f"multihead {precision}": Ours(arguments, sentences, precision, threads)
                  for precision in ("f32", "bf16")}
    level = contenders["multihead f32"].turns.ready[0]
    for name, compute_type in (("f32", "float32"), ("int8", "int8")):
        contenders[f"ctranslate2 {name}"] = Theirs(arguments, folder / "model", tokens,
                                                   compute_type, threads)
    same = compare_outputs(contenders, ids, folder)
    print(f"\ngreedy translations that are those of multihead f32, of {len(tokens)}:")
    for name, part in same.items():
        print(f"  {name:<18} {100 * part:6.1f} %")
    rows = [measure(arguments, contenders, case, threads, len(tokens)) for case in BEAMS]
    for contender in contenders.values():
        contender.close()
    return rows, same, level


# ---- the run ---------------------------------------------------------------------------------

def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare-translating",
                                     description=__doc__.split("\n", 1)[0])
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="DIR",
                        help="a model of `multihead train`, or a published Marian model")
    parser.add_argument("--input", type=Path, required=True, metavar="FILE",
                        help="a sentence a line; what follows a tab is not read")
    parser.add_argument("--sentences", type=int, default=1000, metavar="N",
                        help="how many of them (default: 1000)")
    parser.add_argument("--threads", type=positive_numbers, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--batches", type=positive_numbers, default=[16, 32, 64, 128],
                        metavar="N,...", help="batch sizes to try (default: 16,32,64,128)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="how often all take turns (default: 5)")
    parser.add_argument("--quick", action="store_true",
                        help="200 sentences, batches of 32 and 64, 3 rounds")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where bench/translate_turns is, and where compare-translating.json, "
                        ".svg and .md go (default: build)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sentences, arguments.batches, arguments.rounds = 200, [32, 64], 3
    if not (arguments.build / "bench" / "translate_turns").exists():
        parser.error(f"{arguments.build}/bench/translate_turns does not exist: run "
                     "`make compare-translating`")
    return arguments


def main():
    """Returns 1 if translations differ too often."""
    arguments = parse_arguments()
    model = translation_models.open_model(arguments.model)
    with arguments.input.open(encoding="utf-8") as file:
        texts = [line.rstrip("\n").split("\t")[0].strip() for line in file]
    texts = [text for text in texts if text][:arguments.sentences]
    tokens = model.tokens(texts)
    rows, same = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        version = model.convert(folder / "model")
        (folder / "sentences.txt").write_text("".join(text + "\n" for text in texts))
        for threads in arguments.threads:
            found, same[threads], level = measure_threads(
                arguments, folder / "sentences.txt", model.ids, tokens, threads, folder)
            rows += found
    about = (f"{cpu_model()}, {os.cpu_count()} CPUs; multihead at level {level}; "
             f"CTranslate2 {version}; {len(texts)} sentences.")
    print(f"\n{about}")
    compare_speeds.write_files(arguments.build, "compare-translating", rows, about,
                               {"same_as_multihead_f32": same})
    wrong = min(part["ctranslate2 f32"] for part in same.values()) < AGREEMENT
    if wrong:
        say(f"WRONG: fewer than {AGREEMENT:.0%} of translations are the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
