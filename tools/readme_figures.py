#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies README's performance figures from docs/tuning/performance.md, between README's marks.

usage: readme_figures.py [--check]

--check changes nothing and fails if README differs from what the page says.
"""
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs/tuning/performance.md"
BEGIN, END = "<!-- figures:begin -->\n", "<!-- figures:end -->\n"
XEON, EPYC = "Intel Xeon with AVX-512 and AMX", "AMD EPYC with AVX2"
ROWS = {
    "attention, forward": "Attention forward",
    "attention, forward and backward": "Attention forward and backward",
    "`nn.MultiheadAttention`, forward": "Multi-head attention module forward",
    "encoder layer, forward and backward": "Encoder layer forward and backward",
}
MODELS = ("bert", "gpt2", "vit", "whisper")


def section(text, title):
    """The text below a heading that is `title`, or begins with it and a comma."""
    found = re.search(rf"^(#+) {re.escape(title)}(?:,.*)?\n", text, re.M)
    if not found:
        sys.exit(f"readme_figures: {PAGE.name} has no section '{title}'")
    end = re.search(rf"^#{{1,{len(found[1])}}} ", text[found.end():], re.M)
    return text[found.end():found.end() + end.start()] if end else text[found.end():]


def tables(text):
    """Each table as {first cell: {column: cell}}."""
    result = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        result.append({line[0]: dict(zip(lines[0][1:], line[1:])) for line in lines[2:]})
    return result


def means(table, dtype):
    row = table["geometric mean"]
    return [row[f"torch {dtype} x{threads}"] for threads in (1, 2)]


def span(values, digits):
    numbers = [float(value) for value in values]
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def figures(page):
    xeon, epyc = section(page, XEON), section(page, EPYC)
    version = re.search(r"PyTorch (\d+\.\d+)", xeon)[1]
    lines = [f"Speed relative to PyTorch {version}, measured in one run on two CPUs (Xeon with AVX-512 and AMX); geometric",
             "means over the shapes of known models, with one and two threads:", "", "| | f32 | bf16 |", "|---|---|---|"]
    for label, title in ROWS.items():
        table = tables(section(xeon, title))[0]
        lines.append(f"| {label} | {', '.join(means(table, 'f32'))} | {', '.join(means(table, 'bf16'))} |")
    training = tables(section(page, "Training and translating"))[0]
    lines.append(f"| training the translator, two threads | {training['multihead f32']['/ torch f32']} | "
                 f"{training['multihead default']['/ torch f32']} (PyTorch in f32) |")
    avx2 = [ratio for table in tables(epyc)[:2] for ratio in means(table, "f32")]
    peak = tables(section(page, "Percentage of the machine's peak"))[0]
    shares = [row[f"f32 {way}"] for case, row in peak.items() if case.startswith(MODELS)
              for way in ("forward", "backward")]
    lines += ["", "PyTorch's bf16 products could not use AMX on that machine. On a CPU with AVX2 only, f32 attention is",
              f"{span(avx2, 1)} times as fast as PyTorch's. f32 attention at the shapes of BERT, GPT-2, ViT and Whisper",
              f"reaches {span(shares, 0)} % of the FMA peak measured in the same run."]
    return "\n".join(lines) + "\n"


def main():
    readme = README.read_text(encoding="utf-8")
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        sys.exit("readme_figures: expected one pair of marks in README.md")
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    wanted = before + BEGIN + figures(PAGE.read_text(encoding="utf-8")) + END + after
    if sys.argv[1:] == ["--check"]:
        if wanted != readme:
            sys.stderr.writelines(difflib.unified_diff(readme.splitlines(True), wanted.splitlines(True),
                                                       "README.md", "from performance.md", n=0))
            sys.exit("readme_figures: README differs from docs/tuning/performance.md; run tools/readme_figures.py")
        print("readme_figures: README has the figures of docs/tuning/performance.md")
    elif sys.argv[1:]:
        sys.exit("usage: readme_figures.py [--check]")
    else:
        README.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
