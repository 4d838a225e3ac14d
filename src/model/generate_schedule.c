// SPDX-License-Identifier: MIT
// Continuous batching: a step runs the model once over the next tokens of all live sequences, a
// part of the prompt or the last token that was chosen. A sequence that is finished makes room for
// the next prompt:
//
//     plan -> model -> rows whose next token is due -> logits -> choose -> accept -> drop, admit
//
// Hidden states and logits of a row are bitwise the same whatever else is in a step.
#include "base/arena.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/generate_cache.h"
#include "model/generate_decoder.h"
#include "model/generate_internal.h"
#include "model/generate_text.h"
#include "support/grow.h"
#include <math.h>
#include <string.h>

typedef struct sequence {
    size_t index; // of its prompt
    int32_t *ids; // (count): prompt and generated tokens
    size_t count;
    size_t prompt;       // tokens
    size_t fed;          // tokens that the model has seen
    size_t most;         // tokens, prompt and generated
    double *logprobs;    // (count - prompt)
    mh_token_score *top; // (count - prompt, top_logprobs)
    size_t ids_capacity, logprobs_capacity, top_capacity;
    mh_growing_text text;
    bool done;
} sequence;

typedef struct schedule {
    mh_generate_job *job;
    mh_token_decoder *decoder;
    size_t width; // sequences at most
    size_t V, D, workers;
    sequence *live;               // (width)
    size_t count, next;           // live ones; the next prompt
    int64_t *starts;              // (width + 1)
    int32_t *ids;                 // (segment + width)
    float *hidden;                // (segment + width, D)
    size_t *due, due_count;       // (width): live sequences that get a token
    float *rows;                  // (width, D)
    float *logits;                // (width, V)
    mh_token_score *chosen, *top; // (width), (width, top_logprobs)
    size_t *parents;              // (width)
    mh_sampling_scratch *scratch; // (workers)
} schedule;

// ---- memory -------------------------------------------------------------------------------------

static void layout_scratch(schedule *s, mh_arena *arena)
{
    const bool samples = s->job->options->temperature > 0;
    s->scratch = mh_arena_take(arena, s->workers, sizeof *s->scratch);
    for (size_t i = 0; i < s->workers; i++) {
        mh_sampling_scratch scratch = {.scores = mh_arena_take(arena, s->V, sizeof(float))};
        if (samples) {
            scratch.candidates = mh_arena_take(arena, s->V, sizeof(uint64_t));
            scratch.sorted = mh_arena_take(arena, s->V, sizeof(uint64_t));
            scratch.weights = mh_arena_take(arena, s->V, sizeof(double));
        }
        if (s->scratch)
            s->scratch[i] = scratch;
    }
}

static void schedule_layout(schedule *s, mh_arena *arena)
{
    const size_t width = s->width, rows = s->job->options->segment + width;
    s->live = mh_arena_take(arena, width, sizeof *s->live);
    s->starts = mh_arena_take(arena, width + 1, sizeof *s->starts);
    s->ids = mh_arena_take(arena, rows, sizeof *s->ids);
    s->hidden = mh_arena_take(arena, rows, s->D * sizeof *s->hidden);
    s->due = mh_arena_take(arena, width, sizeof *s->due);
    s->rows = mh_arena_take(arena, width, s->D * sizeof *s->rows);
    s->logits = mh_arena_take(arena, width, s->V * sizeof *s->logits);
    s->chosen = mh_arena_take(arena, width, sizeof *s->chosen);
    s->top = mh_arena_take(arena, width, s->job->options->top_logprobs * sizeof *s->top);
    s->parents = mh_arena_take(arena, width, sizeof *s->parents);
    layout_scratch(s, arena);
}

static void free_sequence(mh_context *context, sequence *q)
{
    mh_shrink(context, &q->ids, &q->ids_capacity, sizeof *q->ids);
    mh_shrink(context, &q->logprobs, &q->logprobs_capacity, sizeof *q->logprobs);
    mh_shrink(context, &q->top, &q->top_capacity, sizeof *q->top);
    mh_growing_text_free(context, &q->text);
}

