// SPDX-License-Identifier: MIT
// Beam search for text generation, many prompts at once. A sequence of the decoder is a prompt that
// is being read, or a live hypothesis; those of a prompt are adjacent:
//
//     plan -> model -> rows whose next token is due -> logits -> candidates -> each beam advances
//      ^                                                                              |
//      +---- the decoder's caches follow; a prompt that is done makes room for the next
//
// Each step leaves a trail: which hypothesis continued which, by which token, with which
// log-probability. The best hypothesis's tokens are followed through it at the end.
//
// A hypothesis that ends counts its end-of-text token, one that is cut off at the limit as well:
// longer ones are not favoured for lacking it (beam.h).
#include "base/arena.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/beam.h"
#include "model/generate_decoder.h"
#include "model/generate_internal.h"
#include "model/generate_text.h"
#include "support/grow.h"
#include <math.h>
#include <string.h>

static const mh_search_rules any_end = {.end = -1}; // any of the end-of-text tokens, for mh_beam

// A live hypothesis: its last token, and the hypothesis of the step before that it continues.
typedef struct trail_entry {
    size_t parent;
    mh_token_score token;
} trail_entry;

typedef struct beam_search {
    size_t index; // of the prompt
    const mh_generation *prompt;
    size_t fed;  // tokens of the prompt that the model has seen
    size_t most; // tokens to generate
    mh_beam beam;
    size_t row;           // of the step: its first, if its next tokens are due
    trail_entry *trail;   // (steps, width)
    mh_token_score *ends; // (steps, width): the likeliest end-of-text token of a hypothesis
    mh_token_score *top;  // (steps, width, top_logprobs)
    size_t trail_capacity, ends_capacity, top_capacity;
    bool due, done;
} beam_search;

typedef struct beam_scratch {
    float *scores;        // (V)
    int32_t *history;     // (longest)
    mh_token_score *best; // (width)
    bool damaged;
} beam_scratch;

typedef struct beam_schedule {
    mh_generate_job *job;
    mh_token_decoder *decoder;
    size_t V, D, width, workers;
    size_t searches;     // at a time, at most
    size_t longest;      // tokens of prompt and text
    beam_search *live;   // (searches)
    size_t count, next;  // live ones; the next prompt
    int64_t *starts;     // (searches * width + 1)
    int32_t *ids;        // (segment + searches * width)
    float *hidden;       // (segment + searches * width, D)
    size_t rows;         // that are due; the following have searches * width
    size_t *sources;     // rows of hidden
    beam_search **owner; // their searches
    float *states;       // D each
    float *logits;       // V each
    double *sums;        // log-sum-exp of the logits
    size_t *parents;
    mh_candidates candidates; // width each
    beam_scratch *scratch;    // (workers)
} beam_schedule;

// ---- memory -------------------------------------------------------------------------------------

static void beam_schedule_layout(beam_schedule *s, mh_arena *arena)
{
    const size_t most = s->searches * s->width, rows = s->job->options->segment + most;
    s->live = mh_arena_take(arena, s->searches, sizeof *s->live);
    s->starts = mh_arena_take(arena, most + 1, sizeof *s->starts);
    s->ids = mh_arena_take(arena, rows, sizeof *s->ids);
    s->hidden = mh_arena_take(arena, rows, s->D * sizeof *s->hidden);
    s->sources = mh_arena_take(arena, most, sizeof *s->sources);
    s->owner = mh_arena_take(arena, most, sizeof *s->owner);
    s->states = mh_arena_take(arena, most, s->D * sizeof *s->states);
    s->logits = mh_arena_take(arena, most, s->V * sizeof *s->logits);
    s->sums = mh_arena_take(arena, most, sizeof *s->sums);
    s->parents = mh_arena_take(arena, most, sizeof *s->parents);
    s->candidates.ids = mh_arena_take(arena, most, s->width * sizeof *s->candidates.ids);
    s->candidates.log_probabilities = mh_arena_take(arena, most, s->width * sizeof(double));
    s->candidates.end = mh_arena_take(arena, most, sizeof(double));
    s->scratch = mh_arena_take(arena, s->workers, sizeof *s->scratch);
    for (size_t i = 0; i < s->workers; i++) {
        const beam_scratch scratch = {.scores = mh_arena_take(arena, s->V, sizeof *scratch.scores),
                                      .history =
                                          mh_arena_take(arena, s->longest, sizeof *scratch.history),
                                      .best = mh_arena_take(arena, s->width, sizeof *scratch.best)};
        if (s->scratch)
            s->scratch[i] = scratch;
    }
}

