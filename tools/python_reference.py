#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/reference/python.md from the package's docstrings.

    python_reference.py            # needs the package; python/tests/test_docs.py checks the page
"""
import inspect
import pathlib
import re
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reference" / "python.md"

INTRODUCTION = """# The Python package, name by name

Made from the docstrings by `tools/python_reference.py`; [python.md](../guide/python.md) is the guide.
`help(mh.attention)` shows the same. `multihead.torch` and `multihead.transformers` are in
[python-torch.md](../guide/python-torch.md).
"""

SECTIONS = {
    "Attention": "attention attention_backward explain KVCache",
    "Modules": "MultiheadAttention TransformerEncoderLayer TransformerDecoderLayer TransformerEncoder "
               "TransformerDecoder Transformer LayerNorm Module manual_seed",
    "Training": "Tape Parameter AdamW cross_entropy",
    "Models": "load Model Generation GeneratedToken GenerateOptions TokenScore Translation "
              "TranslateOptions Transcription TranscribeOptions SpeechSegment SpokenWord Candidate Label",
    "Text": "Tokenizer Encoding bleu chrf BleuScore",
    "Traces": "view Trace AttentionGroup Head HeadLink",
    "Files": "load_file save_file",
    "Threads and the CPU": "set_num_threads get_num_threads isa",
}


def prose(text):
    """A docstring as Markdown: examples and indented parts become blocks of code."""
    made = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.startswith(">>>"):
            made.append(f"```pycon\n{part}\n```")
        elif re.match(r"\w+.*: ", part) and "\n    " in part or part.startswith("    "):
            made.append(f"```text\n{textwrap.dedent(part)}\n```")
        else:
            made.append(part)
    return "\n\n".join(made)


class Annotation(str):
    """An annotation as it is written, not as a string."""

    __repr__ = str.__str__


def signature(name, value):
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    kept = [p.replace(annotation=Annotation(p.annotation)) if isinstance(p.annotation, str) else p
            for key, p in found.parameters.items() if key not in ("self", "cls")]
    result = found.return_annotation
    result = inspect.Signature.empty if inspect.isclass(value) or result is inspect.Signature.empty else (
        Annotation(result))
    found = str(inspect.Signature(kept, return_annotation=result))
    if len(name + found) > 96:
        inside, _, after = found[1:].rpartition(")")
        whole = [part.replace(" ", "\0") for part in re.split(r", (?![^\[(]*[\])])", inside)]
        lines = textwrap.wrap(", ".join(whole), 92, break_long_words=False, break_on_hyphens=False)
        found = "(\n    " + "\n    ".join(lines).replace("\0", " ") + "\n)" + after
    return name + found


def fields(value):
    """The annotated fields of a named tuple or a typed dictionary, with their comments."""
    lines = inspect.getsource(value).splitlines()
    return "\n".join(line[4:] for line in lines if re.match(r"    \w+: ", line))


def members(name, value):
    for key, member in vars(value).items():
        if key.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"#### {name}.{key}\n\n{prose(member.__doc__)}\n"
            continue
        function = member.__func__ if isinstance(member, classmethod) else member
        if inspect.isfunction(function) and function.__doc__:
            called = signature(f"{name}.{key}", function)
            yield f"#### {name}.{key}\n\n```python\n{called}\n```\n\n{prose(function.__doc__)}\n"


def describe(package, name):
    value = getattr(package, name)
    plain = inspect.isclass(value) and (hasattr(value, "_fields") or hasattr(value, "__total__"))
    if plain:
        yield f"### {name}\n\n{prose(value.__doc__)}\n\n```python\n{fields(value)}\n```\n"
        return
    text = inspect.isclass(value) and issubclass(value, str)
    shown = f"class {name}(str)" if text else signature(name, value)
    yield f"### {name}\n\n```python\n{shown}\n```\n\n{prose(value.__doc__)}\n"
    if text:
        yield f"```python\n{fields(value)}\n```\n"
    elif inspect.isclass(value):
        yield from members(name, value)


def page():
    import multihead

    listed = [name for names in SECTIONS.values() for name in names.split()]
    assert sorted(listed) == sorted(multihead.__all__), set(listed) ^ set(multihead.__all__)
    parts = [INTRODUCTION]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names.split():
            parts += describe(multihead, name)
    return re.sub(r"(?m)[ ]+$", "", "\n".join(parts))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
