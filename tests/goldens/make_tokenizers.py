# SPDX-License-Identifier: MIT
"""Makes tokenizers.json and tokenizer.spm with the tokenizers and sentencepiece packages.

    python3 make_tokenizers.py        # needs tokenizers==0.23.3 and sentencepiece==0.2.3 from PyPI

tokenizers.json: for every component a tokenizer of tests/peers/tokenizer_files.py, trained on a few
sentences, and for some texts its ids, offsets in bytes, types, words and decoded text; a second text
makes a pair. test_tokenizers_golden.c runs the same.
"""
import json
import pathlib
import sys
import tempfile

import sentencepiece

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import tokenizer_files  # noqa: E402
import tokenizer_texts  # noqa: E402

CORPUS = ["The cat doesn't sleep; it's 12 o'clock.", "The cats sleep all day long!", "Le chat n'a pas mang\u00e9 aujourd'hui.",
          "L'\u00e9l\u00e8ve regarde la fen\u00eatre.", "The day is long, the other days are longer.", "ab abc abcd, 2024-01-02"] * 3
TEXTS = ["The cat doesn't sleep at 12:34!", " l'\u00e9t\u00e9  e\u0301te\u0301 \u4f60\u597d\n\n x", "ab abc [Day] the.day <l> <mask> <|endoftext|></s>", "\ufb01 \U0001f600 \u2581a\u00a0b"]
SMALL = ["The CAT's 5 days", ""]


def case(tokenizer, text, pair=None):
    encoding = tokenizer.encode(text, pair) if pair is not None else tokenizer.encode(text)
    texts = [text, pair]
    offsets = []
    for (begin, end), sequence in zip(encoding.offsets, encoding.sequence_ids):
        whole = texts[sequence] if sequence is not None else ""
        offsets.append([len(whole[:begin].encode()), len(whole[:end].encode())])
    out = {"text": text, "ids": encoding.ids, "offsets": offsets, "types": encoding.type_ids,
           "words": [-1 if w is None else w for w in encoding.word_ids], "decoded": tokenizer.decode(encoding.ids)}
    if pair is not None:
        out["pair"] = pair
    return out


def main():
    entries = []
    for name, tokenizer in tokenizer_files.build(CORPUS).items():
        tokenizer.no_padding()
        texts = TEXTS if not name.startswith(("pre-tokenizer", "normalizer")) else TEXTS[:2]
        cases = [case(tokenizer, text) for text in texts + SMALL] + [case(tokenizer, TEXTS[0], TEXTS[1])]
        entries.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "cases": cases})
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    (HERE / "tokenizers.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")

    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "corpus.txt").write_text("\n".join(CORPUS[:6] + tokenizer_texts.SCRIPTS[:2]), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / "m"), vocab_size=90,
                                             minloglevel=2, normalization_rule_name="identity", hard_vocab_limit=False)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    (HERE / "tokenizer.spm").write_bytes((folder / "m.model").read_bytes())
    cases = [{"text": t, "ids": model.encode(t)} for t in CORPUS[:6] + ["  a  cat ", "\u4f60 the", ""]]
    (HERE / "tokenizer_spm_cases.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


main()
