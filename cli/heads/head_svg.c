// SPDX-License-Identifier: MIT
// Tables of heads as a picture, and a page around it; see heads_parts.h.
//
//     name          prev next self ...  dist
//     0.0           [ 3] [61] [ 8] ...   1.4  next       a cell is as dark as its figure is large
//
// Only numbers and our own words are written, and the model's name, which is escaped. There is no
// script, and nothing is loaded. The picture is light or dark as the reader's system is.
#include "heads_parts.h"
#include "messages.h"
#include "translate/translate.h"

#include <math.h>
#include <multihead/io.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 96, TOP = 74, ROW = 22, CELL = 46, WIDE = 64, MARGIN = 24, NAME = 110, CHART = 220 };

typedef struct picture {
    FILE *to;
    const head_output *o;
    int width, height; // so far
} picture;

static const char style[] =
    "<style>\n"
    "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:#3a3f47;font-variant-numeric:tabular-nums}\n"
    ".back{fill:#fff}.name{font-size:17px;font-weight:600;fill:#1c1f24}\n"
    ".m{text-anchor:middle}.e{text-anchor:end}.b{fill:#fff}.f{fill:#7a818b}\n"
    ".c{fill:#0b5fa5}.n{stroke:#d55e00;stroke-width:2}\n"
    ".line{fill:none;stroke:#0b5fa5;stroke-width:2}.grid{stroke:#d5d8dd}\n"
    "@media(prefers-color-scheme:dark){\n"
    "text{fill:#c3c8d0}.back{fill:#15181d}.name{fill:#f0f2f5}.b{fill:#0d1014}.f{fill:#8b929c}\n"
    ".c{fill:#6cb8f0}.line{stroke:#6cb8f0}.grid{stroke:#2f353e}.n{stroke:#f0803c}\n"
    "}\n"
    "</style>\n";

// ---- elements -----------------------------------------------------------------------------------

static void put_escaped(FILE *to, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        default:
            putc((unsigned char)*text < ' ' || *text == 0x7F ? '?' : *text, to);
        }
}

