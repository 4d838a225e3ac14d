#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints tests/api/abi_table.h: the binary interface of the stable headers, as it is now.

usage: make_abi_table.py > tests/api/abi_table.h

Run it when something was added to a stable header, and never to make test_abi pass: what was in the
table must stay. Declarations after a comment that begins with "Experimental", up to the next blank line, are left out.
"""
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STABLE = "base tensor attention kv_cache ops layers optimiser nn block".split()


def stripped(text):
    """The stable declarations, without comments."""
    stable = [p for p in text.split("\n\n") if not p.startswith("// Experimental")]
    return re.sub(r"//[^\n]*", "", "\n\n".join(stable))


def members(body):
    """The names of a struct's fields."""
    for declaration in body.split(";"):
        for part in re.sub(r"\([^()]*\)\s*$", "", declaration.strip()).split(","):
            name = re.search(r"\(\*(\w+)\)|(\w+)\s*(?:\[[^\]]*\])?\s*$", part)
            if name:
                yield name.group(1) or name.group(2)


def entries():
    """(kind, arguments of the macro, expression of its value) in the order of the headers."""
    for header in STABLE:
        text = stripped((ROOT / f"include/multihead/{header}.h").read_text(encoding="utf-8"))
        for body in re.findall(r"enum (?:\w+ )?\{([^}]*)\}", text):
            for name in re.findall(r"\b(MH_\w+)\s*=", body):
                yield "VALUE", name, name
        for name, body in re.findall(r"struct (mh_\w+) \{(.*?)\n\}", text, re.S):
            yield "STRUCT", name, f"(int)sizeof(struct {name})"
            for field in members(body):
                yield "FIELD", f"{name}, {field}", f"(int)offsetof(struct {name}, {field})"
        for name in re.findall(r"^MH_API [^;(]*?(mh_\w+)\(", text, re.M):
            yield "SYMBOL", name, None


def values(expressions):
    lines = "".join(f'    printf("%d\\n", {e});\n' for e in expressions)
    program = f"#include <multihead/multihead.h>\n#include <stdio.h>\nint main(void)\n{{\n{lines}}}\n"
    with tempfile.TemporaryDirectory() as folder:
        source, command = f"{folder}/a.c", f"{folder}/a"
        pathlib.Path(source).write_text(program, encoding="utf-8")
        subprocess.run(["cc", "-I", str(ROOT / "include"), source, "-o", command], check=True)
        return subprocess.run([command], check=True, capture_output=True, text=True).stdout.split()


def main():
    found = list(entries())
    numbers = iter(values([e for _, _, e in found if e]))
    print("// SPDX-License-Identifier: MIT")
    print("// The binary interface of the stable headers; make_abi_table.py made it. See test_abi.c.")
    print("// clang-format off")
    for kind, arguments, expression in found:
        print(f"{kind}({arguments}, {next(numbers)})" if expression else f"{kind}({arguments})")
    print("// clang-format on")


main()
