# SPDX-License-Identifier: MIT
"""Compares tokenizers of every component with the tokenizers package, token by token.

    check_tokenizers.py PEER_TOKENIZERS [CORPUS.tsv [RANDOM_TEXTS]]

For each file of tokenizer_files.py: ids, offsets, types and words of single texts, pairs, truncated
texts and texts without special tokens; decoded texts, at once and token by token. The texts are the
corpus, sentences of many scripts, nasty ones, and random strings over the code points on which
utf8proc and the package's tables agree (tokenizer_texts.py).
"""
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import tokenizer_files
import tokenizer_texts


def records(texts):
    return b"".join(struct.pack("<I", len(t)) + t for t in (x.encode() for x in texts))


def split_records(data, element):
    at = 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        yield data[at:at + count * element]
        at += count * element


def ours(peer, verb, path, arguments, inputs):
    run = subprocess.run([peer, verb, path, *map(str, arguments)], input=inputs, stdout=subprocess.PIPE, check=True)
    return run.stdout


def encode(peer, path, how, texts, most=None):
    data = ours(peer, "encode", path, [how] + ([most] if most else []), records(texts))
    for record in split_records(data, 4):
        numbers = struct.unpack(f"<{len(record) // 4}i", record)
        yield [numbers[i:i + 5] for i in range(0, len(numbers), 5)]


def positions(text):
    """The character at each byte, and at the end."""
    if text.isascii():
        return None
    out = []
    for i, c in enumerate(text):
        out += [i] * len(c.encode())
    return out + [len(text)]


def compare(encoding, found, texts):
    """What differs between their encoding and ours, or None."""
    if [f[0] for f in found] != encoding.ids:
        return f"ids {[f[0] for f in found]} expected {encoding.ids} {encoding.tokens}"
    if [f[3] for f in found] != encoding.type_ids:
        return f"types {[f[3] for f in found]} expected {encoding.type_ids}"
    words = [-1 if w is None else w for w in encoding.word_ids]
    if [f[4] for f in found] != words:
        return f"words {[f[4] for f in found]} expected {words}"
    maps = [positions(t) for t in texts]
    offsets = []
    for f, sequence in zip(found, encoding.sequence_ids):
        where = maps[sequence or 0] if sequence is not None else None
        offsets.append((where[f[1]], where[f[2]]) if where else (f[1], f[2]))
    # their charsmap forgets that the first characters of a piece were removed
    removed = any(c in t for t in texts for c in "\u200b\x01")
    if offsets != encoding.offsets and not removed:
        return f"offsets {offsets} expected {encoding.offsets} {encoding.tokens}"
    return None


def sweep(peer, built, folder):
    """The code points that our tables and theirs disagree on: newer than the older of the two."""
    points = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000 and (p < 0x30000 or p >= 0xE0000) and p < 0xF0000]
    texts = [f"a{chr(p)}b {chr(p)}" for p in points]
    different = set()
    for name in ("bert uncased", "gpt2", "o200k", "normalizer NFKC", "normalizer NFD, StripAccents", "normalizer Lowercase",
                 "pre-tokenizer Whitespace", "pre-tokenizer Digits"):
        path = str(folder / "sweep.json")
        built[name].save(path)
        theirs = built[name].encode_batch_fast(texts)
        for point, expected, found in zip(points, theirs, encode(peer, path, "single", texts)):
            if [f[0] for f in found] != expected.ids:
                different.add(point)
    return different


