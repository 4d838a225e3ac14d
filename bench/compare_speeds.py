# SPDX-License-Identifier: MIT
"""Medians of speeds and their ratios: the table, JSON, SVG and Markdown of the comparisons of
training and translating.

A measurement is {contender: [speed of each round]}. Rounds are interleaved, so the ratio of two
contenders is the median of their ratios round by round: what disturbs a round disturbs both.
"""

import json
from statistics import median

import compare_chart
from compare_run import say, write_whole


def row(operation, case, threads, unit, speeds, pairs):
    """Medians of the contenders, and of the ratios of each pair (ours, other)."""
    return {"operation": operation, "case": case, "threads": threads, "unit": unit,
            "speed": {name: median(rounds) for name, rounds in speeds.items()},
            "pairs": [{"ours": ours, "other": other,
                       "ratio": median(a / b for a, b in zip(speeds[ours], speeds[other]))}
                      for ours, other in pairs],
            "rounds": len(next(iter(speeds.values())))}


def print_row(found):
    """The row as text."""
    print(f"\n{found['operation']}, {found['case']}, {found['threads']} "
          f"thread{'s' if found['threads'] > 1 else ''}: {found['unit']}, "
          f"median of {found['rounds']} rounds")
    for name, speed in found["speed"].items():
        ratios = "".join(f"   {p['ratio']:.2f}x {p['other']}" for p in found["pairs"]
                         if p["ours"] == name)
        print(f"  {name:<18} {speed:10.1f}{ratios}", flush=True)


def markdown(rows, about):
    """A table of speeds and one of ratios, a column for each case and number of threads."""
    columns = [f"{r['case']} x{r['threads']}" for r in rows]
    head = ["| " + " | ".join(["", *columns]) + " |", "|---" * (len(columns) + 1) + "|"]
    lines = [about, "", f"{rows[0]['unit']}:", "", *head]
    for name in rows[0]["speed"]:
        lines.append("| " + " | ".join([name, *(f"{r['speed'][name]:.0f}" for r in rows)]) + " |")
    lines += ["", "Ratios, above 1 multihead is faster:", "", *head]
    for i, pair in enumerate(rows[0]["pairs"]):
        cells = [f"{r['pairs'][i]['ratio']:.2f}" for r in rows]
        lines.append("| " + " | ".join([f"{pair['ours']} / {pair['other']}", *cells]) + " |")
    return "\n".join(lines) + "\n"


def chart_rows(rows):
    """The same for compare_chart: `dtype` is which of ours."""
    return [{"operation": r["operation"], "case": r["case"], "threads": r["threads"],
             "dtype": ours, "ratio": {p["other"]: p["ratio"] for p in r["pairs"]
                                      if p["ours"] == ours}}
            for ours in dict.fromkeys(p["ours"] for p in rows[0]["pairs"]) for r in rows]


def write_files(out, stem, rows, about, details):
    """stem.json, .svg and .md"""
    report = {"about": about, **details, "rows": rows}
    write_whole(out / f"{stem}.json", json.dumps(report, indent=1) + "\n")
    write_whole(out / f"{stem}.svg", compare_chart.draw(chart_rows(rows)))
    write_whole(out / f"{stem}.md", markdown(rows, about))
    say(f"wrote {out}/{stem}.json, .svg and .md")
