// SPDX-License-Identifier: MIT
// The curve as an image:
//
//     Training: 29,320 updates, 40.0 epochs
//     --- training loss 1.23 (label smoothing 0.1)  -o- validation loss 1.30  -<>- BLEU 31.4
//              0     10     20     30     40               epochs
//           6 +---------------------------+ 40
//      loss   |                           |    BLEU
//           0 +---------------------------+ 0
//             0       10,000      20,000                   updates
//
// Only numbers of the log are written, so that nothing has to be escaped. The palette is
// colour-blind safe (Okabe and Ito's, lighter on a dark background), and lines also differ by
// dashes and marks. Viewers without media queries show the light version. CSS variables would be
// shorter, but viewers outside of browsers lack them.
#include "view/curve.h"

#include <math.h>

#include "view/chart_axis.h"

enum { WIDTH = 960, HEIGHT = 540, LEFT = 76, RIGHT = 884, TOP = 120, BOTTOM = 476 };
enum { MARKS_MAX = 80 }; // more would hide the line
enum { BLEU_MOST = 100 };

typedef struct chart {
    mh_context *context;
    mh_appender *to;
    const mh_run_history *history;
    mh_axis updates, epochs, loss, bleu;
    mh_run_point *points; // (MH_CURVE_POINTS_MAX)
} chart;

static const struct {
    const char *class, *name;
    int decimals;
} looks[MH_RUN_SERIES] = {[MH_RUN_LOSS] = {"train", "training loss", 3},
                          [MH_RUN_VALID_LOSS] = {"valid", "validation loss", 3},
                          [MH_RUN_BLEU] = {"bleu", "BLEU", 2}};

static const char style[] =
    "<style>\n"
    "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:#4a4f57;font-variant-numeric:tabular-nums}\n"
    "path,line{fill:none}\n"
    ".back{fill:#fff}.name{font-size:19px;font-weight:600;fill:#1c1f24}\n"
    ".grid{stroke:#e4e6ea}.frame{stroke:#a2a8b0}\n"
    ".m{text-anchor:middle}.e{text-anchor:end}\n"
    ".best{font-weight:600;stroke:#fff;stroke-width:4px;stroke-linejoin:round;"
    "paint-order:stroke}\n"
    ".train,.valid,.bleu{stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
    ".train{stroke:#0072b2;stroke-width:1.5}.valid{stroke:#d55e00}.bleu{stroke:#007a59}\n"
    "path.bleu{stroke-dasharray:7 5}\n"
    "path.mark{stroke-dasharray:none}\n"
    ".mark{fill:#fff;stroke-width:1.8}.bleu.top{fill:#007a59}text.right{fill:#007a59}\n"
    "@media(prefers-color-scheme:dark){\n"
    "text{fill:#b4bac3}.back{fill:#15181d}.name{fill:#f0f2f5}\n"
    ".grid{stroke:#2a2f37}.frame{stroke:#666e79}.best{stroke:#15181d}\n"
    ".train{stroke:#56b4e9}.valid{stroke:#f0803c}.bleu{stroke:#3ccf9f}\n"
    ".mark{fill:#15181d}.bleu.top{fill:#3ccf9f}text.right{fill:#3ccf9f}\n"
    "}\n"
    "</style>\n";

// ---- elements -----------------------------------------------------------------------------------

static void svg_put(const chart *c, const char *text) { mh_append_string(c->to, text); }

// NAME="12.34"
static void put_coordinate(const chart *c, const char *name, double coordinate)
{
    mh_append_format(c->to, " %s=\"", name);
    mh_append_number(c->to, coordinate, 2);
    svg_put(c, "\"");
}

static void svg_put_line(const chart *c, const char *class, double x1, double y1, double x2,
                         double y2)
{
    mh_append_format(c->to, "<line class=\"%s\"", class);
    put_coordinate(c, "x1", x1);
    put_coordinate(c, "y1", y1);
    put_coordinate(c, "x2", x2);
    put_coordinate(c, "y2", y2);
    svg_put(c, "/>\n");
}

// Opens a text; what follows is its content and svg_put(c, "</text>\n").
static void begin_text(const chart *c, const char *class, double x, double y)
{
    mh_append_format(c->to, "<text class=\"%s\"", class);
    put_coordinate(c, "x", x);
    put_coordinate(c, "y", y);
    svg_put(c, ">");
}

