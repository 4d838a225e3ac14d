# SPDX-License-Identifier: MIT
"""Docstrings and pages: examples run, nothing public is without words, and types check."""
import doctest
import importlib.util
import inspect
import re
import subprocess
import sys

import pytest

import multihead as mh

ANY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_examples(test):
    output = []
    runner = doctest.DocTestRunner(optionflags=ANY)
    runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)
    return runner.tries


@pytest.mark.parametrize("name", mh.__all__)
def test_docstrings(name, root, monkeypatch):
    monkeypatch.chdir(root)
    value = getattr(mh, name)
    assert value.__doc__ and len(value.__doc__.strip()) > 10
    tests = doctest.DocTestFinder(exclude_empty=True).find(value, name, module=False, globs={})
    tries = sum(run_examples(test) for test in tests if test.examples)
    assert tries > 0, name


@pytest.mark.parametrize("name", [n for n in mh.__all__ if inspect.isclass(getattr(mh, n))])
def test_methods_have_docstrings(name):
    for key, member in vars(getattr(mh, name)).items():
        if not key.startswith("_") and callable(getattr(member, "__func__", member)):
            assert inspect.getdoc(getattr(mh, name).__dict__[key]), f"{name}.{key}"


def test_signatures_of_the_extension():
    for name in ("attention", "attention_backward", "explain"):
        found = inspect.signature(getattr(mh, name)).parameters
        assert list(found)[:3] == ["q", "k", "v"] and "sinks" in found
    with pytest.raises(TypeError, match="no argument 'cause'"):
        mh.attention(1, 2, 3, cause=True)


def test_guide(root, monkeypatch):
    monkeypatch.chdir(root)
    text = (root / "docs" / "guide" / "python.md").read_text()
    blocks = "\n".join(re.findall("(?ms)^```pycon\n(.*?)^```", text))
    test = doctest.DocTestParser().get_doctest(blocks, {}, "python.md", None, 0)
    assert run_examples(test) > 20


def test_readme(root, monkeypatch, tmp_path):
    block, = re.findall("(?ms)^```python\n(.*?)^```", (root / "README.md").read_text())
    monkeypatch.setenv("MULTIHEAD_MODELS", str(root / "models"))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block.replace("models/fr-en", "fr-en"), names)
    assert names["weights"].shape == (1, 8, 10, 10) and (tmp_path / "page.html").is_file()


def test_reference(root):
    """The page is made from the docstrings, with every public name."""
    path = root / "tools" / "python_reference.py"
    spec = importlib.util.spec_from_file_location("python_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = module.PAGE.read_text()
    for name in mh.__all__:
        assert f"\n### {name}\n" in shown, name
    assert shown == module.page(), "run tools/python_reference.py"


def test_names():
    """What is public is exported, and nothing else is in the way of completion."""
    assert len(set(mh.__all__)) == len(mh.__all__)
    assert all(hasattr(mh, name) for name in mh.__all__)


TYPED = '''
import numpy as np
import multihead as mh
model = mh.load("models/fr-en")
reveal_type(model.translate("a"))                      # Translation
reveal_type(model.translate(["a"]))                    # list[Translation]
reveal_type(model.translate(["a"], n_best=2))          # list[list[Translation]]
reveal_type(model.generate("a", temperature=0.5))      # Generation
reveal_type(model.generate(["a"]))                     # list[Generation]
reveal_type(model.generate([1, 2]))                    # Generation
reveal_type(model.generate([{"role": "user", "content": "a"}]))  # Generation
reveal_type(model.fill("a")[0][0].text)                # str
reveal_type(model.classify(["a"])[0][0].probability)   # float
reveal_type(model.tokenizer.encode("a").ids)           # list[int]
reveal_type(model.tokenizer.encode(["a"])[0].tokens)   # list[str]
reveal_type(next(model.stream("a")))                   # GeneratedToken
reveal_type(model.look("a").heads()[0].pattern)        # str
q = np.zeros((2, 3, 4), np.float32)
mh.attention(q, q, q, causal="top-left", window=(1, None), weights=True)
'''
WRONG = [
    'model.generate("a", temprature=0.5)', 'model.generate(3)', 'model.translate("a", num_beams="b")',
    'model.look(3.5)', 'mh.attention(q, q, q, cause=True)', 'mh.bleu("a")', 'mh.load()',
    'mh.view(q, tokens=3)',
]


def mypy(*arguments):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", *map(str, arguments)],
                          capture_output=True, text=True)
    return done.stdout + done.stderr


def test_types_of_calls(tmp_path):
    (tmp_path / "use.py").write_text(TYPED)
    output = mypy(tmp_path / "use.py")
    revealed = re.findall(r'Revealed type is "([^"]*)"', output)
    expected = re.findall(r"reveal_type.*# (\S+)$", TYPED, re.M)
    assert "error" not in output, output
    assert [re.sub(r"(\w+\.)+", "", r) for r in revealed] == expected


def test_wrong_calls_are_type_errors(tmp_path):
    before = TYPED.split("reveal_type")[0] + "q = np.zeros((2, 3, 4), np.float32)\n"
    (tmp_path / "wrong.py").write_text(before + "\n".join(WRONG) + "\n")
    output = mypy(tmp_path / "wrong.py")
    first = before.count("\n") + 1
    lines = {int(n) for n in re.findall(r"wrong\.py:(\d+): error", output)}
    assert lines == set(range(first, first + len(WRONG))), output


def test_stubs_are_the_extension(tmp_path):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "multihead._multihead",
                           "--ignore-missing-stub"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
