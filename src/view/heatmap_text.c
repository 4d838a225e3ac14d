// SPDX-License-Identifier: MIT
// Heatmaps for a terminal:
//
//                  head 0      head 1        as many side by side as fit
//                  t c s o     t c s o
//                  h a a n     h a a n       keys, read downwards
//                  e t t       e t t
//         le       ██  ░░      ░░░░░░░░      two columns per cell, one if there are many keys
//         chat       ██        ▒▒░░░░
//
// When there are more keys than columns, or many queries, a cell shows the largest weight of
// several: a head that attends to one key in a thousand is still visible.
#include <stdio.h>
#include <string.h>

#include "base/argument_check.h"
#include "base/overflow.h"
#include "base/sized_struct.h"
#include "view/picture_text.h"
#include "view/text_cells.h"
#include "view/token_text.h"
#include "view/trace.h"

enum {
    LABEL_COLUMNS = 14, // of a query's name
    KEY_LINES = 8,      // of a key's name, read downwards
    GAP = 2,            // between two heads
    WIDE_CELLS = 32,    // up to this many keys, a cell has two columns
    ROWS_MAX = 64,      // maximum lines of a heatmap
    WIDTH_MIN = 20,
    WIDTH_MAX = 10000,
};

typedef struct drawing {
    mh_appender *to;
    const mh_tensor *weights;
    mh_trace_tokens queries, keys;
    size_t layer;
    bool colour;
    float most;                   // the largest weight, the top of the shade scale
    size_t rows, columns;         // of cells
    size_t row_step, column_step; // tokens in a cell
    size_t cell_width, label_width, key_lines;
    size_t across; // heads side by side
    float *cells;  // (across, rows, columns)
    float *head;   // (row_step, S)
} drawing;

// ---- labels -------------------------------------------------------------------------------------

// A token without the mark of a space before it; a mark alone stays.
static const char *without_mark(const char *text)
{
    const size_t mark = mh_token_mark(text);
    return text[mark] ? text + mark : text;
}

// A token's text, or its index if there are no tokens.
static const char *label(mh_trace_tokens tokens, size_t i, char number[24])
{
    if (i < tokens.count)
        return without_mark(tokens.text[i]);
    snprintf(number, 24, "%zu", i);
    return number;
}

static size_t shown_width(const char *text)
{
    char shown[5];
    size_t width = 0;
    for (int w; (w = mh_next_shown(&text, shown)) >= 0;)
        width += (size_t)w;
    return width;
}

// The widest of the first tokens of all cells.
static size_t widest(mh_trace_tokens tokens, size_t count, size_t step)
{
    char number[24];
    size_t most = 0;
    for (size_t i = 0; i < count; i += step) {
        size_t width = shown_width(label(tokens, i, number));
        most = width > most ? width : most;
    }
    return most;
}

// Text in exactly `width` columns, right-aligned, truncated if too long.
static void heatmap_put_label(mh_appender *to, const char *text, size_t width)
{
    char shown[5];
    size_t needed = shown_width(text), room = needed <= width ? width : width - 1, used = 0;
    if (needed < width)
        mh_text_spaces(to, width - needed);
    for (int w; (w = mh_next_shown(&text, shown)) >= 0 && used + (size_t)w <= room;) {
        mh_append_string(to, shown);
        used += (size_t)w;
    }
    if (needed > width) {
        mh_append_string(to, "\xE2\x80\xA6"); // an ellipsis
        mh_text_spaces(to, room - used);
    }
}

// Character `line` of a name that is read downwards and ends on the last line, in one cell.
static void put_letter(const drawing *d, const char *text, size_t line)
{
    char shown[5] = "", found[5] = " ";
    size_t letters = 0, width = 1;
    const char *at = text;
    for (int w; (w = mh_next_shown(&at, shown)) >= 0;)
        letters += w > 0;
    size_t top = letters < d->key_lines ? d->key_lines - letters : 0, i = 0;
    at = text;
    for (int w; line >= top && (w = mh_next_shown(&at, shown)) >= 0;) {
        if (w > 0 && i++ == line - top) {
            memcpy(found, (size_t)w > d->cell_width ? "*\0\0\0" : shown, sizeof found);
            width = (size_t)w > d->cell_width ? 1 : (size_t)w;
            break;
        }
    }
    mh_append_string(d->to, found);
    mh_text_spaces(d->to, d->cell_width - width);
}

