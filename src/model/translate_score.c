// SPDX-License-Identifier: MIT
// Scores of translations that are given: the decoder reads all tokens of one at once, which is
// bitwise identical to the steps of the search.
#include "base/arena.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "model/candidates.h"
#include "model/translate_internal.h"
#include <multihead/layers.h>

enum { LOGIT_ROWS = 16 }; // of a block of logits

typedef struct scorer {
    mh_context *context;
    const mh_translator *t;
    const mh_translate_options *options;
    mh_translator_weights weights;
    mh_text_memory memory;
    mh_tokens tokens; // of one text
    mh_result_arena *store;
} scorer;

// ---- tokens -------------------------------------------------------------------------------------

// The tokens of a text or target, at most `most`.
static mh_status score_tokenize(scorer *s, mh_side side, const char *name, size_t i, mh_text text,
                                size_t most)
{
    const size_t valid = mh_utf8_valid(text.bytes, text.size);
    if (valid != text.size)
        return mh_fail(s->context, MH_ERROR_FORMAT, "%s[%zu]: byte %zu is not UTF-8", name, i,
                       valid);
    MH_TRY(mh_translator_normalize(s->context, s->t, text, &s->memory, &text));
    MH_TRY(mh_translator_tokenize(s->context, s->t, side, text, &s->memory, &s->tokens));
    return s->tokens.count <= most
               ? MH_OK
               : mh_fail(s->context, MH_ERROR_ARGUMENT,
                         "%s[%zu]: found %zu tokens, expected at most %zu, the model's limit", name,
                         i, s->tokens.count, most);
}

static mh_status score_keep_source(scorer *s, mh_tokens *source)
{
    const mh_tokens *from = &s->tokens;
    *source = (mh_tokens){.count = from->count, .text.size = from->text.size};
    source->ids = mh_result_copy(s->context, s->store, from->ids, from->count, sizeof *from->ids);
    source->ends =
        mh_result_copy(s->context, s->store, from->ends, from->count, sizeof *from->ends);
    source->text.data = mh_result_copy(s->context, s->store, from->text.data, from->text.size, 1);
    return source->ids && source->ends && source->text.data ? MH_OK : MH_ERROR_MEMORY;
}

static mh_status score_take_pair(scorer *s, size_t i, mh_text text, mh_text target,
                                 mh_tokens *source, mh_segment *segment)
{
    MH_TRY(score_tokenize(s, MH_SIDE_SOURCE, "texts", i, text, mh_translator_source_limit(s->t)));
    MH_TRY(score_keep_source(s, source));
    MH_TRY(score_tokenize(s, MH_SIDE_TARGET, "targets", i, target, s->t->target_limit - 1));
    mh_hypothesis *h = mh_result_take(s->context, s->store, 1, sizeof *h);
    if (!h)
        return MH_ERROR_MEMORY;
    *h = (mh_hypothesis){.count = s->tokens.count,
                         .ids = mh_result_copy(s->context, s->store, s->tokens.ids, s->tokens.count,
                                               sizeof *s->tokens.ids)};
    *segment =
        (mh_segment){.text = i, .ids = source->ids, .count = source->count, .best = h, .found = 1};
    return h->ids ? MH_OK : MH_ERROR_MEMORY;
}

// ---- log-probabilities --------------------------------------------------------------------------

typedef struct score_pass {
    size_t T;                 // rows: the start and all tokens
    int32_t *ids, *positions; // (T)
    float *x, *y;             // (T, D)
    float *logits;            // (LOGIT_ROWS, V)
    double *steps;            // (T)
    size_t top;               // likeliest tokens to find, at least 1
    int32_t *top_ids;         // (T, top)
    double *top_steps;        // (T, top)
} score_pass;

