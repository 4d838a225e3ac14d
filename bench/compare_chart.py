# SPDX-License-Identifier: MIT
"""The bar chart of bench/compare.py, as SVG that is readable in light and dark."""

import html
import math

STYLE = """
.paper { fill: #ffffff } text { fill: #1f2328; font: 12px sans-serif }
.title { font-weight: bold } .small { fill: #59636e; font-size: 11px }
.grid { stroke: #d1d9e0 } .one { stroke: #1f2328; stroke-width: 1.5 }
.p0 { fill: #d1602b } .p1 { fill: #2f6fd0 } .p2 { fill: #8a63c7 } .p3 { fill: #57606a }
.p4 { fill: #2d8a4e } .p5 { fill: #b0357f }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9198a1 }
.grid { stroke: #30363d } .one { stroke: #e6edf3 }
.p0 { fill: #f0883e } .p1 { fill: #58a6ff } .p2 { fill: #bc8cff } .p3 { fill: #8b949e }
.p4 { fill: #56d364 } .p5 { fill: #f778ba }
}"""
LEFT, WIDTH, RIGHT, BAR, HEAD = 130, 560, 60, 14, 34
COLOURS = 6  # p0 to p5 in the style


class Chart:
    """Horizontal bars on a logarithmic axis, to the right of the 1x line where we are faster."""

    def __init__(self, rows):
        ratios = [r for row in rows for r in row["ratio"].values()] + [1.0]
        self.low = min(-1, math.floor(math.log2(min(ratios))))
        self.high = max(1, math.ceil(math.log2(max(ratios))))
        self.peers = list(dict.fromkeys(peer for row in rows for peer in row["ratio"]))
        self.parts, self.y = [], 76
        self.legend()

    def x(self, ratio):
        """Where a ratio is on the axis."""
        return LEFT + WIDTH * (math.log2(ratio) - self.low) / (self.high - self.low)

    def text(self, x, y, text, kind="", anchor="start"):
        """A line of text."""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
                          f'{html.escape(text)}</text>')

    def line(self, x, top, bottom, kind):
        """A vertical line."""
        self.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" '
                          f'class="{kind}"/>')

    def legend(self):
        """The heading, and a colour for each peer."""
        self.text(16, 26, "Time of others / time of multihead, one run", "title")
        self.text(16, 44, "right of the line 1x multihead is faster, left of it slower", "small")
        for i, peer in enumerate(self.peers):
            self.parts.append(f'<rect x="{LEFT + 100 * i}" y="54" width="12" height="12" '
                              f'class="p{i % COLOURS}"/>')
            self.text(LEFT + 100 * i + 17, 64, peer)

    def panel(self, title, rows):
        """The cases of one operation, dtype and number of threads."""
        top = self.y + HEAD
        bottom = top + sum(BAR * len(row["ratio"]) + 8 for row in rows)
        self.text(16, self.y + 16, title, "title")
        for power in range(self.low, self.high + 1):
            x = self.x(2.0 ** power)
            label = f"{2 ** power}x" if power >= 0 else f"1/{2 ** -power}x"
            self.line(x, top, bottom, "grid")
            self.text(x, top - 4, label, "small", "middle")
        self.y = top
        for row in rows:
            self.bars(row)
        self.line(self.x(1), top, bottom, "one")

    def bars(self, row):
        """One bar for each peer."""
        middle = self.y + 4 + BAR * len(row["ratio"]) / 2
        self.text(LEFT - 8, middle + 4, row["case"], "", "end")
        for peer, ratio in row["ratio"].items():
            begin, end = sorted((self.x(1), self.x(ratio)))
            self.parts.append(
                f'<rect x="{begin:.1f}" y="{self.y + 5}" width="{end - begin:.1f}" '
                f'height="{BAR - 2}" class="p{self.peers.index(peer) % COLOURS}"/>')
            at, anchor = (end + 4, "start") if ratio >= 1 else (begin - 4, "end")
            self.text(at, self.y + BAR + 1, f"{ratio:.2f}x", "small", anchor)
            self.y += BAR
        self.y += 8

    def svg(self):
        """The whole picture."""
        width, height = LEFT + WIDTH + RIGHT, self.y + 16
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img">\n'
                f'<title>multihead compared with other libraries</title>\n'
                f'<style>{STYLE}\n</style>\n<rect class="paper" width="100%" height="100%"/>\n'
                f'{body}\n</svg>\n')


def draw(rows):
    """The chart of all rows, a panel for each operation, dtype and number of threads."""
    chart, panels = Chart(rows), {}
    for row in rows:
        threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
        panels.setdefault(f"{row['operation']}, {row['dtype']}, {threads}", []).append(row)
    for title, members in panels.items():
        chart.panel(title, members)
    return chart.svg()