// ---- joining ------------------------------------------------------------------------------------

static mh_status store_sequence(mh_context *context, const schedule *s, const sequence *q,
                                mh_finish finish)
{
    const mh_generated result = {.ids = q->ids + q->prompt,
                                 .logprobs = q->logprobs,
                                 .top = q->top,
                                 .count = q->count - q->prompt,
                                 .text = {q->text.text.data, q->text.text.size},
                                 .finish = finish};
    return mh_job_store(context, s->job, q->index, &result);
}

static mh_status start_sequence(mh_context *context, schedule *s, sequence *q)
{
    const mh_generation *g = &s->job->to->list[q->index];
    if (!mh_grow(context, &q->ids, &q->ids_capacity, g->prompt_count, sizeof *q->ids))
        return MH_ERROR_MEMORY;
    memcpy(q->ids, g->prompt, g->prompt_count * sizeof *q->ids);
    q->count = q->prompt = g->prompt_count;
    q->most = mh_job_limit(s->job, q->index);
    if (q->most == q->prompt) { // no room for a token
        q->done = true;
        return store_sequence(context, s, q, MH_FINISH_LENGTH);
    }
    mh_prompt_cache *cache = s->job->options->prompt_cache;
    if (cache)
        MH_TRY(mh_prompt_cache_begin(context, cache, s->job->options, q->ids, q->count, &s->decoder,
                                     &q->fed));
    else
        MH_TRY(mh_token_decoder_extend(context, s->decoder, 1));
    return mh_growing_text_begin(context, s->job->model->tokenizer, q->ids, q->count, &q->text);
}

static mh_status admit(mh_context *context, schedule *s)
{
    while (s->count < s->width && s->next < s->job->to->count) {
        sequence *q = &s->live[s->count];
        *q = (sequence){.index = s->next++};
        mh_status status = start_sequence(context, s, q);
        if (status || q->done)
            free_sequence(context, q);
        else
            s->count++;
        MH_TRY(status);
    }
    return MH_OK;
}

// ---- a step of the model ------------------------------------------------------------------------

// All that are behind their prompt get their last token; prompts share a segment.
static void plan(schedule *s)
{
    size_t budget = s->job->options->segment;
    s->due_count = 0;
    s->starts[0] = 0;
    for (size_t b = 0; b < s->count; b++) {
        sequence *q = &s->live[b];
        size_t n = q->count - q->fed;
        if (q->fed < q->prompt) {
            n = mh_smaller(n, budget);
            budget -= n;
        }
        if (n)
            memcpy(s->ids + s->starts[b], q->ids + q->fed, n * sizeof *s->ids);
        s->starts[b + 1] = s->starts[b] + (int64_t)n;
        q->fed += n;
        if (q->fed == q->count)
            s->due[s->due_count++] = b;
    }
}

static mh_status run_model(mh_context *context, schedule *s)
{
    const size_t D = s->D;
    plan(s);
    MH_TRY(mh_token_decoder_step(context, s->decoder, s->starts, s->ids, s->hidden));
    if (s->due_count == 0)
        return MH_OK;
    for (size_t r = 0; r < s->due_count; r++)
        memcpy(s->rows + r * D, s->hidden + (size_t)(s->starts[s->due[r] + 1] - 1) * D,
               D * sizeof *s->rows);
    const mh_tensor hidden = mh_tensor_2d(s->rows, MH_F32, s->due_count, D);
    mh_tensor logits = mh_tensor_2d(s->logits, MH_F32, s->due_count, s->V);
    return mh_model_logits(context, s->job->model, &hidden, &logits);
}

// ---- the next tokens ----------------------------------------------------------------------------