static void put_words(const picture *p, const char *class, int x, int y, const char *words)
{
    fprintf(p->to, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    put_escaped(p->to, words);
    fputs("</text>\n", p->to);
}

// A cell `part` dark, with a figure, what it is of, and a frame if the head is named after it.
static void put_box(const picture *p, int x, int y, int width, double part, bool named,
                    const char *figure, const char *title)
{
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    fprintf(p->to,
            "<g><title>%s</title><rect class=\"c%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
            "fill-opacity=\"%.3f\"/><text class=\"m%s\" x=\"%d\" y=\"%d\">%s</text></g>\n",
            title, named ? " n" : "", x + 1, y + 1, width - 2, ROW - 2, 0.06 + 0.94 * part,
            part > 0.5 ? " b" : "", x + width / 2, y + ROW - 7, figure);
}

static void widen(picture *p, int width) { p->width = width > p->width ? width : p->width; }

// ---- where attention goes -----------------------------------------------------------------------

static void put_figures(picture *p, mh_trace_kind kind, const head_column *columns,
                        const mh_head_figures *f, const char *label, bool uniform, int y)
{
    char figure[24], title[120];
    int x = LEFT;
    put_words(p, "e", LEFT - 10, y + ROW - 7, label);
    for (const head_column *c = columns; c->label; c++) {
        if (f->queries[c->pattern] == 0)
            continue;
        const double value = uniform ? f->uniform[c->pattern] : f->weight[c->pattern];
        snprintf(figure, sizeof figure, "%.0f", 100 * value);
        snprintf(title, sizeof title, "%s: %s %.1f %%, uniform %.1f %%", label,
                 mh_head_pattern_name(kind, c->pattern), 100 * value, 100 * f->uniform[c->pattern]);
        put_box(p, x, y, CELL, value, !uniform && f->score[c->pattern] >= MH_HEAD_SCORE, figure,
                title);
        x += CELL;
    }
    snprintf(figure, sizeof figure, "%.1f", uniform ? f->uniform_distance : f->distance);
    put_words(p, "e", x + CELL - 6, y + ROW - 7, figure);
    if (!uniform)
        put_words(p, "", x + CELL + 8, y + ROW - 7, mh_head_name(kind, f));
    widen(p, x + CELL + NAME);
}

static void put_group(picture *p, mh_context *context, const mh_head_statistics *s,
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
    put_words(p, "name", MARGIN, y + 24, mh_trace_kind_name(kind));
    y += 34;
    for (const head_column *c = columns; c->label; c++) {
        if (f.queries[c->pattern] == 0)
            continue;
        fprintf(p->to, "<g><title>%s</title>", mh_head_pattern_name(kind, c->pattern));
        put_words(p, "m", x + CELL / 2, y + ROW - 7, c->label);
        fputs("</g>\n", p->to);
        x += CELL;
    }
    put_words(p, "e", x + CELL - 6, y + ROW - 7, DISTANCE_LABEL);
    y += ROW;
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

// ---- what is lost without a head ----------------------------------------------------------------

static void put_change(const picture *p, int x, int y, const char *how, const char *name,
                       double change, double most, bool bleu)
{
    char figure[32], title[120];
    const double harm = bleu ? -change : change;
    snprintf(figure, sizeof figure, bleu ? "%+.1f" : "%+.3f", change);
    snprintf(title, sizeof title, bleu ? "%s %s: BLEU %+.2f" : "%s %s: loss %+.4f", how, name,
             change);
    put_box(p, x, y, WIDE, most > 0 && harm > 0 ? sqrt(harm / most) : 0, false, figure, title);
}

static void put_grid(picture *p, const ablation *a, bool bleu, const head_loss *each,
                     const char *title)
{
    char row_name[24], name[48];
    double most = 0;
    int y = p->height + 34;
    for (size_t i = 0; i < a->rows * a->heads; i++) {
        const double change = ablation_change(a, &each[i], bleu);
        most = fmax(most, bleu ? -change : change);
    }
    put_words(p, "name", MARGIN, p->height + 24, title);
    const bool alone = each != a->each;
    for (size_t h = 0; h < a->heads + !alone; h++) {
        snprintf(name, sizeof name, "%zu", h);
        put_words(p, "m", LEFT + (int)h * WIDE + WIDE / 2 + (h == a->heads ? 8 : 0), y + ROW - 7,
                  h == a->heads ? "all" : name);
    }
    y += ROW;
    for (size_t row = 0; row < a->rows; row++, y += ROW) {
        ablation_row_name(a, row, row_name);
        put_words(p, "e", LEFT - 10, y + ROW - 7, row_name);
        for (size_t h = 0; h < a->heads; h++) {
            snprintf(name, sizeof name, "%s%c%zu", row_name, a->decoder ? '.' : ':', h);
            put_change(p, LEFT + (int)h * WIDE, y, alone ? "only" : "without", name,
                       ablation_change(a, &each[row * a->heads + h], bleu), most, bleu);
        }
        if (!alone)
            put_change(p, LEFT + (int)a->heads * WIDE + 8, y, "without", row_name,
                       ablation_change(a, &a->layers[row], bleu), most, bleu);
    }
    widen(p, LEFT + (int)(a->heads + 1) * WIDE + 8 + MARGIN);
    p->height = y + MARGIN;
}

static void put_curve(picture *p, const ablation *a, bool bleu)
{
    const size_t count = a->rows * a->heads;
    const int width = p->width - LEFT - MARGIN, top = p->height + 44, bottom = top + CHART;
    char label[48];
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i <= count; i++) {
        const head_loss *l = i ? &a->curve[i - 1] : &a->all_on;
        low = fmin(low, bleu ? l->bleu : l->loss);
        high = fmax(high, bleu ? l->bleu : l->loss);
    }
    put_words(p, "name", MARGIN, p->height + 24,
              bleu ? "BLEU with more and more heads off" : "Loss with more and more heads off");
    for (int tick = 0; tick <= 4; tick++) {
        const int y = bottom - CHART * tick / 4;
        snprintf(label, sizeof label, bleu ? "%.1f" : "%.3f", low + (high - low) * tick / 4);
        fprintf(p->to, "<line class=\"grid\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT, y,
                LEFT + width, y);
        put_words(p, "e", LEFT - 10, y + 4, label);
        snprintf(label, sizeof label, "%zu", count * (size_t)tick / 4);
        put_words(p, "m",
                  LEFT + (int)((double)width * (double)(count * (size_t)tick / 4) / (double)count),
                  bottom + 20, label);
    }
    fputs("<path class=\"line\" d=\"", p->to);
    for (size_t i = 0; i <= count; i++) {
        const head_loss *l = i ? &a->curve[i - 1] : &a->all_on;
        const double value = bleu ? l->bleu : l->loss;
        fprintf(p->to, "%s%.2f,%.2f", i ? "L" : "M", LEFT + width * (double)i / (double)count,
                bottom - (high > low ? (value - low) / (high - low) : 0) * CHART);
    }
    fputs("\"/>\n", p->to);
    put_words(p, "m", LEFT + width / 2, bottom + 40, "heads off, those first that cost least");
    p->height = bottom + 40 + MARGIN;
}

static void put_ablation(picture *p, const ablation *a)
{
    put_grid(p, a, false, a->each, "More loss without a head");
    if (a->alone)
        put_grid(p, a, false, a->alone, "More loss with a head as the only one of its layer");
    if (a->has_bleu)
        put_grid(p, a, true, a->each, "Change of BLEU without a head");
    if (a->has_bleu && a->alone)
        put_grid(p, a, true, a->alone, "Change of BLEU with a head as the only one of its layer");
    if (a->order)
        put_curve(p, a, false);
    if (a->order && a->has_bleu)
        put_curve(p, a, true);
}

// ---- the picture --------------------------------------------------------------------------------

// The size is known at the end, so that the picture is drawn into memory first.
static bool draw(const head_output *o, const mh_head_statistics *s, const ablation *a, FILE *to)
{
    char *bytes = NULL;
    size_t size = 0;
    picture p = {.to = open_memstream(&bytes, &size), .o = o, .height = TOP};
    char line[160];
    if (!p.to)
        return false;
    for (int kind = 0; s && kind < MH_TRACE_KINDS_MAX; kind++)
        put_group(&p, o->arguments->context, s, (mh_trace_kind)kind);
    if (a)
        put_ablation(&p, a);
    const bool failed = ferror(p.to) != 0;
    if (fclose(p.to) != 0 || failed) {
        free(bytes);
        return false;
    }
    widen(&p, 560);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"what heads do\">\n%s"
            "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n",
            p.width, p.height, p.width, p.height, style, p.width, p.height);
    p.to = to;
    fprintf(to, "<text class=\"name\" x=\"%d\" y=\"34\">", MARGIN);
    char *name = model_name(o->arguments->directory);
    put_escaped(to, name ? name : "model");
    free(name);
    fputs("</text>\n", to);
    if (a)
        snprintf(line, sizeof line, "loss %.3f per token, %zu tokens of %zu texts", a->all_on.loss,
                 a->tokens, o->texts);
    else
        snprintf(line, sizeof line, "%% of attention, mean of %zu texts; uniform: equal weights",
                 o->texts);
    put_words(&p, "f", MARGIN, 58, line);
    fwrite(bytes, 1, size, to);
    fputs("</svg>\n", to);
    free(bytes);
    return true;
}

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'\">\n"
    "<title>What heads do</title>\n<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "margin:2rem auto;max-width:60rem;padding:0 1rem}\n"
    "figure{margin:1rem 0;overflow-x:auto}\n</style>\n</head>\n<body>\n";

