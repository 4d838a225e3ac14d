# SPDX-License-Identifier: MIT
"""Traces and views: the command's weights, tokens and pages."""
import gc
import html
import re
import xml.etree.ElementTree

import numpy as np
import pytest

import multihead as mh

TEXT = "Le chat noir dort."


def weights(seed, *shape):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


@pytest.fixture(scope="module")
def trace(translator):
    return translator.look(TEXT)


def test_look_is_the_commands(trace, command, tmp_path):
    path = tmp_path / "trace.safetensors"
    command("look", "-m", "models/fr-en", TEXT, "--trace-out", path)
    expected = mh.Trace.load(path)
    assert trace.kinds == expected.kinds == ["encoder.self", "decoder.self", "cross"]
    assert trace.title == expected.title == TEXT and trace.model == expected.model == "fr-en"
    for kind in trace.kinds:
        assert trace[kind].query_tokens == expected[kind].query_tokens
        assert trace[kind].key_tokens == expected[kind].key_tokens
        for field in ("weights", "q", "k", "v", "out"):
            ours, theirs = getattr(trace[kind], field), getattr(expected[kind], field)
            assert ours.shape == theirs.shape and np.abs(ours - theirs).max() < 2e-5, (kind, field)


def test_heads_are_the_commands(translator, command, tmp_path):
    """Over many texts: the figures of `multihead heads`, with given translations and without."""
    pairs = {"Le chat noir dort.": "The black cat is sleeping.", "Tom parle français.": "Tom speaks French."}
    path = tmp_path / "pairs.tsv"
    for target, lines in ((list(pairs.values()), [f"{s}\t{t}" for s, t in pairs.items()]), (None, list(pairs))):
        path.write_text("\n".join(lines) + "\n")
        (expected,) = command("heads", "-m", "models/fr-en", "--dtype", "f32", "--input", path, "--json")
        found = translator.heads(list(pairs), target)
        assert list(found) == [group["kind"] for group in expected["groups"]]
        for group in expected["groups"]:
            ours = found[group["kind"]]
            shape = group["layers"], group["heads"]
            assert ours["queries"] == group["queries"] and set(ours["weights"]) == set(ours["uniform"]) == set(group["uniform"])
            assert ours["uniform_distance"] == pytest.approx(group["uniform_distance"], rel=1e-6)
            for name, uniform in group["uniform"].items():
                theirs = np.array([f["weights"][name] for f in group["figures"]]).reshape(shape)
                assert np.abs(ours["weights"][name] - theirs).max() < 1e-5 and ours["uniform"][name] == pytest.approx(uniform, rel=1e-6)
            for name in ("entropy", "distance"):
                assert np.abs(ours[name] - np.array([f[name] for f in group["figures"]]).reshape(shape)).max() < 1e-4
            named = [f["pattern"] or ("broad" if f["entropy"] >= 0.85 else "mixed") for f in group["figures"]]
            assert ours["names"] == np.array(named).reshape(shape).tolist()
    far = translator.heads("Le chat noir dort sur le tapis.", far=1)["encoder.self"]["weights"]["far"]
    assert (far > translator.heads("Le chat noir dort sur le tapis.", far=4)["encoder.self"]["weights"]["far"]).all()


def test_heads_refuse(translator):
    language_model = mh.load("en-lm")
    assert list(language_model.heads(["The cat sat on the mat."])) == ["decoder.self"]
    vision = mh.load("fashion-vit")
    pictures = np.random.default_rng(1).integers(0, 255, (2, 28, 28, 3), np.uint8)
    assert vision.heads(pictures)["encoder.self"]["weights"]["neighbours"].shape == (5, 4)
    with pytest.raises(ValueError, match="texts: found none"):
        translator.heads([])
    with pytest.raises(ValueError, match="target: expected None"):
        language_model.heads(["The cat"], ["The cat"])
    with pytest.raises(ValueError, match="far: found 0"):
        translator.heads(["Oui."], far=0)
    with pytest.raises(ValueError, match="far: found -1"):
        translator.heads(["Oui."], far=-1)
    with pytest.raises(TypeError, match=r"texts\[1\]: found 3"):
        translator.heads(["Oui.", 3])
    with pytest.raises(ValueError):
        translator.heads(["Oui.", "Non."], ["Yes."])
    with pytest.raises(ValueError, match="tokens"):
        language_model.heads(["The cat.", "cat " * 600])


def test_saved_files(trace, command, tmp_path):
    trace.save(tmp_path / "a.safetensors")
    again = mh.Trace.load(tmp_path / "a.safetensors")
    for kind in trace.kinds:
        assert np.array_equal(again[kind].weights, trace[kind].weights)
    again.save(tmp_path / "b.html")
    command("view", "--trace", tmp_path / "a.safetensors", "-o", tmp_path / "c.html")
    page = (tmp_path / "b.html").read_text()
    assert page == (tmp_path / "c.html").read_text() == again.page()
    trace.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == trace.svg()
    with pytest.raises(ValueError, match="path"):
        trace.save(tmp_path / "a.png")
    with pytest.raises(OSError):
        trace.save(tmp_path / "no" / "a.html")