static void score_layout(const mh_translator *t, score_pass *p, mh_arena *arena)
{
    const size_t D = t->config.d_model;
    p->ids = mh_arena_take(arena, p->T, sizeof *p->ids);
    p->positions = mh_arena_take(arena, p->T, sizeof *p->positions);
    p->x = mh_arena_take(arena, p->T * D, sizeof *p->x);
    p->y = mh_arena_take(arena, p->T * D, sizeof *p->y);
    p->logits = mh_arena_take(arena, LOGIT_ROWS * t->vocabulary, sizeof *p->logits);
}

static mh_status score_decode(scorer *s, const mh_segment *segment, const mh_memory *memory,
                              const score_pass *p)
{
    const size_t D = s->t->config.d_model;
    const mh_hypothesis *h = segment->best;
    mh_tensor x = mh_tensor_2d(p->x, MH_F32, p->T, D);
    const mh_tensor tgt = mh_tensor_3d(p->x, MH_F32, 1, p->T, D);
    mh_tensor out = mh_tensor_3d(p->y, MH_F32, 1, p->T, D);
    mh_decoding *decoding = NULL;
    for (size_t i = 0; i < p->T; i++) {
        p->ids[i] = i == 0 ? s->t->rules.start : h->ids[i - 1];
        p->positions[i] = (int32_t)i;
    }
    MH_TRY(s->t->run->embed(s->context, s->t, p->ids, p->positions, &x, p->y));
    MH_TRY(mh_decoding_create_packed(s->context, s->t->transformer, s->weights.layers,
                                     &memory->rows, memory->lengths, 1, &decoding));
    mh_decoding_disable_heads(decoding, s->options->disabled_heads);
    mh_status status = mh_decoding_step(s->context, decoding, NULL, 0, &tgt, &out);
    mh_decoding_free(decoding);
    return status;
}

// The log-probability of token i, as the search computes it from a row of logits, and the likeliest
// ones.
static mh_status score_token(mh_context *context, const mh_tensor *row, int32_t id, size_t i,
                             const score_pass *p)
{
    const mh_tensor wanted = mh_tensor_1d(&id, MH_I32, 1);
    mh_tensor found = mh_tensor_2d(&p->steps[i], MH_F64, 1, 1);
    mh_tensor ids = mh_tensor_2d(p->top_ids + i * p->top, MH_I32, 1, p->top);
    mh_tensor steps = mh_tensor_2d(p->top_steps + i * p->top, MH_F64, 1, p->top);
    mh_topk_options options = mh_topk_options_default();
    options.wanted = &wanted;
    options.wanted_log_probabilities = &found;
    return mh_log_softmax_topk(context, &options, row, &ids, &steps);
}

// Row i chooses token i, the last row </s>.
static mh_status score_rows(scorer *s, const mh_segment *segment, const score_pass *p)
{
    const size_t D = s->t->config.d_model, V = s->t->vocabulary;
    const mh_hypothesis *h = segment->best;
    for (size_t first = 0; first < p->T; first += LOGIT_ROWS) {
        const size_t rows = mh_smaller(LOGIT_ROWS, p->T - first);
        const mh_tensor y = mh_tensor_2d(p->y + first * D, MH_F32, rows, D);
        mh_tensor logits = mh_tensor_2d(p->logits, MH_F32, rows, V);
        MH_TRY(s->t->run->logits(s->context, s->t, s->weights.embedding, &y, &logits));
        mh_candidates_exclude(&s->t->rules, &logits);
        for (size_t i = 0; i < rows; i++) {
            const mh_tensor row = mh_tensor_slice(logits, 0, i, 1);
            const size_t token = first + i;
            MH_TRY(score_token(s->context, &row, token < h->count ? h->ids[token] : s->t->rules.end,
                               token, p));
        }
    }
    return MH_OK;
}