static void choose_token(schedule *s, size_t r, const mh_sampling_scratch *scratch)
{
    const mh_generate_options *o = s->job->options;
    const sequence *q = &s->live[s->due[r]];
    const float *logits = s->logits + r * s->V;
    const mh_rule_state state = {q->ids, q->count, q->prompt, q->most};
    const mh_sampling sampling = mh_job_sampling(s->job);
    const double lse = mh_log_sum_exp(logits, s->V);
    s->chosen[r] = (mh_token_score){-1, 0};
    if (isnan(lse))
        return;
    mh_top_scores(logits, s->V, lse, o->top_logprobs, s->top + r * o->top_logprobs);
    memcpy(scratch->scores, logits, s->V * sizeof *logits);
    mh_penalise_repetition(o->repetition_penalty, logits, 0, q->ids, q->count, scratch->scores);
    mh_token_rules_apply(&s->job->model->rules, &state, scratch->scores, s->V);
    const int32_t id =
        mh_sample_token(&sampling, q->index, q->count - q->prompt, scratch->scores, s->V, scratch);
    if (id >= 0)
        s->chosen[r] = (mh_token_score){id, (double)logits[id] - lse};
}

static void choose_task(void *user, size_t i, size_t worker)
{
    schedule *s = user;
    (void)worker;
    for (size_t r = i; r < s->due_count; r += s->workers)
        choose_token(s, r, &s->scratch[i]);
}

static mh_status append_token(mh_context *context, const schedule *s, sequence *q, size_t r)
{
    const size_t n = q->count - q->prompt, tops = s->job->options->top_logprobs;
    if (!mh_grow(context, &q->ids, &q->ids_capacity, q->count + 1, sizeof *q->ids) ||
        !mh_grow(context, &q->logprobs, &q->logprobs_capacity, n + 1, sizeof *q->logprobs) ||
        !mh_grow(context, &q->top, &q->top_capacity, (n + 1) * tops, sizeof *q->top))
        return MH_ERROR_MEMORY;
    q->ids[q->count++] = s->chosen[r].id;
    q->logprobs[n] = s->chosen[r].logprob;
    if (tops)
        memcpy(q->top + n * tops, s->top + r * tops, tops * sizeof *q->top);
    return MH_OK;
}

static mh_status add_text(mh_context *context, const schedule *s, sequence *q, int32_t id)
{
    const mh_generate_options *o = s->job->options;
    mh_text shown;
    return mh_growing_text_add(context, s->job->model->tokenizer, o->stop, o->stop_count, id,
                               &q->text, &shown);
}

static mh_generate_action report_token(const schedule *s, const sequence *q, size_t r,
                                       size_t shown_before, mh_finish finish)
{
    const mh_generate_options *o = s->job->options;
    const mh_growing_text *t = &q->text;
    const mh_generated_token token = {
        .sequence = q->index,
        .position = q->count - q->prompt - 1,
        .token = s->chosen[r],
        .text = {t->text.data ? t->text.data + shown_before : "", t->shown - shown_before},
        .top = s->top + r * o->top_logprobs,
        .top_count = o->top_logprobs,
        .last = q->done,
        .finish = finish,
        .result = q->done ? &s->job->to->list[q->index] : NULL};
    return o->on_token ? o->on_token(o->user, &token) : MH_GENERATE_CONTINUE;
}

// Text that was held back is added, and all of it becomes the result.
static mh_status end_sequence(mh_context *context, const schedule *s, sequence *q, mh_finish finish)
{
    MH_TRY(add_text(context, s, q, -1));
    return store_sequence(context, s, q, finish);
}