def test_text_is_the_commands(trace, command, tmp_path):
    trace.save(tmp_path / "a.safetensors")
    for options in ({}, {"layer": 1}, {"layer": 0, "head": 2}, {"kind": "encoder", "width": 60}):
        arguments = [x for name, value in options.items() for x in (f"--{name}", value)]
        shown = command("view", "--trace", tmp_path / "a.safetensors", "--text",
                        *([] if "width" in options else ["--width", 80]), *arguments)
        assert trace.text(**options) == shown


def test_weights_and_tokens(trace, translator):
    cross = trace["cross"]
    assert trace.weights is cross.weights and cross.weights.shape[:2] == (3, 4)
    assert trace.tokens == cross.key_tokens and trace.tokens[-1] == "</s>"
    assert trace.target_tokens == cross.query_tokens
    assert np.allclose(cross.weights.sum(-1), 1, atol=1e-5)
    scores = np.einsum("lhte,lhse->lhts", cross.q, cross.k) / np.sqrt(cross.q.shape[-1])
    own = np.exp(scores - scores.max(-1, keepdims=True))
    assert np.abs(own / own.sum(-1, keepdims=True) - cross.weights).max() < 1e-5
    given = translator.look(TEXT, target="A cat.")
    assert "".join(given.target_tokens[:-1]).replace("\u2581", " ") == "A cat."
    with pytest.raises(KeyError, match="encoder.self, decoder.self, cross"):
        trace["attention"]
    with pytest.raises(ValueError, match="read-only"):
        cross.weights[...] = 0


def test_arrays_outlive_the_trace(translator):
    found = translator.look(TEXT).weights
    before = found.copy()
    gc.collect()
    translator.look("Bonjour !")
    assert np.array_equal(found, before)


def test_links_are_the_commands(downloaded, command):
    model = downloaded("all-MiniLM-L6-v2")
    text = "The cat that I saw ran away"
    found = model.look(text).links("cat", "ran")
    expected, = command("look", "-m", model.path, text, "--link", "cat,ran", "--json")
    for ours, theirs in zip(found, expected["heads"]):
        assert (ours.layer, ours.head) == (theirs["layer"], theirs["head"])
        assert abs(ours.forward - theirs["forward"]) < 1e-6
        assert abs(ours.backward - theirs["backward"]) < 1e-6
    with pytest.raises(ValueError, match="dog"):
        model.look(text).links("cat", "dog")
    pair = model.look("The cat", "ran away")
    assert pair.tokens.count("[SEP]") == 2
    off = model.look(text, disabled_heads=[0, (1, 3)])
    assert not np.allclose(off.weights[2], model.look(text).weights[2])
    assert np.allclose(off.weights[0], model.look(text).weights[0], atol=1e-6)


@pytest.mark.parametrize("tokens, words", [
    (["cat", "\u0120cat", "\u0120ran"], ("cat", "cat")),  # the first token has no mark
    (["\u2581", "42", "\u2581ran"], ("42", "ran")),  # a mark is a token of its own
])
def test_links_of_marked_tokens(tokens, words):
    link = mh.view(np.eye(3, k=1), tokens, kind="encoder").links(*words)[0]
    assert (link.forward, link.backward) == (1, 0)


def test_generations(downloaded):
    model = downloaded("SmolLM2-135M-Instruct-GGUF")
    made = model.generate("Gravity is", max_new_tokens=4)
    seen = model.look(made)
    assert seen.tokens == [model.tokenizer.token(i) for i in [*made.prompt_ids, *made.ids]]
    assert seen.kinds == ["decoder.self"] and seen.title == "Gravity is" + made
    text = model.look("Gravity is" + made)
    assert np.array_equal(seen.weights, text.weights)


# ---- arrays of one's own -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 6), (2, 4, 6), (3, 2, 4, 6)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_view(shape, dtype):
    given = weights(0, *shape).astype(dtype)
    found = mh.view(given, "a b c d".split(), keys="u v w x y z".split(), title="mine")
    assert np.array_equal(found.weights, given.reshape((1,) * (4 - len(shape)) + shape))
    assert found.weights.dtype == dtype
    assert found.target_tokens == list("abcd") and found.tokens == list("uvwxyz")
    assert found.title == "mine" and "mine" in found.page() and "uvwxyz"[3] in found.text()