static void put_where(const chart *c, const mh_run_point *p)
{
    svg_put(c, "update ");
    mh_append_count(c->to, p->update);
    svg_put(c, ", epoch ");
    mh_append_number(c->to, p->epoch, p->epoch == floor(p->epoch) ? 0 : 2);
}

static double x_of(const chart *c, const mh_run_point *p)
{
    return mh_axis_coordinate(&c->updates, p->update);
}

static double y_of(const chart *c, int which, const mh_run_point *p)
{
    return mh_axis_coordinate(which == MH_RUN_BLEU ? &c->bleu : &c->loss, p->value);
}

static const mh_run_series *series_of(const chart *c, int which)
{
    return &c->history->series[which];
}

// ---- axes ---------------------------------------------------------------------------------------

static void find_loss_range(const mh_run_history *h, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int which = MH_RUN_LOSS; which <= MH_RUN_VALID_LOSS; which++)
        if (h->series[which].count != 0) {
            *low = fmin(*low, mh_run_lowest(&h->series[which])->value);
            *high = fmax(*high, mh_run_highest(&h->series[which])->value);
        }
}

static void make_axes(chart *c)
{
    enum { X_STEPS = 10, Y_STEPS = 6 };
    const mh_run_history *h = c->history;
    const mh_run_series *bleu = series_of(c, MH_RUN_BLEU);
    double low, high, best = bleu->count ? mh_run_highest(bleu)->value : 0;
    find_loss_range(h, &low, &high);
    c->updates = mh_axis_make(0, fmax(h->last_update, 1), X_STEPS, 1);
    c->epochs = mh_axis_make(0, h->last_epoch, X_STEPS, h->last_epoch >= 2 ? 1 : 0);
    c->loss = mh_axis_make_round(low, high, Y_STEPS);
    best = fmin(fmax(best * 1.1, 1), BLEU_MOST); // room for the best one's label
    c->bleu = mh_axis_make_round(0, best, Y_STEPS);
    c->updates.from = LEFT;
    c->updates.to = RIGHT;
    c->loss.from = c->bleu.from = BOTTOM;
    c->loss.to = c->bleu.to = TOP;
}

// The update at which an epoch began, interpolated between the nearest points of the log.
static double update_of_epoch(const mh_run_history *h, double epoch)
{
    mh_run_point below = {0}, above = {.update = h->last_update, .epoch = h->last_epoch};
    for (int which = MH_RUN_LOSS; which <= MH_RUN_VALID_LOSS; which++)
        for (size_t i = 0; i < h->series[which].count; i++) {
            const mh_run_point *p = &h->series[which].points[i];
            if (p->epoch <= epoch && p->update > below.update)
                below = *p;
            if (p->epoch >= epoch && p->update < above.update)
                above = *p;
        }
    if (above.epoch <= below.epoch)
        return below.update;
    double part = (epoch - below.epoch) / (above.epoch - below.epoch);
    return below.update + (above.update - below.update) * part;
}

static void put_update_axis(const chart *c)
{
    for (int i = 0; i < c->updates.ticks; i++) {
        double tick = mh_axis_tick(&c->updates, i), x = mh_axis_coordinate(&c->updates, tick);
        svg_put_line(c, "frame", x, BOTTOM, x, BOTTOM + 5);
        begin_text(c, "m update", x, BOTTOM + 21);
        if (c->updates.high >= 1e7) {
            mh_append_number(c->to, tick / 1e6, c->updates.step < 1e6 ? 1 : 0);
            svg_put(c, "M");
        } else
            mh_append_count(c->to, tick);
        svg_put(c, "</text>\n");
    }
    begin_text(c, "m", (LEFT + RIGHT) / 2.0, BOTTOM + 45);
    svg_put(c, "updates</text>\n");
}

static void put_epoch_axis(const chart *c)
{
    if (c->history->last_epoch <= 0)
        return;
    for (int i = 0; i < c->epochs.ticks; i++) {
        double tick = mh_axis_tick(&c->epochs, i);
        double x = mh_axis_coordinate(&c->updates, update_of_epoch(c->history, tick));
        svg_put_line(c, "frame", x, TOP, x, TOP - 5);
        begin_text(c, "m epoch", x, TOP - 10);
        mh_append_number(c->to, tick, c->epochs.decimals);
        svg_put(c, "</text>\n");
    }
    begin_text(c, "m", (LEFT + RIGHT) / 2.0, TOP - 31);
    svg_put(c, "epochs</text>\n");
}

