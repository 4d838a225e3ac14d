// SPDX-License-Identifier: MIT
// What is lost without a head, as a picture; see head_svg.h.
#include "head_svg.h"

#include <math.h>
#include <string.h>

static void put_change(const svg_picture *p, int x, int y, const char *how, const char *name,
                       double change, double most, bool bleu)
{
    char figure[32], title[120];
    const double harm = bleu ? -change : change;
    snprintf(figure, sizeof figure, bleu ? "%+.1f" : "%+.3f", change);
    snprintf(title, sizeof title, bleu ? "%s %s: BLEU %+.2f" : "%s %s: loss %+.4f", how, name,
             change);
    svg_put_box(p, x, y, WIDE, most > 0 && harm > 0 ? sqrt(harm / most) : 0, false, figure, title);
}

// "encoder 0", "cross 2"; of one stack "layer 0".
static void row_title(const ablation *a, size_t row, char title[48])
{
    char name[24];
    ablation_row_name(a, row, name);
    const char *dot = strchr(name, '.');
    const char *of = !dot                            ? "layer"
                     : strncmp(name, "enc.", 4) == 0 ? "encoder"
                     : strncmp(name, "dec.", 4) == 0 ? "decoder"
                                                     : "cross";
    snprintf(title, 48, "%s %s", of, dot ? dot + 1 : name);
}

static void put_grid(svg_picture *p, const ablation *a, bool bleu, const head_loss *each,
                     const char *title)
{
    char row_name[24], name[48];
    double most = 0;
    int y = p->height + 34;
    for (size_t i = 0; i < a->rows * a->heads; i++) {
        const double change = ablation_change(a, &each[i], bleu);
        most = fmax(most, bleu ? -change : change);
    }
    svg_put_words(p, "name", MARGIN, p->height + 24, title);
    const bool alone = each != a->each;
    for (size_t h = 0; h < a->heads + (alone ? 0 : 2); h++) {
        snprintf(name, sizeof name, "head %zu", h);
        svg_put_words(p, "m", LEFT + (int)h * WIDE + WIDE / 2 + (h >= a->heads ? 8 : 0),
                      y + ROW - 7,
                      h == a->heads  ? "all heads"
                      : h > a->heads ? "sum"
                                     : name);
    }
    y += ROW;
    for (size_t row = 0; row < a->rows; row++, y += ROW) {
        double sum = 0;
        ablation_row_name(a, row, row_name);
        row_title(a, row, name);
        svg_put_words(p, "e", LEFT - 10, y + ROW - 7, name);
        for (size_t h = 0; h < a->heads; h++) {
            const double change = ablation_change(a, &each[row * a->heads + h], bleu);
            snprintf(name, sizeof name, "%s%c%zu", row_name, a->decoder ? '.' : ':', h);
            put_change(p, LEFT + (int)h * WIDE, y, alone ? "only" : "without", name, change, most,
                       bleu);
            sum += change;
        }
        if (alone)
            continue;
        put_change(p, LEFT + (int)a->heads * WIDE + 8, y, "without", row_name,
                   ablation_change(a, &a->layers[row], bleu), most, bleu);
        snprintf(name, sizeof name, bleu ? "%+.1f" : "%+.3f", sum);
        svg_put_words(p, "m", LEFT + (int)(a->heads + 1) * WIDE + WIDE / 2 + 8, y + ROW - 7, name);
    }
    svg_widen(p, LEFT + (int)(a->heads + 2) * WIDE + 8 + MARGIN);
    p->height = y + MARGIN;
}

static void put_curve(svg_picture *p, const ablation *a, bool bleu)
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
    svg_put_words(p, "name", MARGIN, p->height + 24,
                  bleu ? "BLEU with more and more heads off" : "Loss with more and more heads off");
    for (int tick = 0; tick <= 4; tick++) {
        const int y = bottom - CHART * tick / 4;
        snprintf(label, sizeof label, bleu ? "%.1f" : "%.3f", low + (high - low) * tick / 4);
        fprintf(p->to, "<line class=\"grid\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT, y,
                LEFT + width, y);
        svg_put_words(p, "e", LEFT - 10, y + 4, label);
        snprintf(label, sizeof label, "%zu", count * (size_t)tick / 4);
        svg_put_words(p, "m",
                      LEFT +
                          (int)((double)width * (double)(count * (size_t)tick / 4) / (double)count),
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
    svg_put_words(p, "m", LEFT + width / 2, bottom + 40, "heads off, those first that cost least");
    p->height = bottom + 40 + MARGIN;
}

void svg_put_ablation(svg_picture *p, const ablation *a)
{
    put_grid(p, a, false, a->each, "Increase in loss without each head");
    if (a->alone)
        put_grid(p, a, false, a->alone,
                 "Increase in loss with a head as the only one of its layer");
    if (a->has_bleu)
        put_grid(p, a, true, a->each, "Change of BLEU without each head");
    if (a->has_bleu && a->alone)
        put_grid(p, a, true, a->alone, "Change of BLEU with a head as the only one of its layer");
    if (a->order)
        put_curve(p, a, false);
    if (a->order && a->has_bleu)
        put_curve(p, a, true);
}