def test_view_of_other_forms():
    torch = pytest.importorskip("torch")
    layers = [torch.from_numpy(weights(i, 1, 2, 5, 5)) for i in range(3)]  # transformers' attentions
    found = mh.view(tuple(layers), ["a"] * 5)
    assert np.array_equal(found.weights, torch.cat(layers).numpy())
    half = mh.view(layers[0].bfloat16().requires_grad_(), kind="decoder")
    assert half.kinds == ["decoder.self"] and np.allclose(half.weights, layers[0], atol=1e-2)
    batch = mh.view(weights(0, 4, 2, 5, 5), batch=True)
    assert batch["attention"].sequences and "text 3" in batch.svg()
    assert mh.view(weights(0, 5, 5).tolist()).weights.shape == (1, 1, 5, 5)
    steps = mh.view(weights(0, 2, 5, 5), q=weights(1, 2, 5, 8), k=weights(2, 1, 5, 8),
                    v=weights(3, 1, 5, 8), out=weights(4, 5, 16), mask=np.tri(5), scale=0.5)
    group = steps["attention"]
    assert group.q.shape == (1, 2, 5, 8) and group.k.shape == (1, 1, 5, 8) and group.scale == 0.5
    assert group.out.shape == (1, 5, 16) and np.array_equal(group.mask, np.tri(5))


def test_warnings_are_logged(caplog):
    mh.view(np.ones((2, 2)))
    assert [r.name for r in caplog.records] == ["multihead"] and "sum" in caplog.text
    with caplog.at_level("WARNING"):
        caplog.clear()
        mh.view(np.eye(2))
        assert not caplog.records


@pytest.mark.parametrize("arguments, match", [
    ((None,), "weights"), (("abc",), "could not convert|weights"), ((np.ones(3),), "weights"),
    ((np.ones((1,) * 5),), "weights"), ((np.zeros((0, 3)),), "elements"), (([],), "weights"), (([np.ones((2, 1, 3, 3))],), "batches"),
    ((-np.eye(3),), "found -1"), ((np.eye(3) * np.nan,), "nan"), ((np.eye(3), ["a"]), "1 token"),
])
def test_errors_of_view(arguments, match):
    with pytest.raises(ValueError, match=match):
        mh.view(*arguments)
    with pytest.raises(ValueError, match="kind"):
        mh.view(np.eye(3), kind="self")
    with pytest.raises(ValueError, match="together"):
        mh.view(np.eye(3), q=np.ones((1, 3, 4)))


# ---- what heads do ------------------------------------------------------------------------------


def test_heads():
    n = 8
    first = np.zeros((n, n)); first[:, 0] = 1
    cases = {
        "previous token": np.eye(n, k=-1) + first * (np.arange(n) == 0)[:, None],
        "next token": np.eye(n, k=1), "itself": np.eye(n), "first token": first,
        "end token": first[:, ::-1], "broad": np.full((n, n), 1 / n),
    }
    found = mh.view(np.stack(list(cases.values())), list("abcdefgh")).heads()
    assert [h.pattern for h in found] == list(cases)
    assert [h.head for h in found] == list(range(len(cases)))
    broad = found[-1]
    assert abs(broad.entropy - 3) < 1e-12 and abs(broad.itself - 1 / n) < 1e-12
    assert abs(broad.distance - np.abs(np.subtract.outer(np.arange(n), np.arange(n))).mean()) < 1e-12
    same = mh.view(np.tile(np.eye(4), (2, 2)) / 2, list("abcdabcd"))
    assert abs(same.heads()[0].same - 0.5) < 1e-12


# ---- pictures and notebooks ---------------------------------------------------------------------


def test_pictures(trace):
    for options in ({}, {"layer": 1}, {"layer": 1, "head": 2}, {"kind": "encoder"}):
        root = xml.etree.ElementTree.fromstring(trace.svg(**options))
        images = root.findall(".//{http://www.w3.org/2000/svg}image")
        expected = (1 if "layer" in options else 3) * (1 if "head" in options else 4)
        assert len(images) == expected
        assert not root.findall(".//{http://www.w3.org/2000/svg}script")
    labels = [t.text for t in xml.etree.ElementTree.fromstring(trace.svg(layer=0, head=0)).iter(
        "{http://www.w3.org/2000/svg}text")]
    assert set(trace.tokens) <= set(labels)
    with pytest.raises(ValueError, match="head: found 4, expected 0 to 3"):
        trace.svg(head=4)
    hostile = mh.view(np.eye(2), ["<script>alert(1)</script>", "&"], title='"><b>')
    xml.etree.ElementTree.fromstring(hostile.svg())
    assert "<script>alert" not in hostile.svg() + hostile.page()
    big = mh.view(weights(0, 300, 300))
    assert len(big.svg()) < 200_000


def test_a_picture_has_the_weights():
    """The image's pixels are the shades of the weights."""
    image = pytest.importorskip("PIL.Image")
    import base64
    import io

    given = np.array([[0, 1], [0.25, 0.75]], np.float32)
    data = re.search("base64,([^\"]+)", mh.view(given).svg()).group(1)
    pixels = np.array(image.open(io.BytesIO(base64.b64decode(data))))
    assert np.array_equal(pixels, np.rint(255 * np.sqrt(given)))


def test_notebooks(trace):
    shown = trace._repr_html_()
    document = html.unescape(re.search('srcdoc="([^"]*)"', shown).group(1))
    assert document == trace.page()
    assert re.search("connect-src 'none'", document) and "http" not in shown.split("srcdoc")[0]
    assert trace._repr_svg_().startswith("<svg")
    assert "image/svg+xml;base64," in shown  # where no script runs
