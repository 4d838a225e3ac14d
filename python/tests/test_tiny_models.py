# SPDX-License-Identifier: MIT
"""Models made here with transformers: embed, fill, classify and generate beside torch and the command."""
import numpy as np
import pytest

import multihead as mh

TEXTS = ["the cat sat on the mat", "a dog ran", "the the the dog on a mat sat and ran"]
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat and".split()


def transformers():
    module = pytest.importorskip("transformers")
    pytest.importorskip("torch").manual_seed(0)
    return module


def make(folder, kind, **config):
    """A folder with a model of random weights that are large enough to matter, and a tokenizer."""
    t = transformers()
    import torch

    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = t.BertTokenizerFast(str(folder / "vocab.txt"))
    made = getattr(t, kind)(getattr(t, kind.split("For")[0] + "Config")(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=32, **config)).eval()
    with torch.no_grad():
        for p in made.parameters():
            if p.ndim == 2:
                p.normal_(0, 0.4)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return made, tokenizer


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny-bert")
    return (*make(folder, "BertForMaskedLM"), mh.load(folder))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny-classifier")
    return (*make(folder, "BertForSequenceClassification", id2label={0: "good", 1: "bad", 2: "odd"},
                  label2id={"good": 0, "bad": 1, "odd": 2}), mh.load(folder))


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny-llama")
    return (*make(folder, "LlamaForCausalLM", num_key_value_heads=2, bos_token_id=None,
                  eos_token_id=None, tie_word_embeddings=False), mh.load(folder))


def test_embed(masked, command, tmp_path):
    theirs, tokenizer, ours = masked
    import torch

    with torch.no_grad():
        hidden = [theirs.bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
                  for text in TEXTS]
    expected = {"mean": lambda h: h.mean(0), "cls": lambda h: h[0], "last": lambda h: h[-1],
                "max": lambda h: h.max(0).values}
    for pooling, pool in expected.items():
        found = ours.embed(TEXTS, pooling=pooling)
        assert np.abs(found - torch.stack([pool(h) for h in hidden]).numpy()).max() < 1e-4
        assert np.array_equal(ours.embed(TEXTS[1], pooling=pooling), found[1])
    assert np.abs(ours.hidden(TEXTS[0]) - hidden[0].numpy()).max() < 1e-4
    assert np.allclose(np.linalg.norm(ours.embed(TEXTS, normalize=True), axis=1), 1, atol=1e-6)
    command("embed", "-m", ours.path, *TEXTS, "--out", tmp_path / "vectors.npy")
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), ours.embed(TEXTS))
    assert ours.embed([]).shape == (0, 32)


def test_fill(masked, command):
    theirs, tokenizer, ours = masked
    import torch

    text = "the [MASK] sat on a ____"
    found = ours.fill(text, top=4)
    encoded = tokenizer(text.replace("____", "[MASK]"), return_tensors="pt")
    with torch.no_grad():
        p = theirs(**encoded).logits[0].softmax(-1)
    for mask, row in zip(found, p[encoded.input_ids[0] == tokenizer.mask_token_id]):
        best = row.topk(4)
        assert [c.id for c in mask] == best.indices.tolist()
        assert np.allclose([c.probability for c in mask], best.values, atol=1e-5)
        assert [c.token for c in mask] == tokenizer.convert_ids_to_tokens(best.indices.tolist())
    line, = command("fill", "-m", ours.path, "--top", 4, "--json", text)
    shown = [[(c["token"], c["id"], "%.9g" % c["probability"], c["text"]) for c in m["candidates"]]
             for m in line["masks"]]
    assert [[(c.token, c.id, "%.9g" % c.probability, c.text) for c in m] for m in found] == shown
    assert ours.fill([text], top=4) == [found]
    with pytest.raises(ValueError, match="no mask"):
        ours.fill("no blank")


def test_classify(classifier, command):
    theirs, tokenizer, ours = classifier
    import torch

    for pair in (None, "a mat"):
        found = ours.classify(TEXTS, pair)
        lines = command("classify", "-m", ours.path, "--json", *TEXTS,
                        *([] if pair is None else ["--pair", pair]))
        for text, labels, line in zip(TEXTS, found, lines):
            with torch.no_grad():
                p = theirs(**tokenizer(text, pair, return_tensors="pt")).logits[0].softmax(-1)
            assert np.allclose([x.probability for x in labels], p[[x.id for x in labels]], atol=1e-5)
            assert [x.label for x in labels] == [theirs.config.id2label[x.id] for x in labels]
            shown = [(x["label"], "%.9g" % x["probability"]) for x in line["labels"]]
            assert [(x.label, "%.9g" % x.probability) for x in labels] == shown
    assert ours.classify(TEXTS[0], top=1) == ours.classify(TEXTS[0])[:1]
    with pytest.raises(TypeError, match="expected a string"):
        ours.classify(3)


def test_generate(causal):
    theirs, tokenizer, ours = causal
    import torch

    ids = [5, 7, 9]
    found = ours.generate(ids, max_new_tokens=12, ignore_eos=True)
    with torch.no_grad():
        expected = theirs.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False,
                                   pad_token_id=0, eos_token_id=-1)[0, 3:].tolist()
        logprobs = theirs(torch.tensor([ids + expected])).logits[0].log_softmax(-1)
    assert found.ids == expected
    own = [logprobs[len(ids) - 1 + i, id].item() for i, id in enumerate(expected)]
    assert np.allclose(found.logprobs, own, atol=1e-4)
    beams = ours.generate(ids, max_new_tokens=6, num_beams=3, ignore_eos=True)
    assert sum(beams.logprobs) >= sum(found.logprobs[:6]) - 1e-6


def test_info_is_the_commands(classifier, causal, command):
    for _, _, model in (classifier, causal):
        expected, = command("info", "-m", model.path, "--json")
        found = model.info()
        for name, value in expected.items():
            if name != "memory_bytes_f32":
                assert found[name] == value, name


def test_a_model_travels_by_its_path(causal):
    import pickle

    again = pickle.loads(pickle.dumps(causal[2]))
    assert again.generate([5, 7], max_new_tokens=3).ids == (
        causal[2].generate([5, 7], max_new_tokens=3).ids)


def test_looks_of_torch(masked):
    theirs, tokenizer, ours = masked
    import torch

    theirs.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = theirs.bert(**tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    found = ours.look(TEXTS[0])
    assert found.tokens[1:-1] == TEXTS[0].split()
    assert np.abs(found.weights - mh.view(attentions).weights).max() < 1e-5


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mh.load("nowhere")
    with pytest.raises(ValueError, match="dtype"):
        mh.load("models/fr-en", "f8")
    with pytest.raises(TypeError):
        mh.load(3)
    (tmp_path / "config.json").write_text('{"model_type": "unheard"}')
    with pytest.raises(ValueError, match="unheard"):
        mh.load(tmp_path)