// Takes the token of row r; the sequence may be done then.
static mh_status accept(mh_context *context, schedule *s, size_t r)
{
    sequence *q = &s->live[s->due[r]];
    const int32_t id = s->chosen[r].id;
    const size_t shown = q->text.shown;
    if (id < 0)
        return mh_job_damaged(context, s->job);
    MH_TRY(append_token(context, s, q, r));
    const bool ends =
        !s->job->options->ignore_eos && mh_token_rules_ends(&s->job->model->rules, id);
    if (!ends)
        MH_TRY(add_text(context, s, q, id));
    const mh_finish finish = ends || q->text.stopped ? MH_FINISH_STOP : MH_FINISH_LENGTH;
    q->done = finish == MH_FINISH_STOP || q->count == q->most;
    if (q->done)
        MH_TRY(end_sequence(context, s, q, finish));
    const mh_generate_action action = report_token(s, q, r, shown, finish);
    s->job->stopped = action == MH_GENERATE_STOP_ALL;
    if (action == MH_GENERATE_CONTINUE || q->done)
        return MH_OK;
    q->done = true;
    return end_sequence(context, s, q, MH_FINISH_STOPPED);
}

// ---- leaving ------------------------------------------------------------------------------------

// A sequence that a prompt cache holds stays in the decoder.
static mh_status keep_sequence(mh_context *context, schedule *s)
{
    const sequence *q = &s->live[0];
    return s->count && s->job->options->prompt_cache
               ? mh_prompt_cache_keep(context, s->job->options->prompt_cache, q->ids, q->fed)
               : MH_OK;
}

static mh_status drop_done(mh_context *context, schedule *s)
{
    size_t kept = 0;
    for (size_t b = 0; b < s->count; b++) {
        if (s->live[b].done) {
            MH_TRY(keep_sequence(context, s));
            free_sequence(context, &s->live[b]);
            continue;
        }
        s->parents[kept] = b;
        s->live[kept++] = s->live[b];
    }
    const bool same = kept == s->count || s->job->options->prompt_cache;
    s->count = kept;
    return same ? MH_OK : mh_token_decoder_select(context, s->decoder, s->parents, kept);
}

// The callback wants no more: what there is becomes the result.
static mh_status store_rest(mh_context *context, schedule *s)
{
    for (size_t b = 0; b < s->count; b++) {
        if (s->live[b].done)
            continue;
        MH_TRY(end_sequence(context, s, &s->live[b], MH_FINISH_STOPPED));
    }
    return keep_sequence(context, s);
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status run_steps(mh_context *context, schedule *s)
{
    MH_TRY(admit(context, s));
    while (s->count > 0) {
        MH_TRY(run_model(context, s));
        mh_parallel_for(context, mh_smaller(s->workers, s->due_count), choose_task, s);
        for (size_t r = 0; r < s->due_count && !s->job->stopped; r++)
            MH_TRY(accept(context, s, r));
        if (s->job->stopped)
            return store_rest(context, s);
        MH_TRY(drop_done(context, s));
        MH_TRY(admit(context, s));
    }
    return MH_OK;
}

static mh_status run_schedule(mh_context *context, schedule *s)
{
    const mh_generate_options *o = s->job->options;
    mh_arena arena = {0};
    schedule_layout(s, &arena);
    const size_t size = arena.used;
    if (arena.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for a batch of %zu", s->width);
    void *block = mh_alloc(context, size);
    if (!block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = block, .size = size};
    schedule_layout(s, &arena);
    mh_status status = MH_OK;
    if (!o->prompt_cache)
        status = mh_token_decoder_create(context, s->job->model, o->cache_dtype, o->disabled_heads,
                                         &s->decoder);
    if (!status)
        status = run_steps(context, s);
    for (size_t b = 0; b < s->count; b++)
        free_sequence(context, &s->live[b]);
    if (!o->prompt_cache)
        mh_token_decoder_free(s->decoder);
    else if (status)
        mh_prompt_cache_clear(o->prompt_cache);
    mh_free(context, block, size);
    return status;
}

mh_status mh_generate_schedule(mh_context *context, mh_generate_job *job)
{
    const size_t width = mh_smaller(job->options->batch, job->to->count);
    schedule s = {.job = job,
                  .width = width,
                  .V = job->model->description.vocabulary,
                  .D = job->model->description.block.d_model,
                  .workers = mh_smaller(width, mh_context_threads(context))};
    return width ? run_schedule(context, &s) : MH_OK;
}
