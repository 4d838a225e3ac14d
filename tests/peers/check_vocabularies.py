# SPDX-License-Identifier: MIT
"""Compares tokenizers of directories without a tokenizer.json with those who made their files.

    check_vocabularies.py PEER_TOKENIZERS [CORPUS.tsv [GPT2.tiktoken]]

SentencePiece's models (unigram and BPE, with and without byte fallback, several normalisations), alone
and as Marian has them, with sentencepiece; vocab.txt and merges.txt with tokenizers; tiktoken's ranks
with tiktoken.
"""
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
from tokenizers import normalizers

import tokenizer_files
import tokenizer_texts
from check_tokenizers import encode


class Checker:
    def __init__(self, peer, texts):
        self.peer, self.texts = peer, texts
        self.failures = self.compared = 0

    def ids(self, name, path, expected, texts=None, how="single"):
        texts = self.texts if texts is None else texts
        for text, found, wanted in zip(texts, encode(self.peer, str(path), how, texts), expected):
            self.compared += 1
            found = [f[0] for f in found]
            if found != list(wanted):
                self.failures += 1
                if self.failures <= 20:
                    print(f"vocabularies: {name}: {text[:60]!r}: {found[:40]} expected {list(wanted)[:40]}", file=sys.stderr)


def train_spm(folder, name, texts, **options):
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(t.replace("\n", " ") for t in texts), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / name), minloglevel=2, num_threads=1,
        **{"hard_vocab_limit": options.get("model_type") == "bpe", **options})
    return folder / f"{name}.model"


def check_spm(checker, folder, corpus):
    variants = {
        "unigram": dict(vocab_size=2000), "unigram-bytes": dict(vocab_size=2300, byte_fallback=True, character_coverage=0.99),
        "unigram-identity": dict(vocab_size=2000, normalization_rule_name="identity", remove_extra_whitespaces=False),
        "unigram-nfkc-cf": dict(vocab_size=1500, normalization_rule_name="nfkc_cf", add_dummy_prefix=False),
        "bpe": dict(vocab_size=2000, model_type="bpe"),
        "bpe-llama": dict(vocab_size=2300, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, split_digits=True, character_coverage=0.99),
        "user": dict(vocab_size=1500, user_defined_symbols=["<sep>", "[x]"]),
    }
    for name, options in variants.items():
        path = train_spm(folder, name, corpus, **options)
        theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
        texts = [t for t in checker.texts if "\0" not in t]
        if "user" in name:  # a user's symbol is not normalised with what is around it
            texts = [t for t in texts if t.isprintable() and "  " not in t][:2000] + ["a<sep>b [x]c", "<sep>x"]
        checker.ids("sentencepiece " + name, path, theirs.encode(texts), texts)


def check_marian(checker, folder, corpus):
    source = train_spm(folder, "marian", corpus, vocab_size=1200)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(source))
    directory = folder / "marian-directory"
    directory.mkdir()
    (directory / "source.spm").write_bytes(source.read_bytes())
    (directory / "target.spm").write_bytes(source.read_bytes())
    pieces = [theirs.id_to_piece(i) for i in range(3, theirs.get_piece_size())]
    random.Random(3).shuffle(pieces)
    vocabulary = {"</s>": 0, "<unk>": 1, **{p: i + 2 for i, p in enumerate(pieces[:1000])}}
    vocabulary[">>fra<<"] = len(vocabulary)
    vocabulary["<pad>"] = len(vocabulary)
    (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    texts = [t for t in checker.texts if not any(s in t for s in ("</s>", "<unk>", "<pad>", ">>"))]
    expected = [[vocabulary.get(p, 1) for p in theirs.encode(t, out_type=str)] + [0] for t in texts]
    checker.ids("marian", directory, expected, texts)
    fra = vocabulary[">>fra<<"]
    checker.ids("marian, to a language", directory, [[fra] + e for e in expected[:500]], [">>fra<< " + t for t in texts[:500]])


def check_bert(checker, folder, corpus):
    trained = tokenizer_files.wordpiece(corpus, True)
    vocabulary = trained.get_vocab()
    directory = folder / "bert"
    directory.mkdir()
    names = sorted(vocabulary, key=vocabulary.get)
    (directory / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    checker.ids("vocab.txt", directory, [e.ids for e in trained.encode_batch(checker.texts)])
    (directory / "tokenizer_config.json").write_text(json.dumps(
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}))
    trained.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True, handle_chinese_chars=False)
    checker.ids("vocab.txt, cased", directory, [e.ids for e in trained.encode_batch(checker.texts)])


def save_bpe(tokenizer, directory, config):
    directory.mkdir()
    model = json.loads(tokenizer.to_str())["model"]
    (directory / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    (directory / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    (directory / "config.json").write_text(json.dumps(config))


def check_bpe(checker, folder, corpus):
    family = tokenizer_files.byte_level_family(corpus)
    kinds = {"gpt2": "gpt2", "roberta": "roberta", "clip": "clip", "qwen2": "qwen2"}
    for name, model_type in kinds.items():
        t = family[name]
        if name == "roberta":  # the mask is in the vocabulary
            def edit(data):
                data["model"]["vocab"]["<mask>"] = data["added_tokens"][-1]["id"]
            t = tokenizer_files.change(t, edit)
        directory = folder / name
        save_bpe(t, directory, {"model_type": model_type})
        texts = [x for x in checker.texts if "<|im_" not in x]
        checker.ids("merges.txt " + name, directory, [e.ids for e in t.encode_batch(texts)], texts)


def check_tiktoken(checker, folder, path):
    import base64
    import tiktoken
    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in path.read_text().splitlines() if line)}
    theirs = tiktoken.Encoding("gpt2", pat_str=r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
                               mergeable_ranks=ranks, special_tokens={"<|endoftext|>": len(ranks)})
    directory = folder / "tiktoken"
    directory.mkdir()
    (directory / "gpt2.tiktoken").write_bytes(path.read_bytes())
    checker.ids("tiktoken", directory, [theirs.encode(t, allowed_special="all") for t in checker.texts])


def main():
    rng = random.Random(2)
    folder = pathlib.Path(tempfile.mkdtemp())
    if len(sys.argv) > 2:
        lines = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")
        corpus = [t for line in lines for t in line.split("\t") if t][:5000]
    else:
        corpus = tokenizer_texts.made_up(rng)
    tokenizer_texts.old_only()
    texts = tokenizer_texts.SCRIPTS + tokenizer_texts.NASTY + corpus[:3000] + [tokenizer_texts.random_text(rng) for _ in range(5000)]
    checker = Checker(sys.argv[1], texts)
    check_spm(checker, folder, corpus)
    check_marian(checker, folder, corpus)
    check_bert(checker, folder, corpus)
    check_bpe(checker, folder, corpus)
    if len(sys.argv) > 3:
        check_tiktoken(checker, folder, pathlib.Path(sys.argv[3]))
    if not checker.failures:
        print(f"vocabularies: {checker.compared} texts as in sentencepiece, tokenizers and tiktoken")
    else:
        print(f"vocabularies: {checker.failures} differences of {checker.compared} texts")
    return checker.failures > 0


sys.exit(main())
