# SPDX-License-Identifier: MIT
"""Translation with the model that ships with the sources: the command's texts and bits."""
import pickle

import numpy as np
import pytest

import multihead as mh

TEXTS = ["Bonjour !", "Il fait beau aujourd'hui.", "Le chat dort sur le canapé.", ""]


def ask(command, *arguments):
    return command("translate", "-m", "models/fr-en", "--dtype", "f32", *arguments)


def test_texts(translator, command):
    found = translator.translate(TEXTS)
    assert [str(t) for t in found] == ask(command, *TEXTS).split("\n")[:-1]
    assert translator.translate(TEXTS[1]) == found[1]
    assert translator.translate([]) == []
    assert translator.translate(iter(TEXTS)) == found


@pytest.mark.parametrize("options, arguments", [
    ({}, []),
    ({"num_beams": 1}, ["--beam", 1]),
    ({"num_beams": 8, "length_penalty": 0.5}, ["--beam", 8, "--length-penalty", 0.5]),
    ({"n_best": 6}, ["--n-best", 6]),
    ({"max_length_factor": 0.1, "max_length_constant": 20}, ["--max-length-factor", 0.1]),
    ({"batch": 1}, ["--batch", 1]),
    ({"disabled_heads": [("cross", 0, 3), ("enc", 2)]},
     ["--disable-head", "cross.0.3", "--disable-head", "enc.2"]),
])
def test_options(translator, command, options, arguments):
    found = translator.translate(TEXTS[:3], **options)
    expected = ask(command, *TEXTS[:3], "--json", *arguments)
    for ranks, line in zip(found, expected):
        ranks = [ranks] if isinstance(ranks, str) else ranks
        assert len(ranks) == len(line["translations"])
        for t, e in zip(ranks, line["translations"]):
            assert t == e["text"] and t.tokens == e["tokens"] and "".join(t.tokens) == t
            assert abs(t.score - e["score"]) < 1e-6 and abs(t.logprob - e["log_probability"]) < 1e-6


def test_given_target(translator, command):
    found = translator.translate(TEXTS[1], "The weather is nice today.")
    expected, = ask(command, TEXTS[1], "--target", "The weather is nice today.", "--json")
    expected = expected["translations"][0]
    assert np.allclose(found.token_logprobs, expected["token_log_probabilities"], atol=1e-6)
    assert abs(sum(found.token_logprobs) - found.logprob) < 1e-9
    best = translator.translate(TEXTS[1])
    again = translator.translate(TEXTS[1], str(best))
    assert abs(again.score - best.score) < 1e-5
    with pytest.raises(ValueError, match="target: found 1 texts, expected 2"):
        translator.translate(TEXTS[:2], ["one"])
    with pytest.raises(TypeError, match="target"):
        translator.translate(TEXTS[:2], "one")


def test_attention(translator, command):
    found = translator.translate(TEXTS[2], attention=True)
    assert found.attention.shape == (len(found.tokens), len(found.source_tokens))
    assert np.allclose(found.attention.sum(1), 1, atol=1e-5)
    assert "".join(found.source_tokens) == TEXTS[2]
    layer = translator.translate(TEXTS[2], attention=True, alignment_layer=1)
    assert not np.allclose(layer.attention, found.attention)
    assert translator.translate(TEXTS[2]).attention is None


def test_a_translation_is_a_string(translator):
    found = translator.translate(TEXTS[1], attention=True)
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.score == found.score
    assert np.array_equal(again.attention, found.attention)
    assert isinstance(again, mh.Translation) and "{}".format(found) == str(found)


def test_scores(command, tmp_path):
    hypotheses, references = ["the cat sat on the mat", "hello"], ["the cat sat on a mat", "Hello!"]
    (tmp_path / "h").write_text("\n".join(hypotheses) + "\n")
    (tmp_path / "r").write_text("\n".join(references) + "\n")
    bleu, chrf, chrf_words = command("score", "--ref", tmp_path / "r", tmp_path / "h", "--metric",
                                     "all", "--width", 6, "--json")
    found = mh.bleu(hypotheses, references)
    assert abs(found.score - bleu["score"]) < 1e-5
    assert abs(mh.chrf(hypotheses, references) - chrf["score"]) < 1e-5
    assert abs(mh.chrf(hypotheses, references, word_order=2) - chrf_words["score"]) < 1e-5
    assert mh.bleu(hypotheses, references, lowercase=True).score > found.score
    assert mh.bleu(hypotheses, [references, hypotheses]).score > 99
    sacrebleu = pytest.importorskip("sacrebleu")
    assert abs(sacrebleu.corpus_bleu(hypotheses, [references]).score - found.score) < 1e-9


@pytest.mark.parametrize("arguments, error, match", [
    (("",), ValueError, "hypotheses"), (([], []), ValueError, "references"),
    ((["a"], "a"), TypeError, "references"), ((["a"], ["a", "b"][:0]), ValueError, "references"),
    ((["a"], [["a", "b"]]), ValueError, "references"), ((["a"], [3]), TypeError, None),
])
def test_errors_of_scores(arguments, error, match):
    for score in (mh.bleu, mh.chrf):
        with pytest.raises((error, TypeError), match=match if len(arguments) > 1 else None):
            score(*arguments)
