// SPDX-License-Identifier: MIT
// Maps of a picture's patches for a terminal, as many side by side as fit:
//
//     head 0          head 1          rollout
//     [CLS] 0.31      [CLS] 0.02      [CLS] 0.19        what is left for other tokens
//     ░░▒▒  ░░        ▒▒██▒▒          ░░▒▒░░            a cell for each patch
//     ▒▒██░░          ░░▒▒            ▒▒██▒▒
//
// Rollout follows attention and residual connections through all layers: row `query` of
// (A_L + I)/2 ... (A_1 + I)/2, from the left, a vector times a matrix for each layer.
#include "view/picture_text.h"

#include "base/compiler.h"
#include "base/overflow.h"
#include "view/text_cells.h"
#include "view/token_text.h"
#include "view/trace.h"

#include <stdio.h>
#include <string.h>

enum { GAP = 2, CELL_MOST = 2 };

typedef struct maps {
    mh_appender *to;
    const mh_trace *trace;
    const mh_tensor *weights;
    size_t layer, query;
    size_t first_head, heads, count; // of maps: the heads, and rollout
    size_t special;                  // tokens before the patches
    bool colour;
    size_t rows, columns;         // of cells
    size_t step;                  // patches in a cell, both ways
    size_t cell_width, map_width; // columns of the terminal
    size_t across;                // maps side by side
    float *rows_shown;            // (count, T): the query's weights
    float *row;                   // (T)
    double *now, *next;           // (T) of rollout
} maps;

// ---- rollout ------------------------------------------------------------------------------------

// next = now (A_layer + I)/2, with the mean of the heads.
static mh_status roll_layer(maps *m, size_t layer)
{
    const size_t H = m->weights->shape[1], T = m->weights->shape[2];
    for (size_t j = 0; j < T; j++)
        m->next[j] = m->now[j] / 2;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            MH_TRY(mh_trace_rows(m->to->context, m->weights, layer, h, i, 1, m->row));
            const double part = m->now[i] / (2 * (double)H);
            for (size_t j = 0; j < T; j++)
                m->next[j] += part * (double)m->row[j];
        }
    double *swapped = m->now;
    m->now = m->next;
    m->next = swapped;
    return MH_OK;
}

static mh_status roll_out(maps *m, float *to)
{
    const size_t L = m->weights->shape[0], T = m->weights->shape[2];
    for (size_t j = 0; j < T; j++)
        m->now[j] = j == m->query;
    for (size_t l = L; l-- > 0;)
        MH_TRY(roll_layer(m, l));
    for (size_t j = 0; j < T; j++)
        to[j] = (float)m->now[j];
    return MH_OK;
}

// ---- cells --------------------------------------------------------------------------------------

typedef struct range {
    float least, most;
} range;

// Of the patches' weights; a head's begins at 0, as most of them are there.
static range range_of_map(const maps *m, size_t map)
{
    const size_t T = m->weights->shape[2];
    const float *weights = m->rows_shown + map * T;
    range r = {weights[m->special], weights[m->special]};
    for (size_t j = m->special; j < T; j++) {
        r.least = weights[j] < r.least ? weights[j] : r.least;
        r.most = weights[j] > r.most ? weights[j] : r.most;
    }
    if (map < m->heads)
        r.least = 0;
    return r;
}

// 0 to 1. A cell shows the root of it, which is meant for heads: rollout is never far from even.
static float part_of(const maps *m, size_t map, range r, float weight)
{
    const float part = r.most > r.least ? (weight - r.least) / (r.most - r.least) : 0;
    return map < m->heads ? part : part * part;
}

// The largest weight of a cell's patches.
static float cell_weight(const maps *m, size_t map, size_t row, size_t column)
{
    const mh_trace_picture *p = &m->trace->picture;
    const float *weights = m->rows_shown + map * m->weights->shape[2] + m->special;
    float most = 0;
    for (size_t y = row * m->step; y < (row + 1) * m->step && y < p->rows; y++)
        for (size_t x = column * m->step; x < (column + 1) * m->step && x < p->columns; x++)
            if (weights[y * p->columns + x] > most)
                most = weights[y * p->columns + x];
    return most;
}

static void put_title(const maps *m, const char *text, bool last)
{
    const size_t size = strlen(text);
    mh_text_spaces(m->to, GAP);
    mh_append(m->to, text, size < m->map_width ? size : m->map_width);
    if (!last && size < m->map_width)
        mh_text_spaces(m->to, m->map_width - size);
}

static void name_map(const maps *m, size_t map, char name[40])
{
    snprintf(name, 40, "head %zu", m->first_head + map);
    if (strlen(name) > m->map_width)
        snprintf(name, 40, "%zu", m->first_head + map);
    if (map == m->heads)
        snprintf(name, 40, "rollout");
}

// The share of the tokens that are no patches.
static void name_special(const maps *m, size_t map, char name[40])
{
    const mh_trace_tokens source = m->trace->source;
    double sum = 0;
    for (size_t j = 0; j < m->special; j++)
        sum += (double)m->rows_shown[map * m->weights->shape[2] + j];
    snprintf(name, 40, "%s %.2f",
             m->special == 1 && source.count > 0 && strcmp(source.text[0], "[CLS]") == 0 ? "[CLS]"
                                                                                         : "others",
             sum);
}

