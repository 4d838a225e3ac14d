// SPDX-License-Identifier: MIT
// Where attention goes, as a picture; see head_svg.h.
#include "head_svg.h"

// The name of a column, slanted, from the middle of its cells upwards.
static void put_heading(const svg_picture *p, int x, int y, const char *name)
{
    fprintf(p->to, "<g transform=\"translate(%d %d) rotate(-45)\">", x + CELL / 2, y - 6);
    svg_put_words(p, "", 0, 0, name);
    fputs("</g>\n", p->to);
}

static const char *kind_title(mh_trace_kind kind)
{
    switch (kind) {
    case MH_TRACE_ENCODER:
        return "encoder self-attention";
    case MH_TRACE_DECODER:
        return "decoder self-attention";
    case MH_TRACE_CROSS:
        return "cross-attention";
    default:
        return "attention";
    }
}

static void put_figures(svg_picture *p, mh_trace_kind kind, const head_column *columns,
                        const mh_head_figures *f, const char *label, bool uniform, int y)
{
    char figure[24], title[120];
    int x = LEFT;
    svg_put_words(p, "e", LEFT - 10, y + ROW - 7, label);
    for (const head_column *c = columns; c->label; c++) {
        if (f->queries[c->pattern] == 0)
            continue;
        const double value = uniform ? f->uniform[c->pattern] : f->weight[c->pattern];
        snprintf(figure, sizeof figure, "%.0f", 100 * value);
        snprintf(title, sizeof title, "%s: %s %.1f %%, uniform %.1f %%", label,
                 mh_head_pattern_name(kind, c->pattern), 100 * value, 100 * f->uniform[c->pattern]);
        svg_put_box(p, x, y, CELL, value, !uniform && f->score[c->pattern] >= MH_HEAD_SCORE, figure,
                    title);
        x += CELL;
    }
    snprintf(figure, sizeof figure, "%.1f", uniform ? f->uniform_distance : f->distance);
    svg_put_words(p, "e", x + CELL - 6, y + ROW - 7, figure);
    if (!uniform)
        svg_put_words(p, "", x + CELL + 8, y + ROW - 7, mh_head_name(kind, f));
    svg_widen(p, x + CELL + NAME);
}

void svg_put_group(svg_picture *p, mh_context *context, const mh_head_statistics *s,
                   mh_trace_kind kind)
{
    size_t layers, heads;
    bool is_picture;
    mh_head_figures f = mh_head_figures_default();
    char label[48];
    if (!mh_head_statistics_size(s, kind, &layers, &heads, &is_picture) ||
        mh_head_statistics_read(context, s, kind, 0, 0, &f))
        return;
    const head_column *columns = head_columns(kind, is_picture);
    int x = LEFT, y = p->height;
    svg_put_words(p, "name", MARGIN, y + 24, kind_title(kind));
    y += 34 + HEADING;
    for (const head_column *c = columns; c->label; c++) {
        if (f.queries[c->pattern] == 0)
            continue;
        put_heading(p, x, y, mh_head_pattern_name(kind, c->pattern));
        x += CELL;
    }
    put_heading(p, x, y, "distance");
    put_figures(p, kind, columns, &f, "uniform", true, y);
    y += ROW + 4;
    for (size_t i = 0; i < layers * heads; i++, y += ROW) {
        if (mh_head_statistics_read(context, s, kind, i / heads, i % heads, &f))
            return;
        snprintf(label, sizeof label, "%zu.%zu", i / heads, i % heads);
        put_figures(p, kind, columns, &f, label, false, y);
    }
    p->height = y + MARGIN;
}
