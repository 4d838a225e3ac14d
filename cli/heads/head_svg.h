// SPDX-License-Identifier: MIT
// The picture of tables of heads while it is drawn: head_svg.c has its elements and its frame,
// statistics_svg.c where attention goes, ablation_svg.c what is lost without a head.
#ifndef CLI_HEAD_SVG_H
#define CLI_HEAD_SVG_H

#include "heads_parts.h"

enum {
    LEFT = 96,
    TOP = 74,
    ROW = 22,
    CELL = 46,
    WIDE = 64,
    MARGIN = 24,
    NAME = 110,
    CHART = 220,
    HEADING = 76, // of names of columns, which are slanted
};

typedef struct svg_picture {
    FILE *to;
    const head_output *o;
    int width, height; // so far
} svg_picture;

void svg_put_words(const svg_picture *p, const char *class, int x, int y, const char *words);

// A cell `part` dark, with a figure, what it is of, and a frame if the head is named after it.
void svg_put_box(const svg_picture *p, int x, int y, int width, double part, bool named,
                 const char *figure, const char *title);

void svg_widen(svg_picture *p, int width);

void svg_put_group(svg_picture *p, mh_context *context, const mh_head_statistics *s,
                   mh_trace_kind kind);
void svg_put_ablation(svg_picture *p, const ablation *a);

#endif
