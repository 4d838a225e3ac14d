#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes notebooks of python/examples/NN_*.py and runs them: notebooks.py OUT [FILE...]

Cells begin with `# %%`, those of text with `# %% [markdown]`. A file that needs packages which are not
installed (`# requires: torch`) is skipped. Each notebook is written to OUT with its results; one that
fails, or has no picture, is reported and makes the exit status 1. Needs nbclient and ipykernel.
"""
import importlib.util
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]


def cells(text):
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        body = body.strip()
        if head.strip() == "[markdown]":
            lines = (re.sub(r"^# ?", "", line) for line in body.splitlines())
            yield nbformat.v4.new_markdown_cell("\n".join(lines))
        elif body:
            yield nbformat.v4.new_code_cell(body)


def notebook(text):
    made = nbformat.v4.new_notebook(cells=list(cells(text)))
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
    return made


def pictures(made):
    data = [out.get("data", {}) for cell in made.cells for out in cell.get("outputs", [])]
    return sum("image/png" in d or "image/svg+xml" in d or "<svg" in d.get("text/html", "") for d in data)


def missing(text):
    found = re.search(r"^# requires: (.*)$", text, re.M)
    return [name for name in (found[1].split() if found else []) if not importlib.util.find_spec(name)]


def main(out, files):
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for path in files or sorted((ROOT / "python" / "examples").glob("[0-9]*.py")):
        text = Path(path).read_text(encoding="utf-8")
        if lacks := missing(text):
            print(f"skipped: notebook {path.stem}: {', '.join(lacks)} is not installed")
            continue
        made = notebook(text)
        client = NotebookClient(made, timeout=300, startup_timeout=300, kernel_name="python3",
                                resources={"metadata": {"path": str(ROOT)}})
        try:
            client.execute()
        except CellExecutionError as error:
            print(f"notebooks: {Path(path).name}: {error}", file=sys.stderr)
            failed += 1
        nbformat.write(made, out / f"{Path(path).stem}.ipynb")
        if not pictures(made):
            print(f"notebooks: {Path(path).name}: found no picture", file=sys.stderr)
            failed += 1
        print(f"{Path(path).stem}: {len(made.cells)} cells, {pictures(made)} pictures")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
