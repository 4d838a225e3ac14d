#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the pictures of this directory: clothes as Fashion-MNIST has them, 28 x 28, light on black.

usage: draw.py        writes shirt.pgm and trousers.pgm here
"""
import pathlib

SIDE, FINE = 28, 8  # pixels, and samples of a pixel, each way
SHIRT = [(9, 3), (12, 4.5), (16, 4.5), (19, 3), (25, 7.5), (22.5, 12), (20, 10.5), (20, 25), (8, 25), (8, 10.5),
         (5.5, 12), (3, 7.5)]
TROUSERS = [(9.5, 2), (18.5, 2), (20.5, 26), (16, 26), (14, 9), (12, 26), (7.5, 26)]


def inside(x, y, outline):
    """Whether an odd number of edges is to the right."""
    edges = zip(outline, outline[1:] + outline[:1])
    return sum((ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay) for (ax, ay), (bx, by) in edges) % 2


def draw(outline):
    """Rows of gray values, lighter in the middle as cloth is."""
    places = [(i + 0.5) / FINE for i in range(FINE)]
    for y in range(SIDE):
        row = []
        for x in range(SIDE):
            covered = sum(inside(x + dx, y + dy, outline) for dy in places for dx in places) / FINE ** 2
            row.append(round(covered * (205 - 3 * abs(x - SIDE / 2) + 8 * ((x + y) % 2))))
        yield row


for name, outline in (("shirt", SHIRT), ("trousers", TROUSERS)):
    lines = "\n".join(" ".join(f"{value:3}" for value in row) for row in draw(outline))
    pathlib.Path(__file__).with_name(f"{name}.pgm").write_text(f"P2\n{SIDE} {SIDE} 255\n{lines}\n", encoding="ascii")
