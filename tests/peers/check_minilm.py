# SPDX-License-Identifier: MIT
"""Embeddings of all-MiniLM-L6-v2 by `multihead embed` and by sentence-transformers: the cosine of each pair is at
least 1 - 1e-6.

    check_minilm.py MULTIHEAD MODEL [CORPUS.tsv]     CORPUS: lines of sentences separated by tabs, the last is English

1,000 texts: sentences of the corpus, or of random words; every tenth is 2 to 60 of them in a row, the longest beyond
the model's 256 tokens.
"""
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
from sentence_transformers import SentenceTransformer

COUNT = 1000
LEAST = 1 - 1e-6
WORDS = ("the a an my this old small river bank loan cat dog girl teacher train station yesterday tomorrow never often runs saw "
         "approved forgot reads writes understanding extraordinarily because although and of to in on 42 1984 3.14 Paris London "
         "na\u00efve caf\u00e9 Stra\u00dfe don't isn't e-mail").split()


def random_sentence(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 20))) + rng.choice(".?!")


def make_texts(corpus):
    rng = random.Random(1)
    if corpus:
        lines = pathlib.Path(corpus).read_text(encoding="utf-8").splitlines()
        sentences = [line.split("\t")[-1] for line in lines]
    else:
        sentences = [random_sentence(rng) for _ in range(2 * COUNT)]
    texts = rng.sample(sentences, COUNT)
    for i in range(0, COUNT, 10):
        texts[i] = " ".join(rng.sample(sentences, rng.randint(2, 60)))
    return texts


def ours(command, model, texts):
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder, "texts"), pathlib.Path(folder, "e.npy")
        source.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        subprocess.run([command, "embed", "-q", "-m", model, "--input", source, "--out", out], check=True)
        return numpy.load(out).astype(numpy.float64)


def cosines(a, b):
    return (a * b).sum(1) / numpy.sqrt((a * a).sum(1) * (b * b).sum(1))


def main(command, model, corpus=None):
    texts = make_texts(corpus)
    theirs = SentenceTransformer(model, device="cpu").encode(texts, batch_size=32).astype(numpy.float64)
    found = ours(command, model, texts)
    if found.shape != theirs.shape:
        sys.exit(f"minilm: found {found.shape}, expected {theirs.shape}")
    worst = cosines(found, theirs)
    at = int(worst.argmin())
    print(f"minilm: {COUNT} texts, sentence-transformers: smallest cosine 1 - {1 - worst[at]:.2g}, "
          f"largest difference {abs(found - theirs).max():.2g}")
    if not worst[at] >= LEAST:
        sys.exit(f"minilm: cosine {worst[at]:.9f}, expected at least {LEAST}: {texts[at]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
