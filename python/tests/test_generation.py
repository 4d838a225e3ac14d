# SPDX-License-Identifier: MIT
"""Generation with a small downloaded model: the command's texts and bits, streams, conversations."""
import pickle
import threading
import time

import numpy as np
import pytest

import multihead as mh
from multihead.generation import with_model_defaults

PROMPTS = ["Gravity is", "The capital of France", "def add(a, b):"]


def test_results_have_their_own_lists():
    first, token = mh.Generation("one"), mh.GeneratedToken("one")
    first.ids.append(1)
    token.top_logprobs.append(None)
    assert mh.Generation("two").ids == [] and mh.GeneratedToken("two").top_logprobs == []
    assert pickle.loads(pickle.dumps(first)).ids == [1]


@pytest.fixture(scope="module")
def model(downloaded):
    return downloaded("SmolLM2-135M-Instruct-GGUF")


@pytest.mark.parametrize("options, arguments", [
    ({}, []),
    ({"temperature": 0.8, "top_p": 0.9, "seed": 7}, ["--temperature", 0.8, "--top-p", 0.9, "--seed", 7]),
    ({"temperature": 1.5, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.2},
     ["--temperature", 1.5, "--top-k", 20, "--min-p", 0.05, "--repetition-penalty", 1.2]),
    ({"num_beams": 3}, ["--beam", 3]),
    ({"stop": [" the", "\n"]}, ["--stop", " the", "--stop", "\n"]),
    ({"disabled_heads": [(0, 3), 2]}, ["--disable-head", "0:3", "--disable-head", "2"]),
    ({"model_defaults": True}, ["--model-defaults"]),
])
def test_options(model, command, options, arguments):
    found = model.generate(PROMPTS, max_new_tokens=10, top_logprobs=3, **options)
    expected = command("generate", "-m", model.path, "--dtype", "f32", "--json", "-n", 10,
                       "--top-logprobs", 3, *arguments, *PROMPTS)
    for ours, theirs in zip(found, expected):
        assert ours == theirs["text"] and ours.ids == theirs["ids"]
        assert ours.finish == theirs["finish"]
        assert ["%.9g" % p for p in ours.logprobs] == ["%.9g" % p for p in theirs["logprobs"]]
        for step, top in zip(ours.top_logprobs, theirs["top_logprobs"]):
            assert [(s.id, s.token) for s in step] == [(t["id"], t["token"]) for t in top]


def test_prompts(model):
    one = model.generate(PROMPTS[0], max_new_tokens=6)
    assert isinstance(one, str) and isinstance(one, mh.Generation)
    assert one.prompt_ids == model.tokenizer.encode(PROMPTS[0]).ids
    assert model.generate(one.prompt_ids, max_new_tokens=6).ids == one.ids
    assert model.generate(np.array(one.prompt_ids), max_new_tokens=6).ids == one.ids
    both = model.generate([one.prompt_ids] * 2, max_new_tokens=6)
    assert [g.ids for g in both] == [one.ids] * 2
    assert model.generate([]) == []
    again = pickle.loads(pickle.dumps(one))
    assert again == one and again.logprobs == one.logprobs and again.finish == "length"
    assert one.tokens == [model.tokenizer.token(i) for i in one.ids]


def test_streams_are_generations(model):
    options = dict(max_new_tokens=8, temperature=0.7, seed=3, top_logprobs=2)
    expected = model.generate(PROMPTS, **options)
    texts, ids, last = [""] * 3, [[], [], []], [None] * 3
    for token in model.stream(PROMPTS, **options):
        texts[token.sequence] += token
        assert token.position == len(ids[token.sequence]) and last[token.sequence] is None
        ids[token.sequence].append(token.id)
        assert len(token.top_logprobs) == 2
        if token.last:
            last[token.sequence] = token.finish
    assert texts == expected and ids == [g.ids for g in expected]
    assert last == [g.finish for g in expected]


def test_leaving_a_stream(model):
    before = threading.active_count()
    for token in model.stream(PROMPTS[0], max_new_tokens=2000, ignore_eos=True):
        if token.position == 3:
            break
    del token
    start = time.monotonic()
    stream = model.stream(PROMPTS[0], max_new_tokens=2000, ignore_eos=True)
    next(stream)
    stream.close()
    assert time.monotonic() - start < 5 and threading.active_count() <= before + 1
    assert model.generate(PROMPTS[0], max_new_tokens=4).ids  # nothing of it is left
    with pytest.raises(TypeError, match="no argument 'tokens'"):
        next(model.stream(PROMPTS[0], tokens=3))