static const char of_statistics[] =
    "<h1>Where the attention of each head goes</h1>\n"
    "<p>A row is a head, LAYER.HEAD. A figure is the part of its attention, in %, that goes to "
    "keys "
    "of a kind, on average over the queries that have such a key. The first row is what a head "
    "with equal weights would have. Frames mark figures that are far above "
    "that: 30 % or more of the way to 100 %. Point at a cell to read it.</p>\n";

static const char of_ablation[] =
    "<h1>What the model loses without a head</h1>\n"
    "<p>A cell is the change of the loss per token when one head is switched off, the last column "
    "when all heads of the layer are. Where the heads of a layer cost little one by one and much "
    "together, they compensate for each other. Point at a cell to read it.</p>\n";

static bool put_page(const head_output *o, const mh_head_statistics *s, const ablation *a, FILE *to)
{
    fputs(page_head, to);
    fputs(s ? of_statistics : of_ablation, to);
    fputs("<figure>\n", to);
    const bool drawn = draw(o, s, a, to);
    fputs("</figure>\n</body>\n</html>\n", to);
    return drawn;
}

// ---- files --------------------------------------------------------------------------------------

static int save(const head_output *o, const mh_head_statistics *s, const ablation *a,
                const output *file, bool page)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);
    bool done = to && (page ? put_page : draw)(o, s, a, to);
    if (to) {
        done = done && !ferror(to);
        done = fclose(to) == 0 && done;
    }
    int code = EXIT_MEMORY;
    if (done) {
        begin_saving();
        mh_status status = mh_bytes_write(o->arguments->context, file->path, bytes, size);
        code = status ? complain_output(o->arguments->context, status, NULL) : EXIT_DONE;
        end_saving();
    } else {
        complain("out of memory for %s", file->path);
    }
    free(bytes);
    return code;
}

int save_pictures(const head_output *o, const mh_head_statistics *s, const ablation *a,
                  const output *files)
{
    int code = EXIT_DONE;
    for (int i = 0; i < FILE_COUNT && code == EXIT_DONE; i++)
        if (files[i].path)
            code = save(o, s, a, &files[i], i == FILE_PAGE);
    return code;
}
