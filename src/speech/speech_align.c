// SPDX-License-Identifier: MIT
// When each token was said: cross-attention of the alignment heads, made comparable between tokens,
// smoothed, averaged, and a path through it by dynamic time warping.
#include "base/arena.h"
#include "base/compiler.h"
#include "model/sampling.h"
#include "speech/speech_internal.h"
#include <math.h>
#include <string.h>

enum { MEDIAN = 7 }; // columns of the filter

// ---- one head's weights (rows, columns), rows `stride` apart ------------------------------------

// Rows of the sound only: again of sum 1. Then every column has mean 0 and deviation 1.
static void normalise(float *w, size_t rows, size_t columns, size_t stride)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < columns; j++)
            sum += (double)w[i * stride + j];
        for (size_t j = 0; j < columns && sum > 0; j++)
            w[i * stride + j] = (float)((double)w[i * stride + j] / sum);
    }
    for (size_t j = 0; j < columns; j++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < rows; i++)
            mean += (double)w[i * stride + j] / (double)rows;
        for (size_t i = 0; i < rows; i++) {
            const double d = (double)w[i * stride + j] - mean;
            square += d * d / (double)rows;
        }
        const double scale = square > 0 ? 1 / sqrt(square) : 0;
        for (size_t i = 0; i < rows; i++)
            w[i * stride + j] = (float)(((double)w[i * stride + j] - mean) * scale);
    }
}

static float median(const float values[MEDIAN])
{
    float sorted[MEDIAN];
    for (size_t i = 0; i < MEDIAN; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return sorted[MEDIAN / 2];
}

// sums += the median of each entry's neighbours in its row, which is reflected at both ends.
static void add_smoothed(const float *row, size_t columns, float *sums)
{
    const ptrdiff_t last = (ptrdiff_t)columns - 1;
    for (ptrdiff_t j = 0; j <= last; j++) {
        float near[MEDIAN];
        for (ptrdiff_t k = 0; k < MEDIAN; k++) {
            ptrdiff_t at = j + k - MEDIAN / 2;
            at = at < 0 ? -at : at;
            near[k] = row[at > last ? 2 * last - at : at];
        }
        sums[j] += last < MEDIAN / 2 ? row[j] : median(near);
    }
}

// ---- all heads ----------------------------------------------------------------------------------

typedef struct alignment {
    const mh_speech *s;
    const int32_t *ids; // (count): beginning, <|notimestamps|>, text, end
    size_t count;
    size_t texts;   // tokens of text
    size_t columns; // of the memory that are sound
    bool *heads;    // (layers, heads)
    size_t chosen;  // how many of them
    float *weights; // (chosen, count, memory rows)
    float *hidden;  // (count, D)
    float *logits;  // V
    float *costs;   // (texts + 1, columns)
    unsigned char *trace;
    float *sums;
    size_t *first; // (texts + 1)
} alignment;

static void layout_alignment(alignment *a, mh_arena *arena)
{
    const mh_speech *s = a->s;
    const mh_model_info *info = &s->model->info;
    a->heads = mh_arena_take(arena, info->decoder_layers, info->heads);
    a->weights = mh_arena_take(arena, a->chosen * a->count, s->memory_rows * sizeof(float));
    a->hidden = mh_arena_take(arena, a->count, s->width * sizeof(float));
    a->logits = mh_arena_take(arena, s->vocabulary, sizeof(float));
    a->costs = mh_arena_take(arena, a->texts + 1, a->columns * sizeof(float));
    a->trace = mh_arena_take(arena, a->texts + 2, a->columns + 1);
    a->sums = mh_arena_take(arena, 2, (a->columns + 1) * sizeof(float));
    a->first = mh_arena_take(arena, a->texts + 1, sizeof *a->first);
}

// Costs are the negative mean, of <|notimestamps|> and the text.
static void find_costs(alignment *a)
{
    const size_t stride = a->s->memory_rows, begin = a->s->begin_count;
    memset(a->costs, 0, (a->texts + 1) * a->columns * sizeof(float));
    for (size_t h = 0; h < a->chosen; h++) {
        float *w = a->weights + h * a->count * stride;
        normalise(w, a->count, a->columns, stride);
        for (size_t i = 0; i <= a->texts; i++)
            add_smoothed(w + (begin + i) * stride, a->columns, a->costs + i * a->columns);
    }
    for (size_t i = 0; i < (a->texts + 1) * a->columns; i++)
        a->costs[i] /= -(float)a->chosen;
}

// The probability of each token of text among the tokens of text.
static mh_status find_probabilities(alignment *a, double *probabilities)
{
    const mh_speech *s = a->s;
    for (size_t i = 0; i < a->texts; i++) {
        const size_t row = s->begin_count + i;
        const mh_tensor x = mh_tensor_2d(a->hidden + row * s->width, MH_F32, 1, s->width);
        mh_tensor y = mh_tensor_2d(a->logits, MH_F32, 1, s->vocabulary);
        MH_TRY(mh_model_logits(s->context, s->model, &x, &y));
        probabilities[i] = exp((double)a->logits[a->ids[row + 1]] -
                               mh_log_sum_exp(a->logits, (size_t)s->tokens.end));
    }
    return MH_OK;
}

static mh_status run_alignment(alignment *a, double *times, double *probabilities)
{
    const mh_speech *s = a->s;
    mh_alignment_heads_find(s->model, a->heads);
    MH_TRY(mh_speech_run_decoder(s, a->ids, a->count, a->hidden, a->heads, a->weights));
    find_costs(a);
    mh_warp_path(a->costs, a->texts + 1, a->columns, a->trace, a->sums, a->first);
    for (size_t i = 0; i <= a->texts; i++)
        times[i] = (double)a->first[i] / MH_TIMES_PER_SECOND;
    return find_probabilities(a, probabilities);
}

static size_t count_heads(const mh_speech *s)
{
    const size_t all = s->model->info.decoder_layers * s->model->info.heads;
    bool *heads = mh_alloc(s->context, all);
    const size_t count = heads ? mh_alignment_heads_find(s->model, heads) : 0;
    mh_free(s->context, heads, all);
    return count;
}

mh_status mh_speech_align(const mh_speech *s, const int32_t *ids, size_t count, size_t frames,
                          double *times, double *probabilities)
{
    alignment a = {.s = s,
                   .ids = ids,
                   .count = count,
                   .texts = count - s->begin_count - 2,
                   .columns = frames / 2,
                   .chosen = count_heads(s)};
    mh_arena arena = {0};
    layout_alignment(&a, &arena);
    const size_t size = arena.used;
    void *block = a.chosen && !arena.overflow ? mh_alloc(s->context, size) : NULL;
    if (!block)
        return mh_fail(s->context, MH_ERROR_MEMORY, "out of memory for times of %zu tokens",
                       a.texts);
    arena = (mh_arena){.base = block, .size = size};
    layout_alignment(&a, &arena);
    const mh_status status = run_alignment(&a, times, probabilities);
    mh_free(s->context, block, size);
    return status;
}
