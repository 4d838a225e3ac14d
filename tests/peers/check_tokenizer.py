# SPDX-License-Identifier: MIT
"""Compares our tokenizer with the tokenizers package, id by id.

    check_tokenizer.py PEER_TEXT [CORPUS.tsv]     CORPUS: lines of sentences separated by tabs

A vocabulary that we learn is the one their trainer learns; they load our tokenizer.json, and give
the same ids for the corpus, nasty texts and random ones, and the same texts for random ids.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

MERGES = 1000
NASTY = [
    "", " ", "  ", "\n", "\r\n", "a\r\nb\r\n", "\t\t x", " \n x", "x  ", "\0", "a\0b \0\0", "\x7f\x1b[2J",
    "</s>", "<s>a</s><pad>", "<s", " </s>", "l'homme d\u2019ici aujourd'hui 'quoted' rock'n'roll '",
    "12345 1.234,56 2024-01-02 3\u00bd", "e\u0301", "\u00e9", "e\u0323\u0301", "e\u0301\u0323", "\u0301", "\u0301a",
    "\u1100\u1161\u11a8", "\uac01", "\u212b \u2126 \ufb01", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u200b\u200c\u200d\ufeff", "a\u00a0b\u202fc \u2003d", "\u2581\u2581 \u2581a", "\u0120 \u010a \u0100",
    "\ufffd\uffff\U0010ffff", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u0645\u0631\u062d\u0628\u0627", "\u00ab ok \u00bb\u2026",
    "a" * 1_000_000, "ab" * 500_000, "\u00e9" * 300_000, " " * 1_000_000, "!" * 1_000_000, "7" * 100_000,
    "a'" * 200_000, "\u0301\u0323" * 100, "x" + "\u0323\u0301" * 50_000, "word " * 200_000,
]


def records(texts):
    return b"".join(struct.pack("<I", len(t)) + t for t in texts)


def split_records(data, element):
    at = 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        yield data[at:at + count * element]
        at += count * element


def ours(peer, verb, path, inputs, element):
    run = subprocess.run([peer, verb, path], input=inputs, stdout=subprocess.PIPE, check=True)
    return list(split_records(run.stdout, element))


def encode(peer, path, texts):
    raw = ours(peer, "encode", path, records([t.encode() for t in texts]), 4)
    return [list(struct.unpack(f"<{len(r) // 4}i", r)) for r in raw]


def decode(peer, path, lists):
    data = b"".join(struct.pack(f"<I{len(ids)}i", len(ids), *ids) for ids in lists)
    return [r.decode() for r in ours(peer, "decode", path, data, 1)]


def train_theirs(saved, texts, size):
    """The vocabulary that their trainer learns with the components of our file."""
    pattern = saved["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(t.to_str())["model"]


def random_text(rng):
    """Characters of all kinds, but no mark newer than Unicode 9, whose order their tables lack."""
    pools = [(0, 0x7F), (0x20, 0x17F), (0x300, 0x345), (0x2000, 0x206F), (0x3000, 0x30FF), (0xAC00, 0xD7A3),
             (0x1100, 0x11FF), (0x1F300, 0x1F64F), (0x900, 0x97F), (0, 0x10FFFF)]
    out = []
    for _ in range(rng.randrange(40)):
        c = chr(rng.randint(*rng.choice(pools)))
        old = any(low <= ord(c) <= high for low, high in pools[:9])
        if not 0xD800 <= ord(c) < 0xE000 and (old or unicodedata.combining(c) == 0):
            out.append(c)
    return "".join(out)


def main():
    peer = sys.argv[1]
    rng = random.Random(1)
    folder = pathlib.Path(tempfile.mkdtemp())
    corpus, path = folder / "corpus.tsv", str(folder / "tokenizer.json")
    if len(sys.argv) > 2:
        corpus = pathlib.Path(sys.argv[2])
    else:
        words = [rng.choice("bcdfglmnprst") + rng.choice("aeiou\u00e9") + rng.choice(["", "n", "s"]) for _ in range(300)]
        lines = ["\t".join(" ".join(rng.choices(words, k=9)) + "." for _ in "ab") for _ in range(3000)]
        corpus.write_text("\n".join(lines), encoding="utf-8")
    texts = [t for line in corpus.read_text(encoding="utf-8").split("\n") for t in line.split("\t")]
    subprocess.run([peer, "train", corpus, str(MERGES), path], check=True, stdout=subprocess.DEVNULL)
    saved = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    theirs = train_theirs(saved, texts, len(saved["model"]["vocab"]))
    failures = 0

    def check(what, found, expected):
        nonlocal failures
        if found != expected:
            failures += 1
            print(f"tokenizer: {what}: found {str(found)[:200]}, expected {str(expected)[:200]}", file=sys.stderr)

    check("vocabulary", saved["model"]["vocab"], theirs["vocab"])
    check("merges", saved["model"]["merges"], [" ".join(m) for m in theirs["merges"]])

    loaded = Tokenizer.from_file(path)
    loaded.encode_special_tokens = True  # no text becomes a special token
    inputs = texts + NASTY + [random_text(rng) for _ in range(20000)]
    found = encode(peer, path, inputs)
    for text, ids in zip(inputs, found):
        check(f"ids of {text[:40]!r}", ids, loaded.encode(text).ids)
    for text, back in zip(inputs, decode(peer, path, found)):
        check(f"round trip of {text[:40]!r}", back, normalizers.NFC().normalize_str(text))
    size = loaded.get_vocab_size()
    lists = [[rng.randrange(size) for _ in range(rng.randrange(30))] for _ in range(5000)]
    for ids, text in zip(lists, decode(peer, path, lists)):
        check(f"text of {ids}", text, loaded.decode(ids, skip_special_tokens=True))
    if not failures:
        print(f"tokenizer: {MERGES} merges, {len(inputs)} texts and {len(lists)} lists of ids as in tokenizers")
    return failures > 0


sys.exit(main())