// ---- cells --------------------------------------------------------------------------------------

// The cells of one head: each the largest of its weights.
static mh_status fill_cells(const drawing *d, size_t head, float *cells)
{
    const size_t *s = d->weights->shape;
    memset(cells, 0, d->rows * d->columns * sizeof *cells);
    for (size_t r = 0; r < d->rows; r++) {
        size_t first = r * d->row_step;
        size_t count = s[2] - first < d->row_step ? s[2] - first : d->row_step;
        mh_status status =
            mh_trace_rows(d->to->context, d->weights, d->layer, head, first, count, d->head);
        if (status != MH_OK)
            return status;
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < s[3]; j++) {
                float *cell = &cells[r * d->columns + j / d->column_step];
                float weight = d->head[i * s[3] + j];
                *cell = weight > *cell ? weight : *cell;
            }
    }
    return MH_OK;
}

// ---- heads side by side -------------------------------------------------------------------------

static void put_titles(const drawing *d, size_t first, size_t heads)
{
    mh_text_spaces(d->to, d->label_width);
    for (size_t h = 0; h < heads; h++) {
        char title[40];
        size_t width = d->columns * d->cell_width;
        snprintf(title, sizeof title, "head %zu", first + h);
        if (strlen(title) > width)
            snprintf(title, sizeof title, "%zu", first + h);
        mh_text_spaces(d->to, GAP);
        mh_append_string(d->to, title);
        if (h + 1 < heads && strlen(title) < width)
            mh_text_spaces(d->to, width - strlen(title));
    }
    mh_append_string(d->to, "\n");
}

static void put_keys(const drawing *d, size_t heads)
{
    char number[24];
    for (size_t line = 0; line < d->key_lines; line++) {
        mh_text_spaces(d->to, d->label_width);
        for (size_t h = 0; h < heads; h++) {
            mh_text_spaces(d->to, GAP);
            for (size_t c = 0; c < d->columns; c++)
                put_letter(d, label(d->keys, c * d->column_step, number), line);
        }
        mh_append_string(d->to, "\n");
    }
}

static void put_rows(const drawing *d, size_t heads)
{
    char number[24];
    for (size_t r = 0; r < d->rows; r++) {
        heatmap_put_label(d->to, label(d->queries, r * d->row_step, number), d->label_width);
        for (size_t h = 0; h < heads; h++) {
            mh_text_spaces(d->to, GAP);
            for (size_t c = 0; c < d->columns; c++)
                mh_text_cell(d->to, d->cells[(h * d->rows + r) * d->columns + c] / d->most,
                             d->cell_width, d->colour);
            if (d->colour)
                mh_append_string(d->to, "\033[0m");
        }
        mh_append_string(d->to, "\n");
    }
}

static mh_status put_heads(const drawing *d, size_t first, size_t end)
{
    for (size_t begin = first; begin < end; begin += d->across) {
        size_t heads = end - begin < d->across ? end - begin : d->across;
        for (size_t h = 0; h < heads; h++) {
            mh_status status = fill_cells(d, begin + h, d->cells + h * d->rows * d->columns);
            if (status != MH_OK)
                return status;
        }
        mh_append_string(d->to, "\n");
        put_titles(d, begin, heads);
        put_keys(d, heads);
        put_rows(d, heads);
    }
    return MH_OK;
}

static void heatmap_put_legend(const drawing *d)
{
    mh_text_legend(d->to, d->most, d->cell_width, d->colour);
    if (d->row_step > 1 || d->column_step > 1)
        mh_append_format(d->to, "a cell is the largest of %zu x %zu weights\n", d->row_step,
                         d->column_step);
}

// ---- the layout ---------------------------------------------------------------------------------

// The largest weight of all heads shown: with hundreds of keys no weight is near 1.
static mh_status find_most(drawing *d, size_t first, size_t end)
{
    const size_t *s = d->weights->shape;
    d->most = 0;
    for (size_t h = first; h < end; h++)
        for (size_t i = 0; i < s[2]; i++) {
            mh_status status =
                mh_trace_rows(d->to->context, d->weights, d->layer, h, i, 1, d->head);
            if (status != MH_OK)
                return status;
            for (size_t j = 0; j < s[3]; j++)
                d->most = d->head[j] > d->most ? d->head[j] : d->most;
        }
    if (d->most == 0)
        d->most = 1;
    return MH_OK;
}

