// SPDX-License-Identifier: MIT
// Cross-attention of translations. The search does not record it, since most hypotheses are
// dropped; the finished ones are run through the decoder again, all tokens at once, which is
// bitwise identical.
#include "base/arena.h"
#include "base/size_math.h"
#include "model/translate_search.h"
#include "model/translator_internal.h"

typedef struct pass {
    const mh_translator *t;
    const mh_translate_options *options;
    mh_segment *const *segments;
    size_t count, rank;
    size_t T, S;
    size_t layers;            // layers averaged
    int32_t *ids, *positions; // (count, T)
    float *x, *y;             // (count, T, D)
    mh_tap *taps;             // (layers)
    float *weights;           // (layers, count, H, T, S)
} pass;

// The translation of this rank, or none.
static const mh_hypothesis *hypothesis(const pass *p, size_t b)
{
    return p->rank < p->segments[b]->found ? &p->segments[b]->best[p->rank] : NULL;
}

static void translate_attention_layout(pass *p, mh_arena *arena)
{
    const size_t rows = p->T * p->count, D = p->t->config.d_model, H = p->t->config.nhead;
    p->ids = mh_arena_take(arena, rows, sizeof *p->ids);
    p->positions = mh_arena_take(arena, rows, sizeof *p->positions);
    p->x = mh_arena_take(arena, rows * D, sizeof *p->x);
    p->y = mh_arena_take(arena, rows * D, sizeof *p->y);
    p->taps = mh_arena_take(arena, p->layers, sizeof *p->taps);
    p->weights = mh_arena_take(arena, rows * p->S, p->layers * H * sizeof *p->weights);
}

// Token t is chosen where the decoder's input is token t - 1, the start for the first.
static void translate_attention_load(pass *p)
{
    const mh_search_rules *rules = &p->t->rules;
    for (size_t b = 0; b < p->count; b++) {
        const mh_hypothesis *h = hypothesis(p, b);
        for (size_t t = 0; t < p->T; t++) {
            const size_t at = b * p->T + t;
            p->positions[at] = (int32_t)t;
            p->ids[at] = t == 0 ? rules->start : h && t < h->count ? h->ids[t - 1] : rules->pad;
        }
    }
    const size_t H = p->t->config.nhead, each = p->count * H * p->T * p->S;
    for (size_t i = 0; i < p->layers; i++)
        p->taps[i] = (mh_tap){
            .struct_size = sizeof(mh_tap),
            .kind = MH_TAP_CROSS,
            .layer = p->options->alignment_layer < 0 ? i : (size_t)p->options->alignment_layer,
            .weights = mh_tensor_4d(p->weights + i * each, MH_F32, p->count, H, p->T, p->S)};
}

static mh_status decode(mh_context *context, const pass *p, const mh_memory *memory)
{
    const size_t rows = p->T * p->count, D = p->t->config.d_model;
    mh_tensor x = mh_tensor_2d(p->x, MH_F32, rows, D);
    const mh_tensor tgt = mh_tensor_3d(p->x, MH_F32, p->count, p->T, D);
    mh_tensor out = mh_tensor_3d(p->y, MH_F32, p->count, p->T, D);
    mh_decoding *decoding = NULL;
    mh_status status = p->t->run->embed(context, p->t, p->ids, p->positions, &x, p->y);
    if (!status)
        status = mh_decoding_create_packed(context, p->t->transformer, NULL, &memory->rows,
                                           memory->lengths, 1, &decoding); // a single step
    if (status)
        return status;
    mh_decoding_disable_heads(decoding, p->options->disabled_heads);
    status = mh_decoding_step(context, decoding, p->taps, p->layers, &tgt, &out);
    mh_decoding_free(decoding);
    return status;
}

// One row: the mean over layers and heads, without the template's tokens, normalised to sum to 1.
static void average(const pass *p, size_t b, size_t t, float *row)
{
    const size_t H = p->t->config.nhead, S = p->segments[b]->count;
    const float *weights = p->weights + p->t->source.before_count;
    double sum = 0;
    for (size_t s = 0; s < S; s++) {
        double mean = 0;
        for (size_t i = 0; i < p->layers * H; i++) {
            const size_t head = i / H * p->count * H + b * H + i % H;
            mean += (double)weights[(head * p->T + t) * p->S + s];
        }
        row[s] = (float)mean;
        sum += (double)row[s];
    }
    for (size_t s = 0; s < S && sum > 0; s++)
        row[s] = (float)((double)row[s] / sum);
}

static mh_status translate_attention_keep(mh_context *context, const pass *p,
                                          mh_result_arena *store)
{
    for (size_t b = 0; b < p->count; b++) {
        const mh_hypothesis *h = hypothesis(p, b);
        if (!h)
            continue;
        const size_t S = p->segments[b]->count;
        float *rows = mh_result_take(context, store, h->count * S, sizeof *rows);
        if (!rows)
            return MH_ERROR_MEMORY;
        for (size_t t = 0; t < h->count; t++)
            average(p, b, t, rows + t * S);
        p->segments[b]->attention[p->rank] = rows;
    }
    return MH_OK;
}

// All translations of one rank.
static mh_status attend_rank(mh_context *context, pass *p, const mh_memory *memory,
                             mh_result_arena *store)
{
    p->T = 1;
    for (size_t b = 0; b < p->count; b++)
        if (hypothesis(p, b))
            p->T = mh_larger(p->T, hypothesis(p, b)->count);
    mh_arena arena = {0};
    translate_attention_layout(p, &arena);
    const size_t size = arena.used;
    if (arena.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for attention");
    void *block = mh_alloc(context, size);
    if (!block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = block, .size = size};
    translate_attention_layout(p, &arena);
    translate_attention_load(p);
    mh_status status = decode(context, p, memory);
    if (!status)
        status = translate_attention_keep(context, p, store);
    mh_free(context, block, size);
    return status;
}

mh_status mh_translate_attend(mh_context *context, const mh_translator *translator,
                              const mh_translate_options *options, mh_segment *const *segments,
                              size_t count, const mh_memory *memory, mh_result_arena *store)
{
    pass p = {.t = translator,
              .options = options,
              .segments = segments,
              .count = count,
              .S = memory->rows.shape[1],
              .layers = options->alignment_layer < 0 ? translator->config.num_decoder_layers : 1};
    for (size_t b = 0; b < count; b++) {
        segments[b]->attention =
            mh_result_take(context, store, segments[b]->found, sizeof *segments[b]->attention);
        if (!segments[b]->attention)
            return MH_ERROR_MEMORY;
    }
    mh_status status = MH_OK;
    for (; p.rank < options->n_best && !status; p.rank++)
        status = attend_rank(context, &p, memory, store);
    return status;
}