static void put_loss_axis(const chart *c)
{
    for (int i = 0; i < c->loss.ticks; i++) {
        double tick = mh_axis_tick(&c->loss, i), y = mh_axis_coordinate(&c->loss, tick);
        svg_put_line(c, "grid", LEFT, y, RIGHT, y);
        begin_text(c, "e loss", LEFT - 9, y + 4.5);
        mh_append_number(c->to, tick, c->loss.decimals);
        svg_put(c, "</text>\n");
    }
    mh_append_format(c->to,
                     "<text class=\"m\" transform=\"translate(24 %d) rotate(-90)\">loss"
                     "</text>\n",
                     (TOP + BOTTOM) / 2);
}

static void put_bleu_axis(const chart *c)
{
    if (series_of(c, MH_RUN_BLEU)->count == 0)
        return;
    for (int i = 0; i < c->bleu.ticks; i++) {
        double tick = mh_axis_tick(&c->bleu, i), y = mh_axis_coordinate(&c->bleu, tick);
        svg_put_line(c, "frame", RIGHT, y, RIGHT + 5, y);
        begin_text(c, "right", RIGHT + 10, y + 4.5);
        mh_append_number(c->to, tick, c->bleu.decimals);
        svg_put(c, "</text>\n");
    }
    mh_append_format(c->to,
                     "<text class=\"m right\" transform=\"translate(%d %d) rotate(90)\">BLEU"
                     "</text>\n",
                     WIDTH - 26, (TOP + BOTTOM) / 2);
}

static void put_axes(const chart *c)
{
    put_loss_axis(c);
    put_bleu_axis(c);
    svg_put_line(c, "frame", LEFT, BOTTOM, RIGHT, BOTTOM);
    svg_put_line(c, "frame", LEFT, TOP, RIGHT, TOP);
    put_update_axis(c);
    put_epoch_axis(c);
}

// ---- series -------------------------------------------------------------------------------------

// A circle for a loss, a diamond for BLEU.
static void put_mark(const chart *c, int which, double x, double y, const char *more)
{
    if (which == MH_RUN_BLEU) {
        mh_append_format(c->to, "<path class=\"mark bleu%s\" d=\"M", more);
        mh_append_number(c->to, x, 2);
        svg_put(c, ",");
        mh_append_number(c->to, y - 4.5, 2);
        svg_put(c, "l4.5,4.5l-4.5,4.5l-4.5,-4.5z\"");
    } else {
        mh_append_format(c->to, "<circle class=\"mark %s\" r=\"3.5\"", looks[which].class);
        put_coordinate(c, "cx", x);
        put_coordinate(c, "cy", y);
    }
}

static void put_marks(const chart *c, int which, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const mh_run_point *p = &c->points[i];
        put_mark(c, which, x_of(c, p), y_of(c, which, p), "");
        mh_append_format(c->to, "><title>%s ", looks[which].name);
        mh_append_number(c->to, p->value, looks[which].decimals);
        svg_put(c, ", ");
        put_where(c, p);
        mh_append_format(c->to, "</title></%s>\n", which == MH_RUN_BLEU ? "path" : "circle");
    }
}

static void svg_put_series(const chart *c, int which)
{
    size_t count = mh_run_thin(series_of(c, which), MH_CURVE_POINTS_MAX, c->points);
    if (count == 0)
        return;
    mh_append_format(c->to, "<path class=\"%s\" d=\"", looks[which].class);
    for (size_t i = 0; i < count; i++) {
        svg_put(c, i == 0 ? "M" : i % 8 ? " " : "\n");
        mh_append_number(c->to, x_of(c, &c->points[i]), 2);
        svg_put(c, ",");
        mh_append_number(c->to, y_of(c, which, &c->points[i]), 2);
    }
    svg_put(c, count == 1 ? "h0\"/>\n" : "\"/>\n"); // h0: a dot, because the caps are round
    if (which != MH_RUN_LOSS && count <= MARKS_MAX)
        put_marks(c, which, count);
}