static void heatmap_lay_out(drawing *d, size_t width, size_t heads)
{
    const size_t *s = d->weights->shape;
    size_t label_most = width / 4 < LABEL_COLUMNS ? width / 4 : LABEL_COLUMNS;
    d->row_step = (s[2] - 1) / ROWS_MAX + 1;
    d->label_width = widest(d->queries, s[2], d->row_step);
    if (d->label_width > label_most)
        d->label_width = label_most;
    size_t room = width - d->label_width - GAP;
    d->cell_width = s[3] <= WIDE_CELLS && 2 * s[3] <= room ? 2 : 1;
    d->column_step = (s[3] - 1) / room + 1;
    if (s[2] == s[3]) // a square stays one
        d->row_step = d->column_step = d->row_step > d->column_step ? d->row_step : d->column_step;
    d->rows = (s[2] - 1) / d->row_step + 1;
    d->columns = (s[3] - 1) / d->column_step + 1;
    d->key_lines = widest(d->keys, s[3], d->column_step);
    if (d->key_lines > KEY_LINES)
        d->key_lines = KEY_LINES;
    d->across = (width - d->label_width) / (d->columns * d->cell_width + GAP);
    if (d->across > heads)
        d->across = heads;
}

static mh_status heatmap_draw(drawing *d, size_t first, size_t end)
{
    size_t cells, head;
    if (!mh_multiply_all(4, (size_t[]){d->across, d->rows, d->columns, sizeof(float)}, &cells) ||
        !mh_multiply_all(3, (size_t[]){d->row_step, d->weights->shape[3], sizeof(float)}, &head))
        return mh_fail(d->to->context, MH_ERROR_ARGUMENT, "text: the heads are too large");
    d->cells = mh_alloc(d->to->context, cells);
    d->head = mh_alloc(d->to->context, head);
    mh_status status = d->cells && d->head ? find_most(d, first, end) : MH_ERROR_MEMORY;
    if (status == MH_OK)
        status = put_heads(d, first, end);
    if (status == MH_OK)
        heatmap_put_legend(d);
    mh_free(d->to->context, d->cells, cells);
    mh_free(d->to->context, d->head, head);
    return status;
}

mh_status mh_view_text(mh_context *context, const mh_view_options *given_options,
                       const mh_trace *given, mh_buffer *text)
{
    mh_view_options own = mh_view_options_default();
    mh_trace own_trace;
    const mh_view_options *options = &own;
    const mh_trace *trace = &own_trace;
    mh_appender to = {.context = context};
    mh_trace_kind kind;
    if (mh_need(context, text, "text"))
        return MH_ERROR_ARGUMENT;
    *text = (mh_buffer){0};
    mh_status status = MH_READ_STRUCT(context, mh_view_options, given_options, &own);
    if (status == MH_OK)
        status = mh_trace_read(context, given, false, &own_trace);
    if (status == MH_OK)
        status = mh_view_choose(context, options, trace, &kind);
    if (status != MH_OK)
        return status;
    if (options->width < WIDTH_MIN || options->width > WIDTH_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "width: found %zu, expected %d to %d",
                       options->width, WIDTH_MIN, WIDTH_MAX);
    if (trace->picture.pixels != NULL && kind == MH_TRACE_ENCODER)
        return mh_append_finish(&to, mh_picture_text(&to, options, trace), text);
    const mh_trace_group *g = &trace->groups[kind];
    const mh_tensor *w = &g->weights;
    const size_t shown = g->sequences ? 0 : w->shape[0] - 1;
    drawing d = {.to = &to,
                 .weights = w,
                 .queries = mh_trace_queries(trace, kind),
                 .keys = mh_trace_keys(trace, kind),
                 .layer = options->layer >= 0 ? (size_t)options->layer : shown,
                 .colour = options->colour};
    size_t first = options->head >= 0 ? (size_t)options->head : 0;
    size_t end = options->head >= 0 ? first + 1 : w->shape[1];
    heatmap_lay_out(&d, options->width, end - first);
    mh_append_string(&to, mh_trace_kind_name(kind));
    if (w->shape[0] > 1)
        mh_append_format(&to, ", %s %zu of %zu (from 0)", mh_trace_axis(g), d.layer, w->shape[0]);
    mh_append_string(&to, "; queries down, keys across\n");
    status = heatmap_draw(&d, first, end);
    return mh_append_finish(&to, status, text);
}
