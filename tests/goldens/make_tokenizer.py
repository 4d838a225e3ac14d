# SPDX-License-Identifier: MIT
"""Makes tokenizer_corpus.txt, tokenizer.json and tokenizer_cases.json with the tokenizers package.

    python3 make_tokenizer.py        # needs tokenizers==0.23.3 from PyPI

The corpus is made up here. tokenizer.json is what their trainer learns from it, saved by them; the
cases are texts and the ids they give, with no text becoming a special token. test_tokenizer.c runs
the same.
"""
import itertools
import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
MERGES = 300
# the pattern of src/text/words.h
LETTERS = r"A-Za-z\x{C0}-\x{1FFF}\x{2070}-\x{2FFF}\x{3040}-\x{10FFFF}"
PATTERN = (f" ?[{LETTERS}]+(?:['\u2019][{LETTERS}]+)*| ?[0-9]{{1,3}}| ?[^ \\t\\r\\n0-9{LETTERS}]+"
           r"|[ \t\r\n]+(?![^ \t\r\n])|[ \t\r\n]+")
WHO = [("Le chat", "The cat"), ("L'\u00e9l\u00e8ve", "The pupil"), ("Ma s\u0153ur", "My sister"), ("Personne", "Nobody")]
DOES = [("ne dort pas", "doesn't sleep"), ("regarde la fen\u00eatre", "watches the window"),
        ("mange \u00e0 midi", "eats at noon"), ("a lu 12 livres", "has read 12 books")]
WHEN = [("aujourd'hui.", "today."), ("ce soir ?", "tonight?"), ("depuis l'\u00e9t\u00e9 !", "since summer!")]
CASES = [
    "", " ", "   ", "\n", "\r\n", "a\r\nb", "\tx", " \n x", "Le chat ne dort pas.", "The pupil doesn't sleep tonight?",
    "l'\u00e9t\u00e9 d\u2019ici", "e\u0301te\u0301", "e\u0301\u0323", "\u0301", "\u1100\u1161\u11a8", "\u212b \ufb01", "\0", "a\0\0b",
    "</s>", "<s>a<pad>", "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467", "\u200b\u200d\ufeff", "a\u00a0b\u202fc",
    "\u2581a \u0120 \u010a", "\ufffd\uffff\U0010ffff", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "12345,67 2024-01-02",
    "\"q\" 'q' \\ rock'n'roll '", "ab" * 500, "\u00e9" * 300, "!" * 100, " " * 100 + "x",
]


def main():
    corpus = [line for w, d, t in itertools.product(WHO, DOES, WHEN)
              for line in (f"{w[0]} {d[0]} {t[0]}", f"{w[1]} {d[1]} {t[1]}")]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=3 + 256 + MERGES, min_frequency=2, special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.encode_special_tokens = True
    cases = [{"text": text, "ids": tokenizer.encode(text).ids} for text in CASES]
    (HERE / "tokenizer_corpus.txt").write_text("\n".join(corpus) + "\n", encoding="utf-8")
    (HERE / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "tokenizer_cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


main()
