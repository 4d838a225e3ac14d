// SPDX-License-Identifier: MIT
// The two drawings of a run's history: an SVG image and a text.
#ifndef MH_VIEW_CURVE_H
#define MH_VIEW_CURVE_H

#include "support/buffer.h"
#include "view/run_log_read.h"
#include <multihead/view.h>

enum {
    MH_CURVE_POINTS_MAX = 1000, // of a series in an image
    MH_CURVE_WIDTH_MIN = 20,    // of a text
    MH_CURVE_WIDTH_MAX = 10000,
};

// The label smoothing in a loss, " (label smoothing 0.1)", so that training and validation losses
// are not compared directly; "" for BLEU, and without smoothing.
void mh_curve_append_smoothing(mh_appender *to, const mh_run_history *history, int which);

mh_status mh_curve_draw_svg(mh_context *context, const mh_run_history *history, mh_buffer *svg);
mh_status mh_curve_draw_text(mh_context *context, const mh_run_history *history, size_t width,
                             mh_buffer *text);

#endif
