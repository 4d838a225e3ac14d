// SPDX-License-Identifier: MIT
// The curve of a run: reads its log and draws an image or text.
#include "view/curve.h"

#include "base/argument_check.h"
#include "support/file.h"
#include "view/chart_axis.h"

#include <math.h>

void mh_curve_append_smoothing(mh_appender *to, const mh_run_history *history, int which)
{
    enum { DECIMALS_MOST = 4 };
    double number = history->label_smoothing;
    int decimals = 0;
    if (number <= 0 || which == MH_RUN_BLEU)
        return;
    for (; decimals < DECIMALS_MOST && fabs(number - floor(number + 0.5)) > 1e-9; decimals++)
        number *= 10;
    if (which == MH_RUN_VALID_LOSS) {
        mh_append_string(to, " (no smoothing)");
        return;
    }
    mh_append_string(to, " (label smoothing ");
    mh_append_number(to, history->label_smoothing, decimals);
    mh_append_string(to, ")");
}

static mh_status curve_check_call(mh_context *context, const char *path, const char *out_name,
                                  mh_buffer *out)
{
    if (mh_need(context, out, out_name))
        return MH_ERROR_ARGUMENT;
    *out = (mh_buffer){0};
    return mh_need(context, path, "path");
}

mh_status mh_view_curve(mh_context *context, const char *path, mh_buffer *svg)
{
    mh_run_history history;
    mh_status status = curve_check_call(context, path, "svg", svg);
    if (status == MH_OK)
        status = mh_run_history_read(context, path, &history);
    if (status != MH_OK)
        return status;
    status = mh_curve_draw_svg(context, &history, svg);
    mh_run_history_free(context, &history);
    return status;
}

mh_status mh_view_curve_text(mh_context *context, const char *path, size_t width, mh_buffer *text)
{
    mh_run_history history;
    mh_status status = curve_check_call(context, path, "text", text);
    if (status == MH_OK && (width < MH_CURVE_WIDTH_MIN || width > MH_CURVE_WIDTH_MAX))
        status = mh_fail(context, MH_ERROR_ARGUMENT, "width: found %zu, expected %d to %d", width,
                         MH_CURVE_WIDTH_MIN, MH_CURVE_WIDTH_MAX);
    if (status == MH_OK)
        status = mh_run_history_read(context, path, &history);
    if (status != MH_OK)
        return status;
    status = mh_curve_draw_text(context, &history, width, text);
    mh_run_history_free(context, &history);
    return status;
}

mh_status mh_view_curve_write(mh_context *context, const char *path, const char *svg_path)
{
    mh_buffer svg;
    if (mh_need(context, svg_path, "svg_path"))
        return MH_ERROR_ARGUMENT;
    mh_status status = mh_view_curve(context, path, &svg);
    if (status != MH_OK)
        return status;
    status = mh_file_replace(context, svg_path, svg.data, svg.size);
    mh_buffer_free(context, &svg);
    return status;
}
