# SPDX-License-Identifier: MIT
"""Rows and tables of comparisons by rate: sentences/s, pictures/s, seconds of sound/s.

A row has the best time of each contender in one case, where a peer has several ways the fastest
one. Ratios are time of the peer / time of multihead: above 1 multihead is faster. `best f32` is the
fastest f32 peer of the case; those of other precisions are shown beside it.
"""

import json
import math

import compare_chart
from compare_run import say, write_whole

OURS, BEST = "multihead", "best f32"


def make_row(operation, case, amount, threads, best, errors, tolerance, others=()):
    """Of {(name, way): Timing} and {(name, way): error}; `amount` units are done per call, and
    `others` are the contenders that are not f32."""
    keys = {name: min((key for key in best if key[0] == name), key=best.get) for name, _ in best}
    ms = {name: 1e3 * best[key].seconds for name, key in keys.items()}
    ratio = {name: ms[name] / ms[OURS] for name in ms if name != OURS}
    ratio[BEST] = min(r for name, r in ratio.items() if name not in others)
    return {"operation": operation, "case": case, "dtype": "f32", "threads": threads, "ms": ms,
            "rate": {name: 1e3 * amount / time for name, time in ms.items()},
            "ratio": ratio, "way": {name: way for name, way in keys.values() if way},
            "disturbed": [name for name, key in keys.items() if best[key].disturbed],
            "error": {name: errors[key] for name, key in keys.items()},
            "wrong": [name for name, key in keys.items()
                      if name not in others and not errors[key] <= tolerance]}


def mean_ratios(rows):
    """(threads, peer) -> the geometric mean, the worst ratio, and where that is."""
    found = {}
    for row in rows:
        for peer in row["ratio"]:
            found.setdefault((row["threads"], peer), []).append((row["ratio"][peer], row["case"]))
    return [{"threads": threads, "peer": peer, "worst": min(ratios)[0],
             "worst_case": min(ratios)[1],
             "mean": math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))}
            for (threads, peer), ratios in found.items()]


def mark(row, name):
    """~ if the contender was preempted even in its best turn."""
    return "~" if name in row["disturbed"] else ""


def digits(value):
    """Three significant ones."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(lines):
    """Markdown, of lines of cells."""
    head, *body = ["| " + " | ".join(cells) + " |" for cells in lines]
    return [head, "|---" * len(lines[0]) + "|", *body]


def markdown(rows, means, unit, about):
    """Rates, then ratios, with a line per case and number of threads."""
    names, peers = (list(dict.fromkeys(n for row in rows for n in row[k])) for k in ("ms", "ratio"))
    speeds, ratios = [["case", "threads", *names]], [["case", "threads", *peers]]
    for row in rows:
        start = [row["case"], str(row["threads"])]
        speeds.append(start + [mark(row, n) + digits(row["rate"][n]) if n in row["rate"] else ""
                               for n in names])
        ratios.append(start + [f"{mark(row, OURS) or mark(row, p)}{row['ratio'][p]:.2f}"
                               if p in row["ratio"] else "" for p in peers])
    for key, name in (("mean", "geometric mean"), ("worst", "worst")):
        for threads in dict.fromkeys(m["threads"] for m in means):
            found = {m["peer"]: f"{m[key]:.2f}" for m in means if m["threads"] == threads}
            ratios.append([name, str(threads), *(found.get(p, "") for p in peers)])
    return "\n".join([about, "", f"{unit[0].upper()}{unit[1:]}/s:", "", *table(speeds), "",
                      "Time of the peer / time of multihead:", "", *table(ratios)]) + "\n"


def print_row(row, unit):
    """Rates and ratios of all contenders."""
    print(f"\n{row['case']}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}:"
          + (f"  WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""))
    for name, rate in row["rate"].items():
        ratio = f"{row['ratio'][name]:.2f}x" if name in row["ratio"] else ""
        print(f"  {name:<22} {mark(row, name) + digits(rate):>10} {unit}/s {ratio:>7}  "
              f"{row['way'].get(name, ''):<14} error {row['error'][name]:.1e}", flush=True)


def finish(name, rows, unit, about, build):
    """Prints the means, writes NAME.json, .svg and .md; the exit status: 1 if a result is wrong."""
    means = mean_ratios(rows)
    print(f"\n{about}\ngeometric mean of peer / multihead, and the worst case:")
    for m in means:
        print(f"  {m['threads']} thread{'s' if m['threads'] > 1 else ' '} {m['peer']:<22} "
              f"{m['mean']:5.2f}x  worst {m['worst']:.2f}x ({m['worst_case']})")
    report = {"about": about, "rows": rows, "geometric_means": means}
    write_whole(build / f"{name}.json", json.dumps(report, indent=1) + "\n")
    write_whole(build / f"{name}.svg", compare_chart.draw(rows))
    write_whole(build / f"{name}.md", markdown(rows, means, unit, about))
    say(f"wrote {build}/{name}.json, .svg and .md")
    return 1 if any(row["wrong"] for row in rows) else 0
