// SPDX-License-Identifier: MIT
// What is lost without a head, as text and as JSON; see heads_parts.h.
//
//     loss 1.102 per token of 500 translations (4,812 tokens)
//     increase in loss without each head, without all of its layer, and the sum of its heads
//                   0       1       2       3      all     sum
//     enc.0    +0.012  -0.001  +0.030  +0.004   +0.081  +0.045
#include "heads_parts.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 9, CELL = 8, CHART_LABEL = 9, CHART_ROWS = 8 };

// A table of changes, of the loss or of BLEU.
typedef struct changes {
    const head_output *o;
    const ablation *a;
    bool bleu;
    const head_loss *each; // (rows, heads): without a head, or with it alone
    double most;           // the brightest cell
} changes;

static double change_of(const changes *c, const head_loss *without)
{
    return ablation_change(c->a, without, c->bleu);
}

static double harm_of(const changes *c, double change)
{
    const double harm = c->bleu ? -change : change;
    return harm > 0 && c->most > 0 ? harm / c->most : 0;
}

static void put_change(const changes *c, double change)
{
    char text[32];
    snprintf(text, sizeof text, c->bleu ? "%+*.1f" : "%+*.3f", CELL - 1, change);
    putchar(' ');
    put_shaded(c->o->colours, sqrt(harm_of(c, change)), text);
}

static double sum_of_row(const changes *c, size_t row)
{
    double sum = 0;
    for (size_t h = 0; h < c->a->heads; h++)
        sum += change_of(c, &c->each[row * c->a->heads + h]);
    return sum;
}

// Heads `first` to `end`, and after the last one the layer.
static void put_block(const changes *c, size_t first, size_t end)
{
    const bool last = end == c->a->heads && c->each == c->a->each;
    char name[24];
    printf("%-*s", LABEL, "");
    for (size_t h = first; h < end; h++)
        printf("%*zu", CELL, h);
    printf(last ? "%*s%*s\n" : "\n", CELL, "all", CELL, "sum");
    for (size_t row = 0; row < c->a->rows; row++) {
        ablation_row_name(c->a, row, name);
        printf("%-*s", LABEL, name);
        for (size_t h = first; h < end; h++)
            put_change(c, change_of(c, &c->each[row * c->a->heads + h]));
        if (last) {
            put_change(c, change_of(c, &c->a->layers[row]));
            printf("%+*.*f", CELL, c->bleu ? 1 : 3, sum_of_row(c, row));
        }
        putchar('\n');
    }
}

static void put_changes(const head_output *o, const ablation *a, bool bleu, const head_loss *each)
{
    changes c = {o, a, bleu, each, 0};
    for (size_t i = 0; i < a->rows * a->heads; i++) {
        const double change = change_of(&c, &each[i]), harm = bleu ? -change : change;
        c.most = fmax(c.most, harm);
    }
    // The layer's two columns come after the last head, in the same block.
    const size_t fit = o->width > LABEL + 3 * CELL ? (o->width - LABEL) / CELL - 2 : 1;
    for (size_t first = 0; first < a->heads; first += fit) {
        put_block(&c, first, a->heads - first < fit ? a->heads : first + fit);
        putchar('\n');
    }
}

static const char *tokens_of(const ablation *a)
{
    return a->kind == MH_LOSS_TARGET   ? "of the given translations"
           : a->kind == MH_LOSS_MASKED ? "that is masked"
                                       : "given those before it";
}

// ---- the curve ----------------------------------------------------------------------------------

// With i heads off, 0 to all.
static double curve_loss(const ablation *a, size_t i)
{
    return i ? a->curve[i - 1].loss : a->all_on.loss;
}

static void put_chart(const ablation *a, size_t width)
{
    static const char *const blocks[] = {" ",
                                         "\xE2\x96\x81",
                                         "\xE2\x96\x82",
                                         "\xE2\x96\x83",
                                         "\xE2\x96\x84",
                                         "\xE2\x96\x85",
                                         "\xE2\x96\x86",
                                         "\xE2\x96\x87",
                                         "\xE2\x96\x88"};
    const size_t points = a->rows * a->heads + 1;
    const size_t room = width > CHART_LABEL + 10 ? width - CHART_LABEL - 1 : 10;
    const size_t each = points <= room ? room / points < 4 ? room / points : 4 : 1;
    const size_t columns = points <= room ? points * each : room;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < points; i++) {
        low = fmin(low, curve_loss(a, i));
        high = fmax(high, curve_loss(a, i));
    }
    for (int row = CHART_ROWS - 1; row >= 0; row--) {
        const double label = row ? high : low;
        if (row == 0 || row == CHART_ROWS - 1)
            printf("%*.3f ", CHART_LABEL - 1, label);
        else
            printf("%*s", CHART_LABEL, "");
        size_t blanks = 0; // written when a block follows
        for (size_t column = 0; column < columns; column++) {
            const double at = curve_loss(a, column * points / columns);
            const double height = high > low ? (at - low) / (high - low) : 0;
            const int eighths = 1 + (int)(height * (CHART_ROWS * 8 - 1) + 0.5) - 8 * row;
            if (eighths <= 0) {
                blanks++;
                continue;
            }
            printf("%*s%s", (int)blanks, "", blocks[eighths > 8 ? 8 : eighths]);
            blanks = 0;
        }
        putchar('\n');
    }
    printf("%*s0%*zu heads off\n", CHART_LABEL, "", (int)columns - 1, points - 1);
}

