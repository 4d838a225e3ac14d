# SPDX-License-Identifier: MIT
"""Compares `multihead score` with sacreBLEU, to the last of ten digits.

    check_scores.py MULTIHEAD [CORPUS.tsv]     CORPUS: lines of sentences separated by tabs

Corpora of random pieces of text, with one to three references, and, if there is one, a real one with
words dropped and put in.
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from sacrebleu.metrics import BLEU, CHRF

WIDTH = 10
PIECES = ["the", "The", "cat", "CAT", "chat", "l'\u00e9t\u00e9", "\u00c9T\u00c9", "3.14", "1,000", "2-3", "10-", "a.", ",b", ".", ",", "...", "!",
          "?!", "(x)", "\"q\"", "'s", "don't", "&amp;", "&lt;b&gt;", "&quot;", "<skipped>", "$5", "50%", "a/b", "x_y", "\u00ab",
          "\u00bb", "\u2026", "\u2019", "\u00a0", "\u2003", "\t", "  ", "\u200b", "\u4f60\u597d\u3002", "\U0001f600", "e\u0301", "\u039f\u0394\u039f\u03a3",
          "\u03a3\u03a3", "\u0130", "\u00df", "-", "--", "~", "`", "{}", "[]", "\\", "^"]


def ours(command, folder, hypotheses, references, lowercase):
    paths = []
    for i, lines in enumerate([hypotheses] + references):
        path = pathlib.Path(folder, f"{i}.txt")
        path.write_bytes("".join(line + "\n" for line in lines).encode())
        paths.append(str(path))
    arguments = [command, "score", "--metric", "all", "--width", str(WIDTH)] + ["--lowercase"] * lowercase
    for path in paths[1:]:
        arguments += ["--ref", path]
    out = subprocess.run(arguments + [paths[0]], stdout=subprocess.PIPE, check=True).stdout.decode()
    return re.sub(r"\|version:\S+", "", out).splitlines()


def theirs(hypotheses, references, lowercase):
    lines = []
    for metric in (BLEU(lowercase=lowercase, force=True), CHRF(lowercase=lowercase),
                   CHRF(word_order=2, lowercase=lowercase)):
        score = metric.corpus_score(hypotheses, references)
        lines.append(re.sub(r"\|version:\S+", "", score.format(WIDTH, False, str(metric.get_signature()))))
    return lines


def random_line(rng):
    return "".join(rng.choice(PIECES) + rng.choice(["", " ", " "]) for _ in range(rng.randrange(14)))


def changed(rng, line):
    words = line.split(" ")
    if rng.random() < 0.5 and len(words) > 1:
        words.pop(rng.randrange(len(words)))
    if rng.random() < 0.4:
        words.insert(rng.randrange(len(words) + 1), rng.choice(PIECES))
    return " ".join(words)


def main():
    rng = random.Random(1)
    corpora = []
    for _ in range(150):
        base = [random_line(rng) for _ in range(rng.choice([1, 2, 5, 20]))]
        references = [[changed(rng, line) for line in base] for _ in range(rng.randint(1, 3))]
        corpora.append(([changed(rng, line) for line in base], references))
    if len(sys.argv) > 2:
        text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
        for column in (0, 1):
            real = [line.split("\t")[column] for line in text]
            corpora.append(([changed(rng, line) for line in real], [real]))
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (hypotheses, references) in enumerate(corpora):
            for lowercase in (False, True):
                found = ours(sys.argv[1], folder, hypotheses, references, lowercase)
                expected = theirs(hypotheses, references, lowercase)
                for a, b in zip(found, expected, strict=True):
                    if a != b:
                        failures += 1
                        print(f"scores: corpus {number}: found {a}\n    expected {b}", file=sys.stderr)
    if not failures:
        print(f"scores: BLEU, chrF2, chrF2++ of {2 * len(corpora)} corpora as in sacreBLEU, {WIDTH} digits")
    return failures > 0


sys.exit(main())