static void put_maps(const maps *m, size_t first, size_t end)
{
    char name[40];
    mh_append_string(m->to, "\n");
    for (size_t i = first; i < end; i++) {
        name_map(m, i, name);
        put_title(m, name, i + 1 == end);
    }
    mh_append_string(m->to, "\n");
    for (size_t i = first; i < end && m->special > 0; i++) {
        name_special(m, i, name);
        put_title(m, name, i + 1 == end);
    }
    mh_append_string(m->to, m->special > 0 ? "\n" : "");
    for (size_t r = 0; r < m->rows; r++) {
        for (size_t i = first; i < end; i++) {
            const range shades = range_of_map(m, i);
            mh_text_spaces(m->to, GAP);
            for (size_t c = 0; c < m->columns; c++)
                mh_text_cell(m->to, part_of(m, i, shades, cell_weight(m, i, r, c)), m->cell_width,
                             m->colour);
            if (m->colour)
                mh_append_string(m->to, "\033[0m");
            mh_text_spaces(m->to, i + 1 < end ? m->map_width - m->columns * m->cell_width : 0);
        }
        mh_append_string(m->to, "\n");
    }
}

// A token without control characters.
static void put_token_text(mh_appender *to, const char *text)
{
    char shown[5];
    while (mh_next_shown(&text, shown) >= 0)
        mh_append_string(to, shown);
}

// ---- the layout ---------------------------------------------------------------------------------

static void lay_out_maps(maps *m, size_t width)
{
    enum { TITLE_WIDTH = 10 }; // "[CLS] 0.31"
    const mh_trace_picture *p = &m->trace->picture;
    const size_t room = width - GAP;
    m->cell_width = CELL_MOST * p->columns <= room ? CELL_MOST : 1;
    m->step = (p->columns - 1) / room + 1;
    m->rows = (p->rows - 1) / m->step + 1;
    m->columns = (p->columns - 1) / m->step + 1;
    m->map_width = m->columns * m->cell_width;
    if (m->map_width < TITLE_WIDTH)
        m->map_width = TITLE_WIDTH;
    m->across = width / (m->map_width + GAP);
}

static mh_status draw_maps(maps *m)
{
    const size_t T = m->weights->shape[2];
    for (size_t i = 0; i < m->heads; i++)
        MH_TRY(mh_trace_rows(m->to->context, m->weights, m->layer, m->first_head + i, m->query, 1,
                             m->rows_shown + i * T));
    MH_TRY(roll_out(m, m->rows_shown + m->heads * T));
    for (size_t first = 0; first < m->count; first += m->across)
        put_maps(m, first, first + m->across < m->count ? first + m->across : m->count);
    mh_append_string(m->to, "\nshaded by the root of the weight; rollout from its smallest to its "
                            "largest\n");
    if (m->step > 1)
        mh_append_format(m->to, "a cell is the largest of %zu x %zu patches\n", m->step, m->step);
    return MH_OK;
}

static mh_status take_and_draw(maps *m)
{
    mh_context *context = m->to->context;
    const size_t T = m->weights->shape[2];
    size_t floats, doubles;
    if (!mh_multiply_all(3, (size_t[]){m->count + 1, T, sizeof(float)}, &floats) ||
        !mh_multiply_all(3, (size_t[]){2, T, sizeof(double)}, &doubles))
        return mh_fail(context, MH_ERROR_ARGUMENT, "text: the heads are too large");
    float *shown = m->rows_shown = mh_alloc(context, floats);
    double *rolled = m->now = mh_alloc(context, doubles);
    mh_status status = shown && rolled ? MH_OK : MH_ERROR_MEMORY;
    if (status == MH_OK) {
        m->row = shown + m->count * T;
        m->next = rolled + T;
        status = draw_maps(m);
    }
    mh_free(context, shown, floats);
    mh_free(context, rolled, doubles);
    return status;
}

mh_status mh_picture_text(mh_appender *to, const mh_view_options *options, const mh_trace *trace)
{
    const mh_tensor *w = &trace->groups[MH_TRACE_ENCODER].weights;
    const size_t L = w->shape[0], H = w->shape[1], T = w->shape[2];
    char number[24];
    if (options->query < -1 || options->query >= (ptrdiff_t)T)
        return mh_fail(to->context, MH_ERROR_ARGUMENT, "query: found %td, expected 0 to %zu",
                       options->query, T - 1);
    maps m = {.to = to,
              .trace = trace,
              .weights = w,
              .layer = options->layer >= 0 ? (size_t)options->layer : L - 1,
              .query = options->query >= 0 ? (size_t)options->query : 0,
              .first_head = options->head >= 0 ? (size_t)options->head : 0,
              .heads = options->head >= 0 ? 1 : H,
              .special = mh_trace_patch_first(trace),
              .colour = options->colour};
    m.count = m.heads + 1;
    lay_out_maps(&m, options->width);
    snprintf(number, sizeof number, "%zu", m.query);
    mh_append_string(to, "what ");
    put_token_text(to, trace->source.count ? trace->source.text[m.query] : number);
    mh_append_format(to, " attends to in the picture, layer %zu of %zu (from 0)\n", m.layer, L);
    return take_and_draw(&m);
}