class Checker:
    def __init__(self, peer):
        self.peer = peer
        self.failures = 0
        self.compared = 0

    def report(self, name, what, text, message):
        self.failures += 1
        if self.failures <= 40:
            print(f"tokenizers: {name}: {what} {text[:60]!r}: {message[:300]}", file=sys.stderr)

    def encodings(self, name, tokenizer, path, texts):
        tokenizer.no_padding()
        tokenizer.no_truncation()
        theirs = tokenizer.encode_batch(texts)
        for text, expected, found in zip(texts, theirs, encode(self.peer, path, "single", texts)):
            message = compare(expected, found, [text])
            self.compared += 1
            if message:
                self.report(name, "text", text, message)
        few = texts[:2000:4]
        theirs = tokenizer.encode_batch(few, add_special_tokens=False)
        for text, expected, found in zip(few, theirs, encode(self.peer, path, "bare", few)):
            message = compare(expected, found, [text])
            if message:
                self.report(name, "bare text", text, message)
        self.pairs(name, tokenizer, path, few)

    def pairs(self, name, tokenizer, path, texts):
        pairs = list(zip(texts, texts[7:]))
        flat = [t for pair in pairs for t in pair]
        for most in (None, 9, 12):
            if most:
                tokenizer.enable_truncation(most)
            theirs = tokenizer.encode_batch(pairs)
            for pair, expected, found in zip(pairs, theirs, encode(self.peer, path, "pair", flat, most)):
                message = compare(expected, found, pair)
                if message:
                    self.report(name, f"pair, {most}", " | ".join(pair), message)
        tokenizer.no_truncation()

    def decoded(self, name, tokenizer, path, rng):
        size = max(tokenizer.get_vocab().values()) + 1
        lists = [tokenizer.encode(t).ids for t in tokenizer_texts.SCRIPTS]
        lists += [[rng.randrange(size) for _ in range(rng.randrange(1, 30))] for _ in range(500)]
        data = b"".join(struct.pack(f"<I{len(ids)}i", len(ids), *ids) for ids in lists)
        for skip in ("skip", "keep"):
            theirs = [tokenizer.decode(ids, skip_special_tokens=skip == "skip") for ids in lists]
            found = [r.decode() for r in split_records(ours(self.peer, "decode", path, [skip], data), 1)]
            for ids, a, b in zip(lists, found, theirs):
                if a != b:
                    self.report(name, f"decode, {skip}", str(ids), f"{a!r} expected {b!r}")
            streamed = [r.decode() for r in split_records(ours(self.peer, "stream", path, [skip], data), 1)]
            for ids, a, b in zip(lists[:len(tokenizer_texts.SCRIPTS)], streamed, found):
                if a != b:
                    self.report(name, f"stream, {skip}", str(ids), f"{a!r} expected {b!r}")


def main():
    peer = sys.argv[1]
    rng = random.Random(1)
    folder = pathlib.Path(tempfile.mkdtemp())
    if len(sys.argv) > 2:
        lines = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")
        corpus = [t for line in lines for t in line.split("\t") if t]
    else:
        corpus = tokenizer_texts.made_up(rng)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
    checker = Checker(peer)
    built = tokenizer_files.build(corpus[:6000] + tokenizer_texts.SCRIPTS * 5)
    tokenizer_texts.EXCLUDED.update(sweep(peer, built, folder))
    (folder / "left_out.txt").write_text(tokenizer_texts.ranges(tokenizer_texts.EXCLUDED) + "\n")
    print(f"tokenizers: {len(tokenizer_texts.EXCLUDED)} code points, newer than one of the tables, are left out: "
          f"{folder / 'left_out.txt'}")
    random_texts = [tokenizer_texts.random_text(rng) for _ in range(count)]
    main_names = {"gpt2", "llama-3", "qwen2", "o200k", "bert uncased", "t5", "llama-2", "xlm-roberta", "clip", "bert cased"}
    for name, tokenizer in built.items():
        path = str(folder / (name.replace(" ", "_").replace(",", "") + ".json"))
        tokenizer.save(path)
        texts = tokenizer_texts.SCRIPTS + tokenizer_texts.NASTY
        share = len(random_texts) if name in main_names else len(random_texts) // 10
        checker.encodings(name, tokenizer, path, texts + corpus[:share // 2] + random_texts[:share])
        checker.decoded(name, tokenizer, path, rng)
    if not checker.failures:
        print(f"tokenizers: {len(built)} files, {checker.compared} texts as in tokenizers")
    else:
        print(f"tokenizers: {checker.failures} differences of {checker.compared} texts")
    return checker.failures > 0


if __name__ == "__main__":
    sys.exit(main())
