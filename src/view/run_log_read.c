// SPDX-License-Identifier: MIT
// Reading the log of a run; see run_log_read.h. Every number is checked to be in a range that is
// safe for the chart's arithmetic.
#include "view/run_log_read.h"

#include <math.h>
#include <string.h>

#include "io/line_reader.h"
#include "support/json_load.h"

#define UPDATE_MAX 9007199254740992.0 // 2^53: integers up to here are exact in a double
#define EPOCH_MAX  1e9
#define LOSS_MAX   1e30
#define BLEU_MAX   100.0

enum { NESTING_MAX = 8, FIRST_CAPACITY = 256 };

typedef struct reading {
    mh_context *context;
    mh_line_reader lines;
    mh_run_history *history;
    size_t line;
} reading;

// ---- points -------------------------------------------------------------------------------------

static mh_status add_point(reading *r, int which, mh_run_point point)
{
    mh_run_series *s = &r->history->series[which];
    if (s->count == s->capacity) { // no overflow: the number of lines is limited
        size_t capacity = s->capacity ? 2 * s->capacity : FIRST_CAPACITY;
        mh_run_point *points = mh_alloc(r->context, capacity * sizeof *points);
        if (points == NULL)
            return MH_ERROR_MEMORY;
        if (s->count != 0)
            memcpy(points, s->points, s->count * sizeof *points);
        mh_free(r->context, s->points, s->capacity * sizeof *points);
        s->points = points;
        s->capacity = capacity;
    }
    s->points[s->count++] = point;
    return MH_OK;
}

// ---- a line -------------------------------------------------------------------------------------

static mh_status run_log_read_take_number(const reading *r, const json_t *line, const char *name,
                                          double low, double high, double *number)
{
    const mh_source *source = &r->lines.stream.source;
    const json_t *value = json_object_get(line, name);
    if (!json_is_number(value))
        return mh_source_fail(source, MH_ERROR_FORMAT, "line %zu: %s: %s, expected a number",
                              r->line, name, value ? "not a number" : "missing");
    *number = json_number_value(value);
    if (*number >= low && *number <= high)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "line %zu: %s: found %.16g, expected a number from %.16g to %.16g",
                          r->line, name, *number, low, high);
}

static mh_status take_value(reading *r, const json_t *line, int which, mh_run_point point)
{
    static const struct {
        const char *name;
        double low, high;
    } members[MH_RUN_SERIES] = {[MH_RUN_LOSS] = {"loss", -LOSS_MAX, LOSS_MAX},
                                [MH_RUN_VALID_LOSS] = {"valid_loss", -LOSS_MAX, LOSS_MAX},
                                [MH_RUN_BLEU] = {"bleu", 0, BLEU_MAX}};
    mh_status status = run_log_read_take_number(r, line, members[which].name, members[which].low,
                                                members[which].high, &point.value);
    return status == MH_OK ? add_point(r, which, point) : status;
}

static mh_status take_object(reading *r, const json_t *line)
{
    mh_run_point at = {0};
    if (!json_is_object(line))
        return mh_source_fail(&r->lines.stream.source, MH_ERROR_FORMAT,
                              "line %zu: not a JSON object", r->line);
    mh_status status = run_log_read_take_number(r, line, "update", r->history->last_update,
                                                UPDATE_MAX, &at.update);
    if (status == MH_OK)
        status = run_log_read_take_number(r, line, "epoch", r->history->last_epoch, EPOCH_MAX,
                                          &at.epoch);
    if (status != MH_OK)
        return status;
    r->history->last_update = at.update;
    r->history->last_epoch = at.epoch;
    const bool validation = json_object_get(line, "valid_loss") != NULL;
    if (!validation || json_object_get(line, "loss"))
        status = take_value(r, line, MH_RUN_LOSS, at);
    if (status == MH_OK && json_object_get(line, "label_smoothing"))
        status = run_log_read_take_number(r, line, "label_smoothing", 0, 1,
                                          &r->history->label_smoothing);
    if (status == MH_OK && validation)
        status = take_value(r, line, MH_RUN_VALID_LOSS, at);
    if (status == MH_OK && validation && json_object_get(line, "bleu"))
        status = take_value(r, line, MH_RUN_BLEU, at);
    return status;
}

static mh_status run_log_take_line(reading *r, const mh_line *line)
{
    const mh_source *source = &r->lines.stream.source;
    char what[40];
    mh_json_scan scan = {0};
    json_t *root;
    r->line = line->number;
    if (line->number > MH_RUN_LINES_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT, "more than %d lines", MH_RUN_LINES_MAX);
    if (line->too_long)
        return mh_source_fail(source, MH_ERROR_FORMAT, "line %zu: more than %d bytes", line->number,
                              MH_LINE_MAX);
    snprintf(what, sizeof what, "line %zu: ", line->number);
    mh_status status = mh_json_scan_text(source, what, line->bytes, line->size, NESTING_MAX, &scan);
    if (status == MH_OK)
        status = mh_json_load(source, what, line->bytes, line->size, &scan, &root);
    if (status != MH_OK)
        return status;
    status = take_object(r, root);
    json_decref(root);
    return status;
}

// ---- the file -----------------------------------------------------------------------------------

static mh_status read_lines(reading *r)
{
    mh_line line;
    bool found;
    mh_status status;
    while ((status = mh_line_reader_next(&r->lines, &line, &found)) == MH_OK && found && !line.cut)
        if ((status = run_log_take_line(r, &line)) != MH_OK)
            return status;
    if (status == MH_OK && r->line == 0)
        status = mh_source_fail(
            &r->lines.stream.source, MH_ERROR_FORMAT,
            "has no complete line yet: a run logs losses at intervals, and every validation");
    return status;
}

static mh_status run_log_finish(reading *r, mh_status status)
{
    if (status == MH_OK)
        status = read_lines(r);
    mh_line_reader_close(&r->lines);
    if (status != MH_OK)
        mh_run_history_free(r->context, r->history);
    return status;
}

mh_status mh_run_history_read(mh_context *context, const char *path, mh_run_history *history)
{
    reading r = {.context = context, .history = history};
    *history = (mh_run_history){0};
    return run_log_finish(&r, mh_line_reader_open(context, path, &r.lines));
}

mh_status mh_run_history_parse(mh_context *context, const char *name, const void *bytes,
                               size_t size, mh_run_history *history)
{
    reading r = {.context = context, .history = history};
    *history = (mh_run_history){0};
    return run_log_finish(&r, mh_line_reader_open_memory(context, name, bytes, size, &r.lines));
}

void mh_run_history_free(mh_context *context, mh_run_history *history)
{
    for (int i = 0; i < MH_RUN_SERIES; i++) {
        mh_run_series *s = &history->series[i];
        mh_free(context, s->points, s->capacity * sizeof *s->points);
    }
    *history = (mh_run_history){0};
}
