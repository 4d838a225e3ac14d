# SPDX-License-Identifier: MIT
"""Tokenizers: beside Hugging Face's, and round trips."""
import numpy as np
import pytest

import multihead as mh

TEXTS = ["Hello, world!", "Das schöne Café, 東京 🙂 x", "", "  two  spaces ", "I'll 123 4567"]


@pytest.fixture(scope="module")
def trained():
    return mh.Tokenizer.train(TEXTS * 3, merges=30)


def test_round_trip(trained, tmp_path):
    trained.save(tmp_path / "tokenizer.json")
    again = mh.Tokenizer(tmp_path / "tokenizer.json")
    assert len(again) == len(trained) == 3 + 256 + 30
    for text in TEXTS:
        encoding = trained.encode(text)
        assert trained.decode(encoding.ids) == text
        assert again.encode(text) == encoding
        assert [trained.token(id) for id in encoding.ids] == encoding.tokens
        assert [trained.id(token) for token in encoding.tokens] == encoding.ids
        assert b"".join(trained.token_bytes(id) for id in encoding.ids).decode() == text
    assert trained.encode(TEXTS) == [trained.encode(text) for text in TEXTS]
    assert trained.special_ids == {"pad": 0, "bos": 1, "eos": 2}
    assert trained.token(10**6) is None and trained.id("nowhere") is None


def test_beside_tokenizers(trained, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    trained.save(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        ours, expected = trained.encode(text), theirs.encode(text)
        assert ours.ids == expected.ids and ours.tokens == expected.tokens
        assert ours.offsets == expected.offsets and ours.types == expected.type_ids


def test_pairs_beside_tokenizers(downloaded):
    tokenizers = pytest.importorskip("tokenizers")
    model = downloaded("all-MiniLM-L6-v2")
    theirs = tokenizers.Tokenizer.from_file(model.path + "/tokenizer.json")
    theirs.no_padding()
    theirs.no_truncation()
    for a, b in [("Hello", "wörld 🙂"), ("café", ""), ("", "x")]:
        ours, expected = model.tokenizer.encode(a, b), theirs.encode(a, b)
        assert ours.ids == expected.ids and ours.types == expected.type_ids
        assert ours.offsets == expected.offsets and ours.special == expected.special_tokens_mask
    short = model.tokenizer.encode("one two three four five", max_length=4)
    assert short.truncated and len(short.ids) == 4
    assert model.tokenizer.encode("[MASK]", special_from_text=False).ids != (
        model.tokenizer.encode("[MASK]").ids)
    assert model.tokenizer.encode("a", add_special_tokens=False).tokens == ["a"]


def test_it_outlives_its_model(root):
    tokenizer = mh.load(root / "models" / "fr-en").tokenizer
    assert tokenizer.encode("un chat").tokens[-1] == "</s>"


@pytest.mark.parametrize("call, error", [
    (lambda t: t.encode(3), TypeError), (lambda t: t.encode(["a", 3]), TypeError),
    (lambda t: t.encode("a", ["b"]), TypeError), (lambda t: t.encode(["a"], ["b", "c"]), ValueError),
    (lambda t: t.encode("a\ud800"), ValueError), (lambda t: t.encode("a", max_length=-1), ValueError),
    (lambda t: t.decode([10**9]), ValueError), (lambda t: t.decode(["a"]), TypeError),
    (lambda t: t.decode("ab"), TypeError), (lambda t: t.decode([2**40]), ValueError),
    (lambda t: t.token("a"), TypeError), (lambda t: t.id(3), TypeError),
    (lambda t: mh.Tokenizer("/nowhere"), OSError), (lambda t: mh.Tokenizer.train("abc"), TypeError),
    (lambda t: mh.Tokenizer.train(["a"], merges=-1), ValueError),
    (lambda t: t.decode(np.zeros((2, 2))), TypeError),
])
def test_errors(trained, call, error):
    with pytest.raises(error):
        call(trained)
