# SPDX-License-Identifier: MIT
"""Pictures: files and arrays give what the command gives; CLIP with labels; what is refused."""
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

import multihead as mh

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens"
RGB, GRAY, SMALL = (GOLDENS / "pictures" / name for name in ("rgb.ppm", "gray.pgm", "small.ppm"))
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
    "post_processor": {"type": "BertProcessing", "sep": ["<end>", 98], "cls": ["<start>", 97]},
    "model": {"type": "WordLevel", "unk_token": "?",
              "vocab": {"?": 0, "a": 1, "cat": 2, "dog": 3, "ship": 4, "<start>": 97, "<end>": 98}}}


def pixels(path):
    """The array of a PPM or PGM file of bytes."""
    data = path.read_bytes()
    head = re.match(rb"P[56]\s+(?:#[^\n]*\n)*(\d+)\s+(\d+)\s+255\s", data)
    return np.frombuffer(data[head.end():], np.uint8).reshape(int(head[2]), int(head[1]), -1).squeeze()


@pytest.fixture(scope="module")
def vit():
    return mh.load(GOLDENS / "models" / "vit", "f32")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    shutil.copytree(GOLDENS / "models" / "clip", folder, dirs_exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return mh.load(folder, "f32")


def same(ours, theirs):
    assert [x.label for x in ours] == [x["label"] for x in theirs["labels"]]
    np.testing.assert_allclose([x.probability for x in ours], [x["probability"] for x in theirs["labels"]], rtol=1e-6)


def test_classify(vit, command):
    expected = command("classify", "-m", vit.path, "--dtype", "f32", "--json", RGB, GRAY)
    for found, one in zip(vit.classify([RGB, str(GRAY)]), expected):
        same(found, one)
    for found, one in zip(vit.classify([pixels(RGB), pixels(GRAY)]), expected):
        same(found, one)
    same(vit.classify(str(RGB)), expected[0])
    assert vit.classify(pixels(RGB)) == vit.classify(RGB)
    assert vit.classify(pixels(RGB), top=1) == vit.classify(RGB)[:1]
    assert vit.classify(np.stack([pixels(RGB)] * 2)) == [vit.classify(RGB)] * 2
    assert vit.classify(pixels(GRAY)[..., None]) == vit.classify(GRAY)
    assert vit.classify([]) == []


def test_views_are_copied_and_pillow_converted(vit):
    array = pixels(RGB)
    assert vit.classify(array[::-1, ::2]) == vit.classify(np.ascontiguousarray(array[::-1, ::2]))
    image = pytest.importorskip("PIL.Image").open(RGB)
    assert vit.classify(image) == vit.classify(RGB)
    assert vit.classify(image.convert("RGBA")) == vit.classify(RGB)


def test_labels_of_clip(clip, command):
    labels = ["a cat", "a dog", "ship"]
    expected = command("classify", "-m", clip.path, "--dtype", "f32", "--json", "--labels", ",".join(labels), RGB, SMALL)
    for found, one in zip(clip.classify([RGB, pixels(SMALL)], labels=labels), expected):
        same(found, one)
    assert clip.classify(RGB, labels=labels, top=1)[0].label == expected[0]["labels"][0]["label"]
    with pytest.raises(ValueError, match="has no labels of its own"):
        clip.classify(RGB)


def test_embed(vit, clip, command, tmp_path):
    assert vit.embed(RGB).shape == (32,) and vit.embed([RGB, pixels(GRAY)]).shape == (2, 32)
    np.testing.assert_array_equal(vit.embed(pixels(RGB)), vit.embed(str(RGB)))
    command("embed", "-m", clip.path, "--dtype", "f32", "--out", tmp_path / "e.npy", RGB, "a cat", GRAY)
    found = clip.embed([RGB, "a cat", pixels(GRAY)])
    np.testing.assert_array_equal(found, np.load(tmp_path / "e.npy"))
    np.testing.assert_array_equal(clip.embed("a cat"), found[1])
    np.testing.assert_array_equal(clip.embed(["a cat"]), found[1:2])
    np.testing.assert_array_equal(clip.embed(RGB), found[0])
    assert "match" in clip.abilities and clip.tokenizer.encode("a cat").ids == [97, 1, 2, 98]


def test_look(vit, clip):
    trace = vit.look(RGB)
    assert trace.title == str(RGB) and trace["encoder.self"].weights.shape == (2, 4, 17, 17)
    assert trace.picture.shape == (16, 16, 3) and trace.picture.dtype == np.uint8
    assert '"picture":{' in trace.page()
    whole = vit.look(pixels(RGB), disabled_heads=[(0, 1)])["encoder.self"].weights
    assert (whole[0, 0] == trace["encoder.self"].weights[0, 0]).all() and (whole[1] != trace["encoder.self"].weights[1]).any()
    text = clip.look("a cat")
    assert text.picture is None and text["decoder.self"].query_tokens == ["<start>", "a", "cat", "<end>"]
    assert clip.look(RGB).picture is not None


def test_info_is_the_commands(vit, command):
    expected, = command("info", "-m", vit.path, "--json")
    found = vit.info()
    assert {name: found.get(name) for name in expected if name != "memory_bytes_f32"} == {
        name: value for name, value in expected.items() if name != "memory_bytes_f32"}


def test_refusals(vit, translator, tmp_path):
    (tmp_path / "short.ppm").write_bytes(b"P6 9 9 255\nabc")
    for wrong, error, words in [
            (np.zeros((4, 4, 3)), TypeError, "found an array of float64, expected uint8"),
            (np.zeros((4, 4, 4), np.uint8), ValueError, r"pictures\[0\]: found u8 \(4, 4, 4\), expected u8 \(height"),
            (np.zeros(4, np.uint8), ValueError, "expected u8"),
            (np.zeros((0, 4, 3), np.uint8), ValueError, "found a picture of 4 x 0|picture 1"),
            ([RGB, 3], TypeError, r"pictures\[1\]: found 3, expected a path or an array"),
            (3, TypeError, "expected a picture or a list"),
            (tmp_path / "short.ppm", ValueError, "ends early"),
            (tmp_path / "none.ppm", OSError, "none.ppm")]:
        with pytest.raises(error, match=words):
            vit.classify(wrong)
    with pytest.raises(ValueError, match="labels: expected None"):
        vit.classify(RGB, labels=["a"])
    with pytest.raises(ValueError, match="pair: expected None"):
        vit.classify(RGB, "a pair")
    with pytest.raises(ValueError, match="labels: expected None"):
        translator.classify("text", labels=["a"])
    with pytest.raises(TypeError, match="expected one"):
        vit.look([RGB, GRAY])


def test_one_label(tmp_path, command):
    shutil.copytree(GOLDENS / "models" / "vit", tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": {"0": "ship"}}))
    tensors = mh.load_file(tmp_path / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = np.ascontiguousarray(tensors[name][:1])
    mh.save_file(tensors, tmp_path / "model.safetensors")
    ours = mh.load(tmp_path, "f32").classify(RGB)
    assert 0.1 < ours[0].probability < 0.9
    same(ours, command("classify", "-m", tmp_path, "--dtype", "f32", "--json", RGB)[0])


def test_logits_that_are_not_finite(tmp_path):
    shutil.copytree(GOLDENS / "models" / "vit", tmp_path, dirs_exist_ok=True)
    (tmp_path / "preprocessor_config.json").write_text('{"rescale_factor": 1e300}')
    with pytest.raises(ValueError, match="the logits are NaN or infinite"):
        mh.load(tmp_path, "f32").classify(RGB)


def test_a_file_that_is_removed_later(vit, tmp_path):
    shutil.copy(RGB, tmp_path / "a.ppm")
    before = vit.classify(tmp_path / "a.ppm")
    os.remove(tmp_path / "a.ppm")
    assert before == vit.classify(RGB)
