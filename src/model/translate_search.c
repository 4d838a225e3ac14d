// SPDX-License-Identifier: MIT
// Beam search for a batch. A row is a live hypothesis; those of a sentence are adjacent, and
// finished sentences have no rows:
//
//     tokens (rows) -> embed -> one step of the decoder -> logits (rows, V) -> likeliest tokens
//        ^                                                                          |
//        +---- each sentence chooses its next hypotheses; the decoder's caches follow
#include "model/translate_search.h"
#include "base/arena.h"
#include "base/compiler.h"
#include "model/candidates.h"
#include "model/translator_internal.h"
#include <math.h>

typedef struct search {
    const mh_translator *t;
    const mh_translator_weights *weights;
    const mh_translate_options *options;
    mh_decoding *decoding;
    mh_beam *beams; // (count)
    size_t count;
    size_t rows;
    int32_t *tokens, *positions; // (count * width), like all that follow
    size_t *parents;
    float *x, *y;             // D each
    float *logits;            // V each
    mh_candidates candidates; // width each
} search;

static void translate_search_layout(search *s, mh_arena *arena)
{
    const size_t width = s->options->beam, rows = s->count * width, D = s->t->config.d_model;
    s->beams = mh_arena_take(arena, s->count, sizeof *s->beams);
    s->tokens = mh_arena_take(arena, rows, sizeof *s->tokens);
    s->positions = mh_arena_take(arena, rows, sizeof *s->positions);
    s->parents = mh_arena_take(arena, rows, sizeof *s->parents);
    s->x = mh_arena_take(arena, rows * D, sizeof *s->x);
    s->y = mh_arena_take(arena, rows * D, sizeof *s->y);
    s->logits = mh_arena_take(arena, rows, s->t->vocabulary * sizeof *s->logits);
    mh_candidates *c = &s->candidates;
    c->ids = mh_arena_take(arena, rows * width, sizeof *c->ids);
    c->log_probabilities = mh_arena_take(arena, rows * width, sizeof *c->log_probabilities);
    c->end = mh_arena_take(arena, rows, sizeof *c->end);
}

// ---- starting -----------------------------------------------------------------------------------

static size_t longest_translation(const search *s, size_t tokens)
{
    const double wanted = floor(s->options->max_length_factor * (double)tokens) +
                          (double)s->options->max_length_constant + 1; // and </s>
    const size_t most = s->t->target_limit;
    return wanted < (double)most ? (size_t)wanted : most;
}

static mh_status translate_search_start(mh_context *context, search *s, mh_segment *const *segments,
                                        const mh_memory *memory)
{
    const mh_translate_options *o = s->options;
    const mh_search_rules *rules = &s->t->rules;
    for (size_t b = 0; b < s->count; b++)
        if (!mh_beam_create(context, o->beam, o->n_best, longest_translation(s, segments[b]->count),
                            o->length_penalty, rules, &s->beams[b]))
            return MH_ERROR_MEMORY;
    for (size_t b = 0; b < s->count; b++)
        s->tokens[b] = rules->start;
    s->rows = s->count;
    mh_status status = mh_decoding_create_packed(context, s->t->transformer, s->weights->layers,
                                                 &memory->rows, memory->lengths, 1, &s->decoding);
    if (!status)
        mh_decoding_disable_heads(s->decoding, o->disabled_heads);
    return status;
}

// ---- one step -----------------------------------------------------------------------------------

// The candidates of each row.
static mh_status score_next_tokens(mh_context *context, search *s, size_t position)
{
    const size_t rows = s->rows, D = s->t->config.d_model;
    mh_tensor x = mh_tensor_2d(s->x, MH_F32, rows, D), y = mh_tensor_2d(s->y, MH_F32, rows, D);
    const mh_tensor tgt = mh_tensor_3d(s->x, MH_F32, rows, 1, D);
    mh_tensor out = mh_tensor_3d(s->y, MH_F32, rows, 1, D);
    mh_tensor logits = mh_tensor_2d(s->logits, MH_F32, rows, s->t->vocabulary);
    for (size_t i = 0; i < rows; i++)
        s->positions[i] = (int32_t)position;
    MH_TRY(s->t->run->embed(context, s->t, s->tokens, s->positions, &x, s->y));
    MH_TRY(mh_decoding_step(context, s->decoding, NULL, 0, &tgt, &out));
    MH_TRY(s->t->run->logits(context, s->t, s->weights->embedding, &y, &logits));
    return mh_candidates_find(context, &s->t->rules, position, &logits, s->options->beam,
                              &s->candidates);
}