static void put_best(const chart *c)
{
    enum { LABEL_HEIGHT = 10 };
    const mh_run_series *bleu = series_of(c, MH_RUN_BLEU);
    if (bleu->count == 0)
        return;
    const mh_run_point *best = mh_run_highest(bleu);
    double x = x_of(c, best), y = y_of(c, MH_RUN_BLEU, best);
    put_mark(c, MH_RUN_BLEU, x, y, " top");
    svg_put(c, "/>\n");
    bool right = x > (LEFT + RIGHT) / 2.0; // the label stays within the frame
    const double above = y - 12, below = y + 22;
    begin_text(c, right ? "best e right" : "best right", right ? x + 5 : x - 5,
               above - LABEL_HEIGHT > TOP ? above : below);
    svg_put(c, "best BLEU ");
    mh_append_number(c->to, best->value, 2);
    svg_put(c, " at ");
    put_where(c, best);
    svg_put(c, "</text>\n");
}

// ---- words --------------------------------------------------------------------------------------

static void put_name(const chart *c)
{
    svg_put(c, "Training: ");
    mh_append_count(c->to, c->history->last_update);
    svg_put(c, " updates, ");
    mh_append_number(c->to, c->history->last_epoch, 1);
    svg_put(c, " epochs");
}

// Each series with its last value.
static void svg_put_legend(const chart *c)
{
    double x = LEFT;
    const double y = 58;
    for (int which = 0; which < MH_RUN_SERIES; which++) {
        const mh_run_series *s = series_of(c, which);
        if (s->count == 0)
            continue;
        mh_append_format(c->to, "<path class=\"%s\" d=\"M%d,%dh30\"/>\n", looks[which].class,
                         (int)x, (int)y);
        if (which != MH_RUN_LOSS) {
            put_mark(c, which, x + 15, y, "");
            svg_put(c, "/>\n");
        }
        begin_text(c, "legend", x + 38, y + 4.5);
        mh_append_format(c->to, "%s ", looks[which].name);
        mh_append_number(c->to, mh_run_last(s)->value, looks[which].decimals);
        mh_curve_append_smoothing(c->to, c->history, which);
        svg_put(c, "</text>\n");
        x += which == MH_RUN_LOSS ? 200 : 215;
        x += c->history->label_smoothing <= 0 ? 0 : which == MH_RUN_LOSS ? 125 : 95;
    }
}

static void svg_put_head(const chart *c)
{
    mh_append_format(c->to,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"name figures\">\n",
                     WIDTH, HEIGHT, WIDTH, HEIGHT);
    svg_put(c, "<title id=\"name\">");
    put_name(c);
    svg_put(c, "</title>\n<desc id=\"figures\">");
    for (int which = 0, said = 0; which < MH_RUN_SERIES; which++) {
        const mh_run_series *s = series_of(c, which);
        if (s->count == 0)
            continue;
        mh_append_format(c->to, "%s%s from ", said++ ? "; " : "", looks[which].name);
        mh_append_number(c->to, s->points[0].value, looks[which].decimals);
        svg_put(c, " to ");
        mh_append_number(c->to, mh_run_last(s)->value, looks[which].decimals);
    }
    svg_put(c, "</desc>\n");
    svg_put(c, style);
    mh_append_format(c->to, "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", WIDTH, HEIGHT);
    begin_text(c, "name", LEFT, 34);
    put_name(c);
    svg_put(c, "</text>\n");
}

mh_status mh_curve_draw_svg(mh_context *context, const mh_run_history *history, mh_buffer *svg)
{
    const size_t bytes = MH_CURVE_POINTS_MAX * sizeof(mh_run_point);
    mh_appender to = {.context = context};
    chart c = {.context = context, .to = &to, .history = history};
    c.points = mh_alloc(context, bytes);
    if (c.points == NULL)
        return MH_ERROR_MEMORY;
    make_axes(&c);
    svg_put_head(&c);
    svg_put_legend(&c);
    put_axes(&c);
    for (int which = 0; which < MH_RUN_SERIES; which++)
        svg_put_series(&c, which);
    put_best(&c);
    svg_put(&c, "</svg>\n");
    mh_free(context, c.points, bytes);
    return mh_append_finish(&to, MH_OK, svg);
}
