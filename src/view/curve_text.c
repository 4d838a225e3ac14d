// SPDX-License-Identifier: MIT
// The curve for a terminal: figures, and below them the series as block charts, with a common axis
// of updates.
//
//     updates          29,320, 40.0 epochs
//     training loss    1.231, best 1.230 at update 29,200
//
//     training loss
//     9.2 █▃
//         ██▆▄▃▂▂▁▁
//     1.2 █████████████▇▇▇▇▇▇
//
// A column is the mean over its range of updates; one without values repeats the last.
#include "view/curve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/chart_axis.h"

enum { LOSS_ROWS = 8, VALIDATION_ROWS = 4, LABEL = 9, EIGHTHS = 8 };

static const struct {
    const char *name;
    int decimals, rows;
} looks[MH_RUN_SERIES] = {[MH_RUN_LOSS] = {"training loss", 3, LOSS_ROWS},
                          [MH_RUN_VALID_LOSS] = {"validation loss", 3, VALIDATION_ROWS},
                          [MH_RUN_BLEU] = {"BLEU", 2, VALIDATION_ROWS}};

typedef struct drawing {
    mh_appender *to;
    const mh_run_history *history;
    size_t columns;
    double *means; // (columns); NAN before the first value
} drawing;

// ---- figures ------------------------------------------------------------------------------------

static void put_figures(const drawing *d, int which)
{
    const mh_run_series *s = &d->history->series[which];
    const mh_run_point *best = which == MH_RUN_BLEU ? mh_run_highest(s) : mh_run_lowest(s);
    mh_append_format(d->to, "%-17s", looks[which].name);
    mh_append_number(d->to, mh_run_last(s)->value, looks[which].decimals);
    mh_append_string(d->to, ", best ");
    mh_append_number(d->to, best->value, looks[which].decimals);
    mh_append_string(d->to, " at update ");
    mh_append_count(d->to, best->update);
    mh_curve_append_smoothing(d->to, d->history, which);
    mh_append_string(d->to, "\n");
}

static void put_summary(const drawing *d)
{
    mh_append_format(d->to, "%-17s", "updates");
    mh_append_count(d->to, d->history->last_update);
    mh_append_string(d->to, ", ");
    mh_append_number(d->to, d->history->last_epoch, 1);
    mh_append_string(d->to, " epochs\n");
    for (int which = 0; which < MH_RUN_SERIES; which++)
        if (d->history->series[which].count != 0)
            put_figures(d, which);
}

// ---- blocks -------------------------------------------------------------------------------------

static void fill_means(const drawing *d, const mh_run_series *s)
{
    const double last = fmax(d->history->last_update, 1);
    double mean = NAN;
    size_t i = 0;
    for (size_t column = 0; column < d->columns; column++) {
        const double end = last * (double)(column + 1) / (double)d->columns;
        double sum = 0;
        size_t count = 0;
        for (; i < s->count && (s->points[i].update <= end || column + 1 == d->columns); i++) {
            sum += s->points[i].value;
            count++;
        }
        mean = count ? sum / (double)count : mean;
        d->means[column] = mean;
    }
}

// Row `row` from below of a bar `eighths` high.
static const char *block(int eighths, int row)
{
    static const char *const blocks[EIGHTHS + 1] = {" ",
                                                    "\xE2\x96\x81",
                                                    "\xE2\x96\x82",
                                                    "\xE2\x96\x83",
                                                    "\xE2\x96\x84",
                                                    "\xE2\x96\x85",
                                                    "\xE2\x96\x86",
                                                    "\xE2\x96\x87",
                                                    "\xE2\x96\x88"};
    int here = eighths - row * EIGHTHS;
    return blocks[here < 0 ? 0 : here > EIGHTHS ? EIGHTHS : here];
}

// Eight columns, right-aligned, followed by a space.
static void curve_put_label(const drawing *d, double value, int decimals)
{
    mh_appender number = {.context = d->to->context};
    mh_append_number(&number, value, decimals);
    if (number.failed)
        d->to->failed = true;
    else
        mh_append_format(d->to, "%*s", LABEL - 1, number.buffer.data);
    mh_buffer_free(d->to->context, &number.buffer);
}

// Spaces are held in `blanks` until a block follows, so that no line ends with one.
static void put_row(const drawing *d, int row, int rows, size_t blanks, double low, double high)
{
    const double range = high > low ? high - low : 1;
    for (size_t column = 0; column < d->columns; column++) {
        const double mean = d->means[column];
        int eighths =
            isnan(mean) ? 0 : 1 + (int)((mean - low) / range * (rows * EIGHTHS - 1) + 0.5);
        const char *shown = block(eighths, row);
        if (*shown == ' ') {
            blanks++;
            continue;
        }
        for (; blanks > 0; blanks--)
            mh_append_string(d->to, " ");
        mh_append_string(d->to, shown);
    }
    mh_append_string(d->to, "\n");
}

static void curve_put_series(const drawing *d, int which)
{
    const mh_run_series *s = &d->history->series[which];
    const int rows = looks[which].rows;
    double low = INFINITY, high = -INFINITY;
    if (s->count < 2) // the figures are enough
        return;
    fill_means(d, s);
    for (size_t column = 0; column < d->columns; column++) {
        low = fmin(low, d->means[column]); // ignores NAN
        high = fmax(high, d->means[column]);
    }
    mh_append_format(d->to, "\n%s\n", looks[which].name);
    for (int row = rows - 1; row >= 0; row--) {
        const bool labelled = row == rows - 1 || row == 0;
        if (labelled)
            curve_put_label(d, row == 0 ? low : high, looks[which].decimals);
        put_row(d, row, rows, labelled ? 1 : LABEL, low, high);
    }
}

mh_status mh_curve_draw_text(mh_context *context, const mh_run_history *history, size_t width,
                             mh_buffer *text)
{
    mh_appender to = {.context = context};
    drawing d = {.to = &to, .history = history, .columns = width - LABEL};
    d.means = mh_alloc(context, d.columns * sizeof *d.means);
    if (d.means == NULL)
        return MH_ERROR_MEMORY;
    put_summary(&d);
    for (int which = 0; which < MH_RUN_SERIES; which++)
        curve_put_series(&d, which);
    mh_free(context, d.means, d.columns * sizeof *d.means);
    return mh_append_finish(&to, MH_OK, text);
}