static mh_candidates candidates_from(const search *s, size_t row)
{
    const mh_candidates *all = &s->candidates;
    const size_t first = row * s->options->beam;
    return (mh_candidates){all->ids + first, all->log_probabilities + first, all->end + row};
}

// Each sentence selects its hypotheses; sets rows and parents of the next step.
static mh_status choose(mh_context *context, search *s)
{
    size_t row = 0, rows = 0;
    for (size_t b = 0; b < s->count; b++) {
        mh_beam *beam = &s->beams[b];
        const size_t before = beam->live;
        if (!before)
            continue;
        const mh_candidates candidates = candidates_from(s, row);
        mh_beam_advance(beam, &candidates, s->parents + rows);
        if (!beam->live && !beam->finished)
            return mh_fail(
                context, MH_ERROR_FORMAT,
                "translate: the logits are NaN or infinite, the model's weights are damaged");
        for (size_t i = 0; i < beam->live; i++) {
            s->parents[rows + i] += row;
            s->tokens[rows + i] = beam->hypotheses[i].ids[beam->length - 1];
        }
        row += before;
        rows += beam->live;
    }
    s->rows = rows;
    return MH_OK;
}

// Reorders the caches, unless every row continues itself.
static mh_status follow(mh_context *context, search *s, size_t rows_before)
{
    bool same = s->rows == rows_before;
    for (size_t i = 0; i < s->rows && same; i++)
        same = s->parents[i] == i;
    return same || !s->rows ? MH_OK : mh_decoding_select(context, s->decoding, s->parents, s->rows);
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status keep_results(mh_context *context, const search *s, mh_segment *const *segments,
                              mh_result_arena *store)
{
    for (size_t b = 0; b < s->count; b++) {
        const mh_beam *beam = &s->beams[b];
        const size_t found =
            beam->finished < s->options->n_best ? beam->finished : s->options->n_best;
        mh_hypothesis *best = mh_result_copy(context, store, beam->best, found, sizeof *best);
        for (size_t i = 0; i < found && best; i++) {
            best[i].ids =
                mh_result_copy(context, store, best[i].ids, best[i].count, sizeof *best[i].ids);
            if (!best[i].ids)
                best = NULL;
        }
        if (!best)
            return MH_ERROR_MEMORY;
        segments[b]->best = best;
        segments[b]->found = found;
    }
    return MH_OK;
}

static bool is_stopped(const search *s)
{
    const mh_translate_options *o = s->options;
    return o->progress && !o->progress(o->progress_user, 0, s->count);
}

static mh_status translate_search_run(mh_context *context, search *s, mh_segment *const *segments,
                                      const mh_memory *memory, mh_result_arena *store,
                                      bool *stopped)
{
    memset(s->beams, 0, s->count * sizeof *s->beams);
    mh_status status = translate_search_start(context, s, segments, memory);
    for (size_t position = 0; s->rows > 0 && !status && !(*stopped = is_stopped(s)); position++) {
        const size_t rows = s->rows;
        status = score_next_tokens(context, s, position);
        if (!status)
            status = choose(context, s);
        if (!status)
            status = follow(context, s, rows);
    }
    if (!status && !*stopped)
        status = keep_results(context, s, segments, store);
    for (size_t b = 0; b < s->count; b++)
        mh_beam_free(context, &s->beams[b]);
    mh_decoding_free(s->decoding);
    return status;
}

mh_status mh_translate_batch(mh_context *context, const mh_translator *translator,
                             const mh_translator_weights *weights,
                             const mh_translate_options *options, mh_segment *const *segments,
                             size_t count, mh_result_arena *store, bool *stopped)
{
    *stopped = false;
    search s = {.t = translator, .weights = weights, .options = options, .count = count};
    mh_memory memory;
    mh_arena arena = {0};
    translate_search_layout(&s, &arena);
    const size_t size = arena.used;
    if (arena.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for a batch of %zu", count);
    mh_status status =
        mh_memory_create(context, translator, weights, options, segments, count, &memory);
    void *block = status ? NULL : mh_alloc(context, size);
    if (!status && !block)
        status = MH_ERROR_MEMORY;
    if (!status) {
        arena = (mh_arena){.base = block, .size = size};
        translate_search_layout(&s, &arena);
        status = translate_search_run(context, &s, segments, &memory, store, stopped);
    }
    if (!status && options->attention && !*stopped)
        status = mh_translate_attend(context, translator, options, segments, count, &memory, store);
    mh_free(context, block, size);
    mh_memory_free(context, &memory);
    return status;
}