// How many heads can be off for so much more loss.
static void put_milestones(const ablation *a)
{
    static const int percents[] = {1, 5, 10, 50};
    const size_t count = a->rows * a->heads;
    for (size_t m = 0; m < sizeof percents / sizeof *percents; m++) {
        size_t off = 0;
        while (off < count && curve_loss(a, off + 1) <= a->all_on.loss * (1 + percents[m] / 100.0))
            off++;
        printf("up to %zu of %zu heads off: at most %d %% more loss\n", off, count, percents[m]);
    }
}

void print_ablation(const head_output *o, const ablation *a)
{
    printf("loss %.3f per token %s, %zu tokens of %zu text%s", a->all_on.loss, tokens_of(a),
           a->tokens, a->texts, a->texts == 1 ? "" : "s");
    if (a->has_bleu)
        printf("; BLEU %.1f, greedy", a->all_on.bleu);
    printf("\n\nIncrease in loss without each head; without its whole layer; sum of the heads\n");
    put_changes(o, a, false, a->each);
    if (a->alone) {
        printf("Increase in loss with a head as the only one of its layer\n");
        put_changes(o, a, false, a->alone);
    }
    if (a->has_bleu) {
        printf("Change of BLEU without each head; without its whole layer; sum\n");
        put_changes(o, a, true, a->each);
    }
    if (a->has_bleu && a->alone) {
        printf("Change of BLEU with a head as the only one of its layer\n");
        put_changes(o, a, true, a->alone);
    }
    if (a->order) {
        printf("Loss with more and more heads off, those first whose absence costs least\n");
        put_chart(a, o->width);
        put_milestones(a);
    }
}

// ---- JSON ---------------------------------------------------------------------------------------

static void put_loss_json(const ablation *a, const head_loss *loss)
{
    printf("\"loss\": %.9g", loss->loss);
    if (a->has_bleu)
        printf(", \"bleu\": %.9g", loss->bleu);
}

static void put_head_name_json(const ablation *a, size_t i)
{
    char row[24];
    ablation_row_name(a, i / a->heads, row);
    printf("\"%s%s%zu\"", row, a->decoder ? "." : ":", i % a->heads);
}

static void put_heads_json(const ablation *a, const char *key, const head_loss *each)
{
    printf(", \"%s\": [", key);
    for (size_t i = 0; i < a->rows * a->heads; i++) {
        printf("%s{\"head\": ", i ? ", " : "");
        put_head_name_json(a, i);
        printf(", ");
        put_loss_json(a, &each[i]);
        putchar('}');
    }
    putchar(']');
}

void print_ablation_json(const ablation *a)
{
    static const char *const kinds[] = {[MH_LOSS_NEXT_TOKEN] = "next token",
                                        [MH_LOSS_TARGET] = "target",
                                        [MH_LOSS_MASKED] = "masked"};
    const size_t count = a->rows * a->heads;
    char row[24];
    printf("{\"texts\": %zu, \"tokens\": %zu, \"loss_of\": \"%s\", ", a->texts, a->tokens,
           kinds[a->kind]);
    put_loss_json(a, &a->all_on);
    put_heads_json(a, "without_head", a->each);
    if (a->alone)
        put_heads_json(a, "alone", a->alone);
    printf(", \"without_layer\": [");
    for (size_t i = 0; i < a->rows; i++) {
        ablation_row_name(a, i, row);
        printf("%s{\"layer\": \"%s\", ", i ? ", " : "", row);
        put_loss_json(a, &a->layers[i]);
        putchar('}');
    }
    printf("]");
    for (size_t i = 0; a->order && i < count; i++) {
        printf(i ? ", {\"off\": %zu, \"head\": " : ", \"curve\": [{\"off\": %zu, \"head\": ",
               i + 1);
        put_head_name_json(a, a->order[i]);
        printf(", ");
        put_loss_json(a, &a->curve[i]);
        putchar('}');
    }
    printf(a->order ? "]}\n" : "}\n");
}
