// SPDX-License-Identifier: MIT
// The search for a window's text: the likeliest token at temperature 0, samples at others, or beam
// search. A live hypothesis is a row of the decoder; one that ends leaves it.
//
// Beam search takes the width + 1 likeliest continuations of every hypothesis, all sorted: those
// that end are finished, the first `width` others are the next rows; it is done when `width` are
// finished. The result is the finished hypothesis with the highest mean log-probability.
#include "base/arena.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/sampling.h"
#include "speech/speech_internal.h"
#include <math.h>
#include <string.h>

typedef struct hypothesis {
    int32_t *ids; // (most)
    size_t count;
    double logprob; // sum
} hypothesis;

// A continuation of a live hypothesis.
typedef struct continuation {
    size_t parent;
    int32_t id;
    double logprob;
} continuation;

typedef struct search {
    const mh_speech *s;
    size_t width; // hypotheses at most
    bool beam;
    double temperature;
    uint64_t seed;
    mh_decoding *decoding;
    size_t live, finished;
    hypothesis *rows, *next, *done; // (width) each
    continuation *options;          // (width (width + 1))
    size_t *parents;                // (width)
    int32_t *tokens;                // (width)
    int64_t *positions;             // (width)
    float *x;                       // (width or prompt, D)
    float *logits;                  // (width, V)
    mh_sampling_scratch scratch;    // V
    mh_token_score *top;            // (width + 1)
    double no_speech;
} search;

static void layout_search(search *q, size_t prompt, mh_arena *arena)
{
    const mh_speech *s = q->s;
    const size_t n = q->width, V = s->vocabulary;
    hypothesis **lists[] = {&q->rows, &q->next, &q->done};
    for (size_t i = 0; i < 3; i++) {
        *lists[i] = mh_arena_take(arena, n, sizeof(hypothesis));
        int32_t *ids = mh_arena_take(arena, n * s->most, sizeof *ids);
        for (size_t j = 0; j < n && arena->base; j++)
            (*lists[i])[j] = (hypothesis){.ids = ids + j * s->most};
    }
    q->options = mh_arena_take(arena, n * (n + 1), sizeof *q->options);
    q->parents = mh_arena_take(arena, n, sizeof *q->parents);
    q->tokens = mh_arena_take(arena, n, sizeof *q->tokens);
    q->positions = mh_arena_take(arena, n > prompt ? n : prompt, sizeof *q->positions);
    q->x = mh_arena_take(arena, (n > prompt ? n : prompt) * s->width, sizeof *q->x);
    q->logits = mh_arena_take(arena, n > 2 ? n : 2, V * sizeof *q->logits);
    q->scratch.scores = mh_arena_take(arena, V, sizeof *q->scratch.scores);
    q->scratch.candidates = mh_arena_take(arena, V, sizeof *q->scratch.candidates);
    q->scratch.sorted = mh_arena_take(arena, V, sizeof *q->scratch.sorted);
    q->scratch.weights = mh_arena_take(arena, V, sizeof *q->scratch.weights);
    q->top = mh_arena_take(arena, n + 1, sizeof *q->top);
}

// ---- steps of the decoder -----------------------------------------------------------------------

// Rows of hidden states of q->x to logits.
static mh_status find_logits(const search *q, size_t row, size_t count, float *logits)
{
    const mh_speech *s = q->s;
    const mh_tensor x = mh_tensor_2d(q->x + row * s->width, MH_F32, count, s->width);
    mh_tensor y = mh_tensor_2d(logits, MH_F32, count, s->vocabulary);
    MH_TRY(mh_model_logits(s->context, s->model, &x, &y));
    for (size_t i = 0; i < count; i++)
        if (isnan(mh_log_sum_exp(logits + i * s->vocabulary, s->vocabulary)))
            return mh_fail(s->context, MH_ERROR_FORMAT,
                           "transcribe: the logits are NaN or infinite, the model's weights are "
                           "damaged");
    return MH_OK;
}

