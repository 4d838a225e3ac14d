#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands of docs/learn and compares what they print with the pages.

usage: check_learn.py BUILD [--update] [PAGE...]

A block of a page that begins with "$ multihead" is a transcript: lines with "$ " are commands, and
what follows is their output. Commands run in one directory per page, in order, with the models of
the project installed and with the kernels that every CPU has, so that the last digits are
everybody's. A block after the line <!-- not run: WHY --> is not run. A line "..." stands for any
number of lines. --update writes the output into the pages.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"((?:<!-- not run:[^\n]*-->\n+)?)```\n(\$ .*?)```\n", re.S)
TIMEOUT = 120  # seconds per command


def commands_of(block):
    """Pairs of a command, with its continuation lines, and the output that follows it."""
    for part in re.split(r"^(?=\$ )", block, flags=re.M):
        if not part:
            continue
        lines = part.splitlines()
        size = 1
        while lines[size - 1].endswith("\\"):
            size += 1
        yield lines[:size], lines[size:]


def run(lines, folder, build):
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                       MH_ISA="scalar", MULTIHEAD_MODELS=str(ROOT / "models"))
    for name in ("COLORTERM", "COLUMNS", "HF_HOME"):
        environment.pop(name, None)
    command = "\n".join(lines)[2:]
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment,
                          timeout=TIMEOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, [line.rstrip() for line in done.stdout.splitlines()]


def matches(expected, found):
    """Whether the output is as expected, where "..." stands for any number of lines."""
    pattern = "".join(".*" if line == "..." else re.escape(line + "\n") for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in found), re.S) is not None


def shortened(expected, found):
    """The new output, with "..." where the old one had it: between its first and last lines."""
    if "..." not in expected:
        return found
    at = expected.index("...")
    after = len(expected) - at - 1
    return found[:at] + ["..."] + (found[len(found) - after:] if after else [])


def check_page(page, build, update):
    wrong = []
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "models", pathlib.Path(folder, "models"))

        def block(match):
            if match[1]:
                return match[0]
            result = []
            for lines, expected in commands_of(match[2]):
                code, found = run(lines, folder, build)
                refused = any("exit " in line for line in expected[-1:])
                if code != 0 and not refused:
                    wrong.append(f"{lines[0][2:]}: exit {code}: {' '.join(found[-2:])}")
                if code != 0 and refused:
                    found.append(f"exit {code}")
                if not matches(expected, found) and not update:
                    wrong.append("\n".join([lines[0][2:], *(f"    - {line}" for line in expected),
                                            *(f"    + {line}" for line in found)]))
                result += lines + (shortened(expected, found) if update else expected)
            return f"{match[1]}```\n" + "\n".join(result) + "\n```\n"

        updated = BLOCK.sub(block, text)
    if update and updated != text:
        page.write_text(updated, encoding="utf-8")
    return wrong


def main():
    arguments = sys.argv[1:]
    update = "--update" in arguments
    arguments = [a for a in arguments if a != "--update"]
    build = pathlib.Path(arguments[0] if arguments else "build").resolve()
    pages = [pathlib.Path(a).resolve() for a in arguments[1:]]
    failed = False
    for page in pages or sorted((ROOT / "docs/learn").glob("*.md")):
        for problem in check_page(page, build, update):
            print(f"learn: {page.relative_to(ROOT)}: {problem}", file=sys.stderr)
            failed = True
    if not failed:
        print("learn: every command prints what the pages show")
    return failed


if __name__ == "__main__":
    sys.exit(main())
