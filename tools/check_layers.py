#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails when a file breaks the order of the layers.

usage: check_layers.py [ROOT]

Checked: which directory includes which (MAY_INCLUDE, HEADER_ONLY), intrinsics only in an
instruction set's directory, the operating system's headers only in src/base and src/support,
getenv in one file, a licence line on top of every file, and names of C files that are unique in
the tree.
"""
import pathlib
import re
import sys

# layer -> the layers it may include; itself and the public headers are always allowed
MAY_INCLUDE = {
    # libmultihead, the engine
    "src/base": [],
    "src/kernels": ["src/base"],
    "src/ops": ["src/kernels", "src/base"],
    "src/nn": ["src/ops", "src/base"],
    # libmultihead-model: of the engine the public headers and HEADER_ONLY
    "src/support": ["src/media"],
    "src/io": ["src/support"],
    "src/image": ["src/support"],
    "src/text": ["src/support"],
    "src/audio": ["src/support"],
    "src/view": ["src/io", "src/support"],
    "src/families": [],
    "src/model": ["src/families", "src/io", "src/image", "src/text", "src/support"],
    "src/speech": ["src/families", "src/model", "src/audio", "src/text", "src/support"],
    "src/train": ["src/families", "src/model", "src/io", "src/text", "src/support"],
    # libmultihead-mpi
    "src/mpi": [],
    # libmultihead-media, which the others reach through src/media/media.h and dlopen only
    "src/media": [],
    "include/multihead": [],
    "cli": [],
    "python/src": ["cli"],
    "examples": [],
    "tests": None,  # everything
    "bench": None,
}
# Helpers that both libraries compile into themselves: inline functions without state, which include
# each other and public headers only. Functions behind such a header would be undefined symbols of
# libmultihead-model, and its link fails.
HEADER_ONLY = {f"src/base/{name}.h" for name in (
    "argument_check", "arena", "clock", "communicator_check", "compiler", "fpenv", "half", "overflow", "philox",
    "pow", "release", "size_math", "sized_struct", "trig")}
MAY_USE_HEADER_ONLY = ["src/support", "src/io", "src/image", "src/text", "src/audio", "src/view",
                       "src/model", "src/speech", "src/train"]
INTRINSICS = re.compile(r"\w*intrin\.h|arm_(neon|sve|bf16|fp16)\.h")
SYSTEM = re.compile(r"(pthread|unistd|fcntl|sched|dirent|semaphore|signal|dlfcn|poll|termios)\.h"
                    r"|(sys|linux|asm)/.*")
MAY_USE_SYSTEM = ["src/base", "src/support", "cli", "python/src", "examples",
                  "tests", "bench"]
GETENV_FILE = "src/base/env.c"

C_SUFFIXES = (".c", ".h", ".inc")
LICENSED = C_SUFFIXES + (".py", ".sh", ".cmake", ".js", ".css")
LICENSED_NAMES = ("CMakeLists.txt", "Makefile", "run")


def layer_of(path):
    """The layer a file (relative to the root) belongs to, or None."""
    for layer in MAY_INCLUDE:
        if path.startswith(layer + "/"):
            return layer
    return None


def resolve(root, path, name):
    """The file that `#include "name"` in the file `path` means, or None if it is not ours."""
    here = pathlib.PurePosixPath(path).parent
    for folder in (here, "src", "include", "tests"):
        candidate = (root / folder / name).resolve()
        if candidate.is_file() and root in candidate.parents:
            return candidate.relative_to(root).as_posix()
    return None


def check_include(root, path, layer, name):
    """What is wrong with including `name`, or None."""
    in_isa_folder = re.match(r"src/kernels/(?!generic/)\w+/", path)
    if INTRINSICS.fullmatch(name) and not in_isa_folder and layer not in ("tests", "bench"):
        return f"{name} belongs in src/kernels/<instruction set>/ only"
    target = resolve(root, path, name)
    if target is None:
        if SYSTEM.fullmatch(name) and layer not in MAY_USE_SYSTEM:
            return f"{name} belongs in src/base and src/support only"
        return None
    target_layer = layer_of(target)
    allowed = MAY_INCLUDE[layer]
    if target_layer == "include/multihead" or (target in HEADER_ONLY and layer in MAY_USE_HEADER_ONLY):
        return None
    if path in HEADER_ONLY and target not in HEADER_ONLY:
        return f"{path} is header-only and must not include {target}"
    if allowed is None or target_layer == layer or target_layer in allowed:
        return None
    return f"{layer} must not include {target}"


def check_c_file(root, path):
    """Yields (line, message) for a C file of one of the layers."""
    layer = layer_of(path)
    if layer is None:
        yield 1, "is in no layer that tools/check_layers.py knows"
        return
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        message = include and check_include(root, path, layer, include[1])
        if message:
            yield number, message
        if path.startswith("src/") and path != GETENV_FILE and re.search(r"\bgetenv\s*\(", line):
            yield number, f"getenv is called in {GETENV_FILE} only"


def has_licence(root, path):
    lines = (root / path).read_text(encoding="utf-8").splitlines()[:2]
    if lines and lines[0].startswith("#!"):
        del lines[0]
    return bool(lines) and "SPDX-License-Identifier: MIT" in lines[0]


def source_files(root):
    """Every file of the project: no build folders, nothing hidden but .ci."""
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if re.match(r"build|bench/venv|\.(?!ci/)", path) or not file.is_file():
            continue
        if file.suffix in LICENSED or file.name in LICENSED_NAMES:
            yield path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    seen = {}  # name of a C file -> its path
    problems = []
    for path in source_files(root):
        if not has_licence(root, path):
            problems.append(f"{path}:1: the SPDX line is missing")
        if not path.endswith(C_SUFFIXES):
            continue
        problems += [f"{path}:{line}: {message}" for line, message in check_c_file(root, path)]
        name = path.rsplit("/", 1)[-1]
        if name in seen:
            problems.append(f"{path}:1: the same name as {seen[name]}")
        seen[name] = path
    problems += [f"{path}:1: in HEADER_ONLY, but there is no such file"
                 for path in sorted(HEADER_ONLY) if not (root / path).is_file()]
    if not seen:
        problems.append(f"{root}: no sources here")
    print("\n".join(problems) if problems else f"layers: {len(seen)} C files in order")
    return bool(problems)


sys.exit(main())