// Tokens at positions `first`, first + 1, ... of one sequence (shape (1, count)), or one token for
// each of `count` sequences (shape (count, 1)).
static mh_status step(const search *q, const int32_t *ids, size_t count, size_t first, bool prompt)
{
    const mh_speech *s = q->s;
    mh_tensor rows = mh_tensor_2d(q->x, MH_F32, count, s->width);
    mh_tensor x = mh_tensor_3d(q->x, MH_F32, prompt ? 1 : count, prompt ? count : 1, s->width);
    for (size_t i = 0; i < count; i++)
        q->positions[i] = (int64_t)(first + (prompt ? i : 0));
    MH_TRY(mh_model_embed_targets(s->context, s->model, ids, q->positions, &rows));
    return mh_decoding_step(s->context, q->decoding, NULL, 0, &x, &x);
}

// The probability that there is no speech is that of its token right after <|startoftranscript|>.
static mh_status read_prompt(search *q, const int32_t *prompt, size_t count)
{
    const mh_speech *s = q->s;
    MH_TRY(step(q, prompt, count, 0, true));
    size_t start = count - 1;
    while (start > 0 && prompt[start] != s->tokens.start)
        start--;
    MH_TRY(find_logits(q, start, 1, q->logits));
    q->no_speech =
        exp((double)q->logits[s->tokens.no_speech] - mh_log_sum_exp(q->logits, s->vocabulary));
    return find_logits(q, count - 1, 1, q->logits);
}

// ---- what comes next ----------------------------------------------------------------------------

static void extend(hypothesis *to, const hypothesis *from, int32_t id, double logprob)
{
    memcpy(to->ids, from->ids, from->count * sizeof *to->ids);
    to->count = from->count;
    to->ids[to->count++] = id;
    to->logprob = logprob;
}

static void finish(search *q, const hypothesis *h, double logprob)
{
    hypothesis *to = &q->done[q->finished++];
    memcpy(to->ids, h->ids, h->count * sizeof *to->ids);
    to->count = h->count;
    to->logprob = logprob;
}

// Filtered logits of row i in scratch.scores, and their log-sum-exp.
static double filtered(search *q, size_t i)
{
    const size_t V = q->s->vocabulary;
    memcpy(q->scratch.scores, q->logits + i * V, V * sizeof(float));
    mh_speech_filter(q->s, q->rows[i].ids, q->rows[i].count, q->scratch.scores);
    return mh_log_sum_exp(q->scratch.scores, V);
}

// Each hypothesis continues by its own token.
static void advance_each(search *q, size_t position)
{
    const mh_sampling sampling = {.temperature = q->temperature, .top_p = 1, .seed = q->seed};
    const mh_speech *s = q->s;
    size_t live = 0;
    for (size_t i = 0; i < q->live; i++) {
        const double lse = filtered(q, i);
        const int32_t id =
            mh_sample_token(&sampling, i, position, q->scratch.scores, s->vocabulary, &q->scratch);
        const double logprob =
            id < 0 ? 0 : q->rows[i].logprob + (double)q->scratch.scores[id] - lse;
        if (id < 0 || id == s->tokens.end) {
            finish(q, &q->rows[i], id < 0 ? q->rows[i].logprob : logprob);
            continue;
        }
        extend(&q->next[live], &q->rows[i], id, logprob);
        q->parents[live++] = i;
    }
    q->live = live;
}

static bool comes_before(const continuation *a, const continuation *b)
{
    return a->logprob != b->logprob ? a->logprob > b->logprob
           : a->parent != b->parent ? a->parent < b->parent
                                    : a->id < b->id;
}

// All continuations, best first.
static size_t list_continuations(search *q)
{
    size_t count = 0;
    for (size_t i = 0; i < q->live; i++) {
        const double lse = filtered(q, i);
        mh_top_scores(q->scratch.scores, q->s->vocabulary, lse, q->width + 1, q->top);
        for (size_t k = 0; k <= q->width && q->top[k].id >= 0; k++) {
            const continuation c = {i, q->top[k].id, q->rows[i].logprob + q->top[k].logprob};
            size_t at = count++;
            for (; at > 0 && comes_before(&c, &q->options[at - 1]); at--)
                q->options[at] = q->options[at - 1];
            q->options[at] = c;
        }
    }
    return count;
}