def test_callbacks(model):
    seen = []

    def until_four(token):
        seen.append(token)
        return len(seen) < 4

    found = model.generate(PROMPTS[0], max_new_tokens=50, on_token=until_four)
    assert found.finish == "stopped" and len(found.ids) == 4 and "".join(seen) == found
    with pytest.raises(ZeroDivisionError):
        model.generate(PROMPTS[0], on_token=lambda token: 1 / 0)


def test_chat(model, command):
    question = "What is the capital of France?"
    found = model.chat(question, max_new_tokens=12)
    expected = command("generate", "-m", model.path, "--dtype", "f32", "-n", 12, "--chat", question)
    assert found == expected.rstrip("\n")
    messages = [{"role": "user", "content": question}]
    assert model.generate(messages, max_new_tokens=12) == found
    assert "".join(model.stream(messages, max_new_tokens=12)) == found
    assert model.generate([messages, messages], max_new_tokens=12) == [found, found]
    prompt = model.chat_prompt(messages, "chatml")
    assert prompt.endswith("<|im_start|>assistant\n") and question in prompt
    system = model.chat(question, system="Answer in French.", max_new_tokens=4)
    assert len(system.prompt_ids) != len(found.prompt_ids)


def test_threads(model):
    """Several threads share a model."""
    expected = model.generate(PROMPTS[0], max_new_tokens=8)
    found = [None] * 4

    def work(i):
        found[i] = model.generate(PROMPTS[0], max_new_tokens=8)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_options_win_over_defaults():
    file = dict(sample=True, temperature=0.0, top_p=0.0, min_p=0.0, repetition_penalty=0.0, length_penalty=0.0, top_k=0,
                num_beams=4, max_new_tokens=0, max_length=0)
    assert with_model_defaults({"temperature": 0.5}, file) == {"temperature": 0.5, "top_k": 50}
    assert with_model_defaults({"temperature": 0}, file) == {"temperature": 0, "num_beams": 4}
    assert with_model_defaults({"num_beams": 3}, file) == {"num_beams": 3}
    assert with_model_defaults({"num_beams": 1}, file) == {"num_beams": 1, "temperature": 1.0, "top_k": 50}
    with pytest.raises(ValueError, match="generation_config.json"):
        with_model_defaults({}, file)


@pytest.mark.parametrize("prompt, options, error, match", [
    (3, {}, TypeError, "prompt"), (None, {}, TypeError, "prompt"), (["a", 3], {}, TypeError, "prompt"),
    ([1, "a"], {}, TypeError, "prompt"), ([10**7], {}, ValueError, "10000000"),
    ([[-1]], {}, ValueError, "-1"), ("a\ud800", {}, ValueError, "surrogates"),
    ("x", {"temperature": -1}, ValueError, "temperature"),
    ("x", {"temperature": float("nan")}, ValueError, "temperature"),
    ("x", {"temperature": "hot"}, TypeError, "temperature"), ("x", {"seed": -1}, ValueError, "seed"),
    ("x", {"max_new_tokens": 0}, ValueError, "max_tokens"), ("x", {"top": 1}, TypeError, "'top'"),
    ("x", {"num_beams": 2, "temperature": 1.0}, ValueError, "beam"),
    ("x", {"stop": 3}, TypeError, "stop"), ("x", {"stop": [""]}, ValueError, "stop"),
    ("x", {"on_token": 3}, TypeError, None), ("x", {"cache_dtype": "f8"}, ValueError, "cache_dtype"),
    ("x", {"disabled_heads": [(99, 0)]}, ValueError, "30 layers"),
    ("x", {"disabled_heads": [("a", 0)]}, ValueError, "disabled_heads"),
    ([{"role": "king", "content": "x"}], {}, ValueError, "role"), ([{"role": "user"}], {}, TypeError, "content"),
    ([{"role": "user", "content": 3}], {}, TypeError, "content"),
])
def test_errors(model, prompt, options, error, match):
    with pytest.raises(error, match=match):
        model.generate(prompt, **options)


def test_other_abilities(model):
    for call in (model.translate, model.fill, model.classify):
        with pytest.raises(ValueError, match="llama.*it can embed, generate"):
            call("text")
