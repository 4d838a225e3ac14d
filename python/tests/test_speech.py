# SPDX-License-Identifier: MIT
"""Transcription: a small model that is made here, beside the command; Whisper itself if it is there."""
import base64
import json
import pickle
import re
import wave

import numpy as np
import pytest

import multihead as mh
from multihead.files import save_file

V, D, TEXTS = 51864, 8, 50256
SCRIPT = [50363, 256, 257, 50413, TEXTS]  # <|0.00|> hello world<|1.00|> and the end


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Whisper that says " hello world", whatever it hears: position i leads to token i of the script."""
    folder = tmp_path_factory.mktemp("whisper")
    tensors = {}
    draw = np.random.default_rng(0)

    def linear(name, out, size, bias=True):
        tensors[name + ".weight"] = draw.normal(0, 0.05, (out, size)).astype("f4")
        if bias:
            tensors[name + ".bias"] = np.zeros(out, "f4")

    def norm(name, weight=1.0):
        tensors[name + ".weight"] = np.full(D, weight, "f4")
        tensors[name + ".bias"] = np.zeros(D, "f4")

    for stack, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        layer = f"model.{stack}.layers.0."
        for attention in attentions:
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                linear(layer + attention + "." + part, D, D, part != "k_proj")
            norm(layer + attention + "_layer_norm")
        linear(layer + "fc1", D, D)
        linear(layer + "fc2", D, D)
        norm(layer + "final_layer_norm")
        norm(f"model.{stack}.layer_norm", 30.0 if stack == "decoder" else 1.0)
    for i, size in ((1, 80), (2, D)):
        tensors[f"model.encoder.conv{i}.weight"] = draw.normal(0, 0.1, (D, size, 3)).astype("f4")
        tensors[f"model.encoder.conv{i}.bias"] = np.zeros(D, "f4")
    tensors["model.encoder.embed_positions.weight"] = draw.normal(0, 0.5, (1500, D)).astype("f4")
    tokens = draw.normal(0, 0.002, (V, D)).astype("f4")
    positions = np.zeros((448, D), "f4")
    for i, id in enumerate(SCRIPT):
        positions[i, i] = 4
        tokens[id, i] += 0.3
    tensors["model.decoder.embed_tokens.weight"] = tokens
    tensors["model.decoder.embed_positions.weight"] = positions
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(dict(
        model_type="whisper", d_model=D, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=D, decoder_ffn_dim=D, vocab_size=V, num_mel_bins=80,
        max_source_positions=1500, max_target_positions=448)))
    words = [bytes([i]) for i in range(256)] + [b" hello", b" world"]
    words += [b"q%d" % i for i in range(len(words), TEXTS)]
    (folder / "words.tiktoken").write_text(
        "".join(f"{base64.b64encode(w).decode()} {i}\n" for i, w in enumerate(words)))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return mh.load(folder, "f32")


SOUND = (8000 * np.sin(np.arange(32000) / 7)).astype(np.int16)


def test_a_transcript_has_its_own_segments():
    first = mh.Transcription("one")
    first.segments.append(None)
    assert mh.Transcription("two").segments == []
    assert pickle.loads(pickle.dumps(first)).segments == [None]


def test_transcript(model, folder, command, tmp_path):
    found = model.transcribe(SOUND, 16000, word_times=True)
    assert found == "hello world" and found.language == "en"
    (segment,) = found.segments
    assert segment.text == " hello world" and segment.ids == SCRIPT[:-1]
    assert [w.text for w in segment.words] == [" hello", " world"]
    assert segment.words[0].begin <= segment.words[0].end <= segment.words[1].end
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(SOUND.tobytes())
    (theirs,) = command("transcribe", "-m", folder, "--json", "--word-times", tmp_path / "sound.wav")
    assert theirs["segments"][0]["tokens"] == segment.ids
    assert theirs["segments"][0]["words"][1]["end"] == pytest.approx(segment.words[1].end)


def test_samples(model):
    exact = model.transcribe(SOUND).segments[0]
    for samples in (SOUND / 32768, (SOUND / 32768).astype("f4"), SOUND.astype(np.int32) << 16,
                    list(SOUND / 32768), np.repeat(SOUND, 2)[::2]):
        assert model.transcribe(samples).segments[0].logprob == pytest.approx(exact.logprob, abs=1e-6)
    assert model.transcribe(SOUND[::2], 8000) == "hello world"
    assert model.transcribe([]) == "" and model.transcribe([]).segments == []


def test_refused(model, translator):
    for error, arguments, options, message in (
            (ValueError, (SOUND[:, None],), {}, "found shape"),
            (ValueError, (["a"],), {}, "found <U1"),
            (ValueError, ([np.nan],), {}, "NaN"),
            (ValueError, (SOUND, 10), {}, "rate: found 10"),
            (ValueError, (SOUND,), {"language": "klingon"}, "klingon"),
            (ValueError, (SOUND,), {"num_beams": 100}, "found 100"),
            (ValueError, (SOUND,), {"seed": -1}, "seed: found -1"),
            (TypeError, (SOUND,), {"beams": 1}, "beams")):
        with pytest.raises(error, match=message):
            model.transcribe(*arguments, **options)
    with pytest.raises(ValueError, match="does not transcribe; it can"):
        translator.transcribe(SOUND)


def test_whisper(downloaded):
    """The words of the recording, and with a beam, which prefers other punctuation."""
    model = downloaded("whisper-tiny.en")
    with wave.open(model.path + "/beckett.wav") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    expected = "Ever tried, ever failed. No matter, try again. Fail again. Fail better."
    assert model.transcribe(samples, 16000) == expected
    found = model.transcribe(samples / 32768.0, word_times=True, num_beams=3)
    said = [w.text.strip(" .,").lower() for s in found.segments for w in s.words]
    assert said == re.sub("[.,]", "", expected).lower().split()