static void advance_beam(search *q)
{
    const size_t count = list_continuations(q);
    size_t live = 0;
    for (size_t i = 0; i < count && live < q->width; i++) {
        const continuation *c = &q->options[i];
        if (!isfinite(c->logprob))
            break;
        if (c->id != q->s->tokens.end) {
            extend(&q->next[live], &q->rows[c->parent], c->id, c->logprob);
            q->parents[live++] = c->parent;
        } else if (q->finished < q->width) {
            finish(q, &q->rows[c->parent], c->logprob);
        }
    }
    q->live = q->finished < q->width ? live : 0;
}

// ---- the loop -----------------------------------------------------------------------------------

// The decoder's rows follow the hypotheses.
static mh_status follow(search *q, size_t rows_before)
{
    bool same = q->live == rows_before;
    hypothesis *swap = q->rows;
    q->rows = q->next;
    q->next = swap;
    for (size_t i = 0; i < q->live; i++) {
        same = same && q->parents[i] == i;
        q->tokens[i] = q->rows[i].ids[q->rows[i].count - 1];
    }
    return same || !q->live ? MH_OK
                            : mh_decoding_select(q->s->context, q->decoding, q->parents, q->live);
}

// Samples start as copies of one row; the hypotheses of a beam as one.
static mh_status fork_rows(search *q)
{
    q->live = q->beam ? 1 : q->width;
    for (size_t i = 1; i < q->live; i++)
        memcpy(q->logits + i * q->s->vocabulary, q->logits, q->s->vocabulary * sizeof(float));
    memset(q->parents, 0, q->width * sizeof *q->parents);
    return q->live > 1 ? mh_decoding_select(q->s->context, q->decoding, q->parents, q->live)
                       : MH_OK;
}

static mh_status run_search(search *q, const int32_t *prompt, size_t count)
{
    const mh_speech *s = q->s;
    MH_TRY(read_prompt(q, prompt, count));
    MH_TRY(fork_rows(q));
    for (size_t n = 0; q->live > 0; n++) {
        const size_t before = q->live;
        if (q->beam)
            advance_beam(q);
        else
            advance_each(q, n);
        MH_TRY(follow(q, before));
        if (!q->live || n + 1 == s->most || count + n >= s->model->description.positions)
            break; // ended, as long as half of the positions, or at the last of them
        MH_TRY(step(q, q->tokens, q->live, count + n, false));
        MH_TRY(find_logits(q, 0, q->live, q->logits));
    }
    for (size_t i = 0; i < q->live && q->finished < q->width; i++)
        finish(q, &q->rows[i], q->rows[i].logprob); // at the longest text
    return MH_OK;
}

static void take_best(const search *q, mh_window_text *text)
{
    const hypothesis *best = NULL;
    double score = -INFINITY;
    for (size_t i = 0; i < q->finished; i++) {
        const hypothesis *h = &q->done[i];
        const double mean = h->count ? h->logprob / (double)h->count : -INFINITY;
        if (!best || mean > score) {
            best = h;
            score = mean;
        }
    }
    *text = (mh_window_text){
        .ids = text->ids, .no_speech = q->no_speech, .temperature = q->temperature};
    if (!best)
        return;
    text->count = best->count;
    text->logprob = best->logprob / (double)(best->count + 1);
    memcpy(text->ids, best->ids, best->count * sizeof *text->ids);
}

mh_status mh_speech_decode(const mh_speech *s, const int32_t *prompt, size_t prompt_count,
                           double temperature, uint64_t window, mh_window_text *text)
{
    const bool beam = temperature <= 0 && s->options.beam > 1;
    search q = {.s = s,
                .beam = beam,
                .width = beam              ? s->options.beam
                         : temperature > 0 ? s->options.best_of
                                           : 1,
                .temperature = temperature,
                .seed = s->options.seed + window};
    mh_arena arena = {0};
    layout_search(&q, prompt_count, &arena);
    const size_t size = arena.used;
    void *block = mh_alloc(s->context, size);
    if (!block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = block, .size = size};
    layout_search(&q, prompt_count, &arena);
    const mh_tensor memory = mh_tensor_3d(s->memory, MH_F32, 1, s->memory_rows, s->width);
    mh_status status =
        mh_decoding_create(s->context, s->model->transformer, &memory, NULL, 1, &q.decoding);
    if (!status)
        status = run_search(&q, prompt, prompt_count);
    if (!status)
        take_best(&q, text);
    mh_decoding_free(q.decoding);
    mh_free(s->context, block, size);
    return status;
}
