# SPDX-License-Identifier: MIT
"""The ratios of bench/compare.py as Markdown, for docs/tuning/performance.md."""


def cell(row, peer, ours):
    """1.39, or ~1.39 if either time was disturbed, or - if the peer does not do the case."""
    if row is None or peer not in row["ratio"]:
        return "-"
    mark = "~" if {ours, peer} & set(row["disturbed"]) else ""
    return f"{mark}{row['ratio'][peer]:.2f}"


def section(name, title, rows, means, ours):
    """The table of one operation: a line a case, a column a dtype, number of threads and peer."""
    found = {(row["case"], row["dtype"], row["threads"]): row for row in rows}
    columns = [m for m in means if m["operation"] == name]
    names = [f"{m['peer']} {m['dtype']} x{m['threads']}" for m in columns]
    lines = ["| " + " | ".join(["case", *names]) + " |", "|---" * (len(names) + 1) + "|"]
    for case in dict.fromkeys(row["case"] for row in rows):
        cells = [cell(found.get((case, m["dtype"], m["threads"])), m["peer"], ours)
                 for m in columns]
        lines.append("| " + " | ".join([case, *cells]) + " |")
    for name, key in (("geometric mean", "ratio"), ("worst", "worst")):
        lines.append("| " + " | ".join([name, *(f"{m[key]:.2f}" for m in columns)]) + " |")
    return f"### {title[0].upper()}{title[1:]}\n\n" + "\n".join(lines) + "\n"


def draw(rows, means, about, titles, ours):
    """What was measured on which machine, and a table for each operation."""
    machine = about["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    head = f"{machine['cpu']}, {machine['cpus']} CPUs ({machine['features']}); {versions}.\n"
    if about["note"]:
        head += f"\nNote: {about['note']}.\n"
    parts = [section(name, title, [row for row in rows if row["operation"] == name], means, ours)
             for name, title in titles.items() if any(r["operation"] == name for r in rows)]
    return "\n".join([head, *parts])
