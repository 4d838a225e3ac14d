#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An n-gram model with modified Kneser-Ney smoothing, interpolated (Chen and Goodman, 1999), of the
tokens that a language model reads: the baseline that the model has to beat.

    trigram.py tokenizer.json train.txt valid.txt [ORDER]    # default: 3; needs the package tokenizers

Documents are separated by empty lines; each ends with </s>, before which it begins anew. Prints the
perplexity per token and the bits per byte of the text, as `multihead train --task lm` does.
"""
import collections
import math
import pathlib
import sys

from tokenizers import Tokenizer


def documents(tokenizer, path):
    """The ids of each document, </s> at both ends, and the bytes of the text."""
    texts = [t.strip("\n") for t in pathlib.Path(path).read_text(encoding="utf-8").split("\n\n") if t.strip()]
    end = tokenizer.token_to_id("</s>")
    tokenizer.no_truncation()
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [[end] + e.ids + [end] for e in encoded], sum(len(t.encode()) for t in texts)


class NGrams:
    def __init__(self, order, texts, words):
        self.order, self.words = order, words
        counts = [collections.Counter() for _ in range(order)]  # of the n-grams of each length
        for ids in texts:
            for i in range(1, len(ids)):
                for n in range(1, order + 1):
                    if i + 1 >= n:
                        counts[n - 1][tuple(ids[i + 1 - n:i + 1])] += 1
        for n in range(order - 1):  # below the longest: how many words an n-gram was seen after
            before = collections.Counter(gram[1:] for gram in counts[n + 1])
            first = {gram: count for gram, count in counts[n].items() if gram[0] == texts[0][0] and n > 0}
            counts[n] = before
            counts[n].update(first)  # nothing stands before a document's beginning
        self.counts = counts
        self.discounts = [self.find_discounts(c) for c in counts]
        self.totals = [collections.Counter() for _ in range(order)]
        self.left = [collections.Counter() for _ in range(order)]  # the mass that discounts free, by history
        for n, grams in enumerate(counts):
            for gram, count in grams.items():
                self.totals[n][gram[:-1]] += count
                self.left[n][gram[:-1]] += self.discounts[n][min(count, 3)]

    @staticmethod
    def find_discounts(counts):
        n = collections.Counter(min(c, 5) for c in counts.values())
        if not all(n[k] for k in (1, 2, 3, 4)):
            sys.exit(f"too little text: found {dict(n)} n-grams per count, expected some of each up to 4")
        y = n[1] / (n[1] + 2 * n[2])
        return [0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]

    def probability(self, gram):
        p = 1 / self.words
        for n in range(len(gram)):
            part = gram[len(gram) - 1 - n:]
            total = self.totals[n].get(part[:-1], 0)
            if total:
                count = self.counts[n].get(part, 0)
                p = (max(count - self.discounts[n][min(count, 3)], 0) + self.left[n][part[:-1]] * p) / total
        return p


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    order = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    trained, _ = documents(tokenizer, sys.argv[2])
    model = NGrams(order, trained, tokenizer.get_vocab_size())
    held_out, size = documents(tokenizer, sys.argv[3])
    log, tokens = 0.0, 0
    for ids in held_out:
        for i in range(1, len(ids)):
            log -= math.log(model.probability(tuple(ids[max(0, i + 1 - order):i + 1])))
            tokens += 1
    print(f"order {order}: {sum(len(t) - 1 for t in trained)} tokens; held out {tokens} tokens: "
          f"perplexity {math.exp(log / tokens):.2f}, {log / math.log(2) / size:.4f} bits per byte")


if __name__ == "__main__":
    main()