static void free_search(mh_context *context, beam_search *q)
{
    mh_beam_free(context, &q->beam);
    mh_shrink(context, &q->trail, &q->trail_capacity, sizeof *q->trail);
    mh_shrink(context, &q->ends, &q->ends_capacity, sizeof *q->ends);
    mh_shrink(context, &q->top, &q->top_capacity, sizeof *q->top);
}

// Room in the trail for the step that comes.
static mh_status grow_trail(mh_context *context, const beam_schedule *s, beam_search *q)
{
    const size_t count = (q->beam.length + 1) * s->width, tops = s->job->options->top_logprobs;
    return mh_grow(context, &q->trail, &q->trail_capacity, count, sizeof *q->trail) &&
                   mh_grow(context, &q->ends, &q->ends_capacity, count, sizeof *q->ends) &&
                   mh_grow(context, &q->top, &q->top_capacity, count * tops, sizeof *q->top)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

// ---- joining ------------------------------------------------------------------------------------

static mh_status start_search(mh_context *context, beam_schedule *s, beam_search *q)
{
    q->prompt = &s->job->to->list[q->index];
    q->most = mh_job_limit(s->job, q->index) - q->prompt->prompt_count;
    q->done = q->most == 0; // no room for a token
    if (q->done)
        return mh_job_store(context, s->job, q->index, &(mh_generated){.finish = MH_FINISH_LENGTH});
    if (!mh_beam_create(context, s->width, 1, q->most + 1, s->job->options->length_penalty,
                        &any_end, &q->beam))
        return MH_ERROR_MEMORY;
    return mh_token_decoder_extend(context, s->decoder, 1);
}

static mh_status admit_searches(mh_context *context, beam_schedule *s)
{
    while (s->count < s->searches && s->next < s->job->to->count) {
        beam_search *q = &s->live[s->count];
        *q = (beam_search){.index = s->next++};
        mh_status status = start_search(context, s, q);
        if (status || q->done)
            free_search(context, q);
        else
            s->count++;
        MH_TRY(status);
    }
    return MH_OK;
}

// ---- a step of the model ------------------------------------------------------------------------

// A row of the step is due: the next token of a sequence depends on it.
static void add_due(beam_schedule *s, beam_search *q, int64_t source)
{
    if (!q->due)
        q->row = s->rows;
    q->due = true;
    s->owner[s->rows] = q;
    s->sources[s->rows++] = (size_t)source;
}

// A part of a prompt, or the last token of each hypothesis; prompts share a segment.
static void plan_searches(beam_schedule *s)
{
    size_t budget = s->job->options->segment, sequence = 0;
    int64_t row = 0;
    s->rows = 0;
    for (size_t b = 0; b < s->count; b++) {
        beam_search *q = &s->live[b];
        const size_t left = q->prompt->prompt_count - q->fed, part = mh_smaller(left, budget);
        q->due = false;
        for (size_t i = 0; i < q->beam.live; i++) {
            s->starts[sequence++] = row;
            if (left)
                memcpy(s->ids + row, q->prompt->prompt + q->fed, part * sizeof *s->ids);
            else
                s->ids[row] = q->beam.hypotheses[i].ids[q->beam.length - 1];
            row += left ? (int64_t)part : 1;
            if (part == left)
                add_due(s, q, row - 1);
        }
        q->fed += part;
        budget -= part;
    }
    s->starts[sequence] = row;
}

static mh_status run_searches(mh_context *context, beam_schedule *s)
{
    plan_searches(s);
    MH_TRY(mh_token_decoder_step(context, s->decoder, s->starts, s->ids, s->hidden));
    if (s->rows == 0)
        return MH_OK;
    for (size_t r = 0; r < s->rows; r++)
        memcpy(s->states + r * s->D, s->hidden + s->sources[r] * s->D, s->D * sizeof *s->states);
    const mh_tensor states = mh_tensor_2d(s->states, MH_F32, s->rows, s->D);
    mh_tensor logits = mh_tensor_2d(s->logits, MH_F32, s->rows, s->V);
    return mh_model_logits(context, s->job->model, &states, &logits);
}

// ---- candidates ---------------------------------------------------------------------------------

// The likeliest end-of-text token; id -1 where none can come.
static mh_token_score find_end(const beam_schedule *s, const float *scores, double normaliser)
{
    const mh_token_list *eos = &s->job->model->rules.eos;
    mh_token_score end = {-1, -INFINITY};
    for (size_t i = 0; i < eos->count && !s->job->options->ignore_eos; i++)
        if ((double)scores[eos->ids[i]] - normaliser > end.logprob)
            end = (mh_token_score){eos->ids[i], (double)scores[eos->ids[i]] - normaliser};
    return end;
}

static size_t set_history(const beam_search *q, size_t h, int32_t *history)
{
    const size_t prompt = q->prompt->prompt_count, length = q->beam.length;
    memcpy(history, q->prompt->prompt, prompt * sizeof *history);
    if (length)
        memcpy(history + prompt, q->beam.hypotheses[h].ids, length * sizeof *history);
    return prompt + length;
}

static void score_row(const beam_schedule *s, size_t r, beam_scratch *scratch)
{
    const mh_generate_options *o = s->job->options;
    const mh_token_rules *rules = &s->job->model->rules;
    const beam_search *q = s->owner[r];
    const float *logits = s->logits + r * s->V;
    const size_t h = r - q->row, at = q->beam.length * s->width + h;
    const size_t count = set_history(q, h, scratch->history), prompt = q->prompt->prompt_count;
    const double lse = s->sums[r] = mh_log_sum_exp(logits, s->V);
    scratch->damaged = scratch->damaged || isnan(lse);
    if (isnan(lse))
        return;
    if (o->top_logprobs)
        mh_top_scores(logits, s->V, lse, o->top_logprobs, q->top + at * o->top_logprobs);
    memcpy(scratch->scores, logits, s->V * sizeof *logits);
    mh_penalise_repetition(o->repetition_penalty, logits, lse, scratch->history, count,
                           scratch->scores);
    const mh_rule_state state = {scratch->history, count, prompt, prompt + q->most};
    mh_token_rules_apply(rules, &state, scratch->scores, s->V);
    const double normaliser = mh_token_rules_force(rules, &state) ? 0 : lse;
    const mh_token_score end = find_end(s, scratch->scores, normaliser);
    // Without any, a hypothesis ends at the limit for free.
    s->candidates.end[r] = end.id >= 0 || q->beam.length < q->most ? end.logprob : 0;
    q->ends[at] = (mh_token_score){end.id, end.id < 0 ? 0 : (double)logits[end.id] - lse};
    for (size_t i = 0; i < rules->eos.count && !o->ignore_eos; i++)
        scratch->scores[rules->eos.ids[i]] = -INFINITY;
    mh_top_scores(scratch->scores, s->V, normaliser, s->width, scratch->best);
    for (size_t i = 0; i < s->width; i++) {
        s->candidates.ids[r * s->width + i] = scratch->best[i].id;
        s->candidates.log_probabilities[r * s->width + i] = scratch->best[i].logprob;
    }
}

static void score_task(void *user, size_t i, size_t worker)
{
    const beam_schedule *s = user;
    (void)worker;
    for (size_t r = i; r < s->rows; r += s->workers)
        score_row(s, r, &s->scratch[i]);
}

static mh_status score_rows(mh_context *context, beam_schedule *s)
{
    for (size_t b = 0; b < s->count; b++)
        if (s->live[b].due)
            MH_TRY(grow_trail(context, s, &s->live[b]));
    mh_parallel_for(context, mh_smaller(s->workers, s->rows), score_task, s);
    for (size_t i = 0; i < s->workers; i++)
        if (s->scratch[i].damaged)
            return mh_job_damaged(context, s->job);
    return MH_OK;
}

// ---- the best hypothesis ------------------------------------------------------------------------

// Follows the trail: tokens 0 to count - 1, of which the last is an end of text if it `ends`.
static void follow_trail(const beam_schedule *s, const beam_search *q, size_t count, bool ends,
                         int32_t *ids, double *logprobs, mh_token_score *top)
{
    const mh_hypothesis *best = &q->beam.best[0];
    const size_t tops = s->job->options->top_logprobs;
    for (size_t n = 0, h = 0; n < count; n++) {
        const trail_entry *step = q->trail + n * s->width;
        if (tops)
            memcpy(top + n * tops, q->top + (n * s->width + h) * tops, tops * sizeof *top);
        mh_token_score token = q->ends[n * s->width + h];
        if (!ends || n + 1 < count) {
            size_t i = 0;
            while (step[i].parent != h || step[i].token.id != best->ids[n])
                i++;
            h = i;
            token = step[i].token;
        }
        ids[n] = token.id;
        logprobs[n] = token.logprob;
    }
}

static mh_status store_tokens(mh_context *context, const beam_schedule *s, size_t index,
                              size_t count, const mh_growing_text *text, mh_generated *result)
{
    result->count = count;
    result->text = (mh_text){text->text.data, text->text.size};
    return mh_job_store(context, s->job, index, result);
}

// Calls the callback token by token, as a search without hypotheses would. The result is stored.
static mh_status report_best(mh_context *context, const beam_schedule *s, size_t index, bool ends,
                             mh_growing_text *text, mh_generated *result)
{
    const mh_generate_options *o = s->job->options;
    const mh_tokenizer *tokenizer = s->job->model->tokenizer;
    const size_t count = result->count;
    result->finish = ends ? MH_FINISH_STOP : MH_FINISH_LENGTH;
    for (size_t n = 0, last = 0; n < count && !last; n++) {
        const size_t before = text->shown;
        mh_text shown;
        last = n + 1 == count;
        if (!(last && ends))
            MH_TRY(mh_growing_text_add(context, tokenizer, o->stop, o->stop_count, result->ids[n],
                                       text, &shown));
        last = last || text->stopped;
        if (text->stopped)
            result->finish = MH_FINISH_STOP;
        if (last) {
            MH_TRY(
                mh_growing_text_add(context, tokenizer, o->stop, o->stop_count, -1, text, &shown));
            MH_TRY(store_tokens(context, s, index, n + 1, text, result));
        }
        const mh_generated_token token = {
            .sequence = index,
            .position = n,
            .token = {result->ids[n], result->logprobs[n]},
            .text = {text->text.data ? text->text.data + before : "", text->shown - before},
            .top = result->top + n * o->top_logprobs,
            .top_count = o->top_logprobs,
            .last = last,
            .finish = result->finish,
            .result = last ? &s->job->to->list[index] : NULL};
        const mh_generate_action action =
            o->on_token ? o->on_token(o->user, &token) : MH_GENERATE_CONTINUE;
        if (action != MH_GENERATE_CONTINUE && !last) {
            result->finish = MH_FINISH_STOPPED;
            last = true;
            MH_TRY(store_tokens(context, s, index, n + 1, text, result));
        }
        s->job->stopped = action == MH_GENERATE_STOP_ALL;
    }
    return MH_OK;
}

static mh_status store_best(mh_context *context, const beam_schedule *s, const beam_search *q,
                            bool ends, mh_generated *result)
{
    mh_growing_text text = {0};
    mh_status status = mh_growing_text_begin(context, s->job->model->tokenizer, q->prompt->prompt,
                                             q->prompt->prompt_count, &text);
    if (!status)
        status = report_best(context, s, q->index, ends, &text, result);
    mh_growing_text_free(context, &text);
    return status;
}

static mh_status finish_search(mh_context *context, const beam_schedule *s, const beam_search *q)
{
    if (!q->beam.finished)
        return mh_job_damaged(context, s->job);
    const bool ends = q->beam.best[0].count < q->most;
    const size_t count = q->beam.best[0].count + ends, tops = s->job->options->top_logprobs;
    const size_t bytes = count * (sizeof(int32_t) + sizeof(double) + tops * sizeof(mh_token_score));
    double *logprobs = mh_alloc(context, bytes);
    if (!logprobs)
        return MH_ERROR_MEMORY;
    mh_token_score *top = (mh_token_score *)(logprobs + count);
    int32_t *ids = (int32_t *)(top + count * tops);
    follow_trail(s, q, count, ends, ids, logprobs, top);
    mh_generated result = {.ids = ids, .logprobs = logprobs, .top = top, .count = count};
    mh_status status = store_best(context, s, q, ends, &result);
    mh_free(context, logprobs, bytes);
    return status;
}

// ---- advancing and leaving ----------------------------------------------------------------------

static mh_candidates candidates_of(const beam_schedule *s, const beam_search *q)
{
    const size_t first = q->row * s->width;
    return (mh_candidates){s->candidates.ids + first, s->candidates.log_probabilities + first,
                           s->candidates.end + q->row};
}

// The search's hypotheses of the next step; the parents of all go to the decoder later.
static mh_status advance_search(mh_context *context, beam_schedule *s, beam_search *q,
                                size_t *parents)
{
    const mh_candidates candidates = candidates_of(s, q);
    trail_entry *step = q->trail + q->beam.length * s->width;
    mh_beam_advance(&q->beam, &candidates, parents);
    for (size_t i = 0; i < s->width; i++)
        step[i] = (trail_entry){SIZE_MAX, {-1, 0}};
    for (size_t i = 0; i < q->beam.live; i++) {
        const int32_t id = q->beam.hypotheses[i].ids[q->beam.length - 1];
        const size_t r = q->row + parents[i];
        step[i] =
            (trail_entry){parents[i], {id, (double)s->logits[r * s->V + (size_t)id] - s->sums[r]}};
    }
    q->done = q->beam.live == 0;
    return q->done ? finish_search(context, s, q) : MH_OK;
}

// Advances all; drops those that are done, and has the decoder's sequences follow.
static mh_status advance_searches(mh_context *context, beam_schedule *s)
{
    size_t kept = 0, sequence = 0, next = 0;
    for (size_t b = 0; b < s->count && !s->job->stopped; b++) {
        beam_search *q = &s->live[b];
        const size_t before = q->beam.live;
        if (q->due)
            MH_TRY(advance_search(context, s, q, s->parents + next));
        else
            s->parents[next] = 0; // a prompt that is being read
        for (size_t i = 0; i < q->beam.live; i++)
            s->parents[next++] += sequence;
        sequence += before;
        const beam_search moved = *q;
        if (moved.done)
            free_search(context, q);
        *q = (beam_search){0};
        if (!moved.done)
            s->live[kept++] = moved;
    }
    if (s->job->stopped)
        return MH_OK;
    s->count = kept;
    return mh_token_decoder_select(context, s->decoder, s->parents, next);
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status beam_steps(mh_context *context, beam_schedule *s)
{
    MH_TRY(admit_searches(context, s));
    while (s->count > 0 && !s->job->stopped) {
        MH_TRY(run_searches(context, s));
        MH_TRY(score_rows(context, s));
        MH_TRY(advance_searches(context, s));
        MH_TRY(admit_searches(context, s));
    }
    return MH_OK;
}

static mh_status run_beam_schedule(mh_context *context, beam_schedule *s)
{
    const mh_generate_options *o = s->job->options;
    mh_arena arena = {0};
    beam_schedule_layout(s, &arena);
    const size_t size = arena.used;
    if (arena.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for %zu beams of %zu", s->searches,
                       s->width);
    void *block = mh_alloc(context, size);
    if (!block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = block, .size = size};
    beam_schedule_layout(s, &arena);
    memset(s->live, 0, s->searches * sizeof *s->live);
    mh_status status = mh_token_decoder_create(context, s->job->model, o->cache_dtype,
                                               o->disabled_heads, &s->decoder);
    if (!status)
        status = beam_steps(context, s);
    for (size_t b = 0; b < s->searches; b++)
        free_search(context, &s->live[b]);
    mh_token_decoder_free(s->decoder);
    mh_free(context, block, size);
    return status;
}

// As many searches at a time as have `batch` hypotheses together.
mh_status mh_generate_beam(mh_context *context, mh_generate_job *job)
{
    const mh_generate_options *o = job->options;
    const size_t together = (o->batch + o->beam - 1) / o->beam;
    const size_t searches = mh_smaller(together, job->to->count);
    beam_schedule s = {.job = job,
                       .V = job->model->description.vocabulary,
                       .D = job->model->description.block.d_model,
                       .width = o->beam,
                       .searches = searches,
                       .workers = mh_smaller(searches * o->beam, mh_context_threads(context))};
    for (size_t i = 0; i < job->to->count; i++)
        s.longest = mh_larger(s.longest, mh_job_limit(job, i));
    return searches ? run_beam_schedule(context, &s) : MH_OK;
}