static mh_status score_with(scorer *s, mh_segment *segment, const mh_memory *memory,
                            const score_pass *p)
{
    mh_hypothesis *h = segment->best;
    MH_TRY(score_decode(s, segment, memory, p));
    MH_TRY(score_rows(s, segment, p));
    for (size_t i = 0; i < p->T; i++)
        h->log_probability += p->steps[i];
    h->score = mh_beam_score(h->log_probability, p->T, s->options->length_penalty);
    segment->steps = p->steps;
    segment->top_count = s->options->top_logprobs;
    segment->top_ids = s->options->top_logprobs ? p->top_ids : NULL;
    segment->top_steps = s->options->top_logprobs ? p->top_steps : NULL;
    return MH_OK;
}

static mh_status score_segment(scorer *s, mh_segment *segment)
{
    mh_memory memory;
    score_pass p = {.T = segment->best->count + 1, .top = mh_larger(s->options->top_logprobs, 1)};
    p.steps = mh_result_take(s->context, s->store, p.T, sizeof *p.steps);
    p.top_ids = mh_result_take(s->context, s->store, p.T, p.top * sizeof *p.top_ids);
    p.top_steps = mh_result_take(s->context, s->store, p.T, p.top * sizeof *p.top_steps);
    mh_arena arena = {0};
    score_layout(s->t, &p, &arena);
    const size_t size = arena.used;
    if (!p.steps || !p.top_ids || !p.top_steps || arena.overflow)
        return mh_fail(s->context, MH_ERROR_MEMORY, "out of memory for %zu tokens", p.T);
    MH_TRY(mh_memory_create(s->context, s->t, &s->weights, s->options, &segment, 1, &memory));
    void *block = mh_alloc(s->context, size);
    mh_status status = block ? MH_OK : MH_ERROR_MEMORY;
    if (!status) {
        arena = (mh_arena){.base = block, .size = size};
        score_layout(s->t, &p, &arena);
        status = score_with(s, segment, &memory, &p);
    }
    if (!status && s->options->attention)
        status = mh_translate_attend(s->context, s->t, s->options, &segment, 1, &memory, s->store);
    mh_free(s->context, block, size);
    mh_memory_free(s->context, &memory);
    return status;
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status score_all(scorer *s, const mh_text *texts, const mh_text *targets,
                           mh_translations *translations)
{
    const size_t count = translations->count;
    mh_segment *segments = mh_result_take(s->context, s->store, count, sizeof *segments);
    if (!segments)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        MH_TRY(
            score_take_pair(s, i, texts[i], targets[i], &translations->sources[i], &segments[i]));
    MH_TRY(mh_translator_weights_create(s->context, s->t, &s->weights));
    for (size_t i = 0; i < count; i++)
        MH_TRY(score_segment(s, &segments[i]));
    const mh_segment_list list = {segments, count, count};
    return mh_translate_assemble(s->context, s->t, &list, translations);
}

mh_status mh_score_translations(mh_context *context, const mh_translator *translator,
                                const mh_translate_options *options, const mh_text *texts,
                                const mh_text *targets, size_t count,
                                mh_translations **translations)
{
    mh_translate_options own;
    MH_TRY(mh_need(context, translations, "translations"));
    *translations = NULL;
    MH_TRY(mh_translate_check(context, translator, options, texts, count, &own));
    MH_TRY(MH_NEED(context, {"targets", mh_array(targets, count)}));
    own.n_best = 1;
    for (size_t i = 0; i < count; i++)
        if (!targets[i].bytes && targets[i].size > 0)
            return mh_fail(context, MH_ERROR_ARGUMENT, "targets[%zu]: found NULL", i);
    mh_translations *t = mh_translations_create(context, count, 1);
    if (!t)
        return MH_ERROR_MEMORY;
    scorer s = {.context = context, .t = translator, .options = &own, .store = &t->store};
    const mh_fpenv saved = mh_fpenv_enter();
    mh_status status = score_all(&s, texts, targets, t);
    mh_fpenv_leave(saved);
    mh_translator_weights_free(&s.weights);
    mh_text_memory_free(context, &s.memory);
    mh_tokens_free(context, &s.tokens);
    if (status)
        mh_translations_free(t);
    else
        *translations = t;
    return status;
}
