#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails when a page says what is not so.

usage: check_docs.py [BUILD]

Checked in every .md file: that links, and files of the project that are named, are there; that names
with mh_ and MH_ exist in the sources; that commands have the options they are shown with (as
BUILD/multihead says); and that C compiles: blocks of C, what stands behind # beside a line of Python,
and calls in tables. Pieces of programs get the variables of PRELUDE.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = "bench cli cmake docs examples include models src tests tools web".split()
MADE = ("bench/venv",)  # by a command that the page explains
PRELUDE = """
#include <multihead/heads.h>
#include <multihead/io.h>
#include <multihead/model.h>
#include <multihead/multihead.h>
#include <multihead/pretrained.h>
#include <multihead/sharded.h>
#include <multihead/text.h>
#include <multihead/train.h>
#include <multihead/translator.h>
#include <multihead/view.h>
#include <stdio.h>

static mh_context *context;
static mh_tensor a, b, c, q, k, v, x, w, y, out, dout, src, tgt, memory, query, key, value, weights,
    logits, dlogits, table, ids, embeddings;
static mh_mha *m;
static mh_transformer *model;
static mh_transformer_options options;
static mh_decoding *decoding;
static mh_tape *tape;
static mh_adamw_options adamw;
static mh_communicator communicator;
static mh_sharding sharding;
static mh_attention_gradients dqkv;
static size_t length, ranks, own_rank;
void fill(size_t row, size_t position);
static const mh_parameters *parameters;
static float *gradients, *values, *moment1, *moment2;
static double norm, loss;
static const size_t *parents;
static const mh_text *texts;
static size_t n, count;
static int dim, rank;
static float eps;
static uint64_t seed, step;
"""


def text_of(path):
    return path.read_text(encoding="utf-8")


def tracked(*patterns):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def missing_files(page, text):
    for target in re.findall(r"\]\(([^)#:]+)[#)]", text):
        if not (page.parent / target).exists():
            yield f"links to {target}, which is not there"
    for name in re.findall(rf"(?<![\w/.-])((?:{'|'.join(FOLDERS)})/[\w./-]*[\w/])(?![\w*<])", text):
        folder = page.parent.relative_to(ROOT)
        if name not in MADE and not any((ROOT / base / name).exists() for base in (".", folder)):
            yield f"names {name}, which is not there"


def unknown_names(text, known):
    for name in sorted(set(re.findall(r"\b(?:mh|MH)_\w+\b", text)) - known):
        if not any(word.startswith(name) for word in known if name.endswith("_")):
            yield f"{name} is not in the sources"


def unknown_options(text, command):
    joined = text.replace("\\\n", " ")
    helps = {}
    for name, rest in re.findall(r"\bmultihead ([a-z]+) ([^`\n|#]*)", joined):
        if name not in helps:
            helps[name] = subprocess.run([command, name, "--help"], capture_output=True, text=True)
        if helps[name].returncode == 0:
            for option in re.findall(r"(?<!\S)--[a-z][a-z0-9-]+", rest):
                if not re.search(rf"{option}[=,\s]", helps[name].stdout):
                    yield f"multihead {name} has no option {option}"


def pieces_of_c(text):
    """Programs, and pieces that are to be put into a function."""
    for language, block in re.findall(r"^```(c|python)\n(.*?)^```", text, re.M | re.S):
        if language == "c":
            yield block
        elif "mh_" in block:
            yield "\n".join(re.findall(r"#(.*)", block))
    for cell in re.findall(r"`(mh_\w+\([^`]*\))`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        if "..." not in cell:
            yield cell + ";"


def broken_c(text):
    for piece in pieces_of_c(text):
        program = piece if "int main" in piece else f"{PRELUDE}void piece(void)\n{{\n{piece}\n}}\n"
        compiler = subprocess.run(
            ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-result",
             "-Iinclude", "-fsyntax-only", "-xc", "-"], cwd=ROOT, input=program, capture_output=True,
            text=True)
        if compiler.returncode != 0:
            yield f"C that does not compile:\n{piece}\n{compiler.stderr}"


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    sources = tracked("*.c", "*.h", "*.inc", "*.txt", "*.cmake", "*.sh", ".ci/run", "Makefile")
    known = {word for path in sources for word in re.findall(r"\b(?:mh|MH)_\w+\b", text_of(path))}
    failed = False
    for page in tracked("*.md"):
        text = text_of(page)
        for problem in [*missing_files(page, text), *unknown_names(text, known),
                        *unknown_options(text, build / "multihead"), *broken_c(text)]:
            print(f"docs: {page.relative_to(ROOT)}: {problem}", file=sys.stderr)
            failed = True
    if not failed:
        print("docs: links, files, names, options and C are right")
    return failed


if __name__ == "__main__":
    sys.exit(main())
