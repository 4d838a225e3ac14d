// SPDX-License-Identifier: MIT
// Beam search for text generation, one prompt at a time: the rows of a step are the hypotheses.
// The best one is then read by the model once more, which gives the log-probability of each token
// and the likeliest others, with the same bits.
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
#include <math.h>
#include <string.h>

static const mh_search_rules any_end = {.end = -1}; // any of the end-of-text tokens, for mh_beam

typedef struct beam_search {
    mh_generate_job *job;
    size_t index; // of the prompt
    const mh_generation *prompt;
    size_t V, D, width;
    size_t most; // tokens to generate
    mh_token_decoder *decoder;
    mh_beam beam;
    int64_t *starts;          // (width + 1)
    int32_t *ids;             // (segment + width)
    float *hidden;            // (segment + width, D)
    float *logits;            // (width, V)
    float *scores;            // (V)
    int32_t *history;         // (prompt + most)
    size_t *parents;          // (width)
    mh_token_score *best;     // (width)
    mh_candidates candidates; // (width, width)
    double *logprobs;         // (most)
    mh_token_score *top;      // (most, top_logprobs)
    mh_growing_text text;
    void *block;
    size_t size;
} beam_search;

static void beam_search_layout(beam_search *s, mh_arena *arena)
{
    const size_t width = s->width, rows = s->job->options->segment + width;
    s->starts = mh_arena_take(arena, width + 1, sizeof *s->starts);
    s->ids = mh_arena_take(arena, rows, sizeof *s->ids);
    s->hidden = mh_arena_take(arena, rows, s->D * sizeof *s->hidden);
    s->logits = mh_arena_take(arena, width, s->V * sizeof *s->logits);
    s->scores = mh_arena_take(arena, s->V, sizeof *s->scores);
    s->history = mh_arena_take(arena, s->prompt->prompt_count + s->most, sizeof *s->history);
    s->parents = mh_arena_take(arena, width, sizeof *s->parents);
    s->best = mh_arena_take(arena, width, sizeof *s->best);
    s->candidates.ids = mh_arena_take(arena, width * width, sizeof *s->candidates.ids);
    s->candidates.log_probabilities = mh_arena_take(arena, width * width, sizeof(double));
    s->candidates.end = mh_arena_take(arena, width, sizeof(double));
    s->logprobs = mh_arena_take(arena, s->most, sizeof *s->logprobs);
    s->top = mh_arena_take(arena, s->most, s->job->options->top_logprobs * sizeof *s->top);
}

// ---- candidates ---------------------------------------------------------------------------------

// The log-probability of the likeliest end-of-text token; -infinity where none can come. Without
// any, a hypothesis ends at the limit for free.
static double score_end(const beam_search *s, double lse, int32_t *id)
{
    const mh_token_list *eos = &s->job->model->rules.eos;
    double best = -INFINITY;
    *id = -1;
    for (size_t i = 0; i < eos->count && !s->job->options->ignore_eos; i++)
        if (s->scores[eos->ids[i]] > best) {
            best = s->scores[eos->ids[i]];
            *id = eos->ids[i];
        }
    if (*id < 0)
        return s->beam.length == s->most ? 0 : -INFINITY;
    return best - lse;
}

static mh_status score_hypothesis(mh_context *context, beam_search *s, size_t h)
{
    const mh_generate_options *o = s->job->options;
    const float *logits = s->logits + h * s->V;
    const size_t prompt = s->prompt->prompt_count, count = prompt + s->beam.length;
    const double lse = mh_log_sum_exp(logits, s->V);
    int32_t end;
    if (isnan(lse))
        return mh_job_damaged(context, s->job);
    if (s->beam.length)
        memcpy(s->history + prompt, s->beam.hypotheses[h].ids, s->beam.length * sizeof(int32_t));
    memcpy(s->scores, logits, s->V * sizeof *logits);
    mh_penalise_repetition(o->repetition_penalty, logits, s->history, count, s->scores);
    const mh_rule_state state = {s->history, count, prompt, prompt + s->most};
    mh_token_rules_apply(&s->job->model->rules, &state, s->scores, s->V);
    s->candidates.end[h] = score_end(s, lse, &end);
    for (size_t i = 0; i < s->job->model->rules.eos.count && !o->ignore_eos; i++)
        s->scores[s->job->model->rules.eos.ids[i]] = -INFINITY;
    mh_top_scores(s->scores, s->V, lse, s->width, s->best);
    for (size_t i = 0; i < s->width; i++) {
        s->candidates.ids[h * s->width + i] = s->best[i].id;
        s->candidates.log_probabilities[h * s->width + i] = s->best[i].logprob;
    }
    return MH_OK;
}

// ---- the search ---------------------------------------------------------------------------------

static mh_status beam_logits(mh_context *context, const beam_search *s, float *rows, size_t count)
{
    const mh_tensor hidden = mh_tensor_2d(rows, MH_F32, count, s->D);
    mh_tensor logits = mh_tensor_2d(s->logits, MH_F32, count, s->V);
    return mh_model_logits(context, s->job->model, &hidden, &logits);
}

// The prompt, in segments; s->logits are then those of its last token.
static mh_status read_prompt(mh_context *context, beam_search *s)
{
    const size_t count = s->prompt->prompt_count;
    size_t n = 0;
    for (size_t done = 0; done < count; done += n) {
        n = mh_smaller(count - done, s->job->options->segment);
        const int64_t starts[] = {0, (int64_t)n};
        MH_TRY(mh_token_decoder_step(context, s->decoder, starts, s->prompt->prompt + done,
                                     s->hidden));
    }
    return beam_logits(context, s, s->hidden + (n - 1) * s->D, 1);
}

static mh_status step_hypotheses(mh_context *context, beam_search *s)
{
    const size_t live = s->beam.live;
    MH_TRY(mh_token_decoder_select(context, s->decoder, s->parents, live));
    for (size_t i = 0; i <= live; i++)
        s->starts[i] = (int64_t)i;
    for (size_t i = 0; i < live; i++)
        s->ids[i] = s->beam.hypotheses[i].ids[s->beam.length - 1];
    MH_TRY(mh_token_decoder_step(context, s->decoder, s->starts, s->ids, s->hidden));
    return beam_logits(context, s, s->hidden, live);
}

static mh_status search_beam(mh_context *context, beam_search *s)
{
    MH_TRY(mh_token_decoder_extend(context, s->decoder, 1));
    MH_TRY(read_prompt(context, s));
    while (s->beam.live) {
        for (size_t h = 0; h < s->beam.live; h++)
            MH_TRY(score_hypothesis(context, s, h));
        mh_beam_advance(&s->beam, &s->candidates, s->parents);
        if (s->beam.live)
            MH_TRY(step_hypotheses(context, s));
    }
    return s->beam.finished ? MH_OK : mh_job_damaged(context, s->job);
}

// ---- the result ---------------------------------------------------------------------------------

// Scores of the token behind position `at` of the whole sequence; the end of text is the likeliest
// of its tokens.
static mh_status score_token(mh_context *context, beam_search *s, size_t n, bool ends)
{
    const size_t tops = s->job->options->top_logprobs;
    int32_t *id = &s->history[s->prompt->prompt_count + n];
    const double lse = mh_log_sum_exp(s->logits, s->V);
    if (isnan(lse))
        return mh_job_damaged(context, s->job);
    if (ends) {
        memcpy(s->scores, s->logits, s->V * sizeof *s->scores);
        score_end(s, lse, id);
    }
    s->logprobs[n] = (double)s->logits[*id] - lse;
    mh_top_scores(s->logits, s->V, lse, tops, s->top + n * tops);
    return MH_OK;
}

// Reads prompt and hypothesis again.
static mh_status score_best(mh_context *context, beam_search *s, size_t count, bool ends)
{
    const size_t prompt = s->prompt->prompt_count;
    const size_t none = 0;
    MH_TRY(mh_token_decoder_select(context, s->decoder, &none, 0));
    MH_TRY(mh_token_decoder_extend(context, s->decoder, 1));
    MH_TRY(read_prompt(context, s));
    for (size_t n = 0; n < count; n++) {
        MH_TRY(score_token(context, s, n, ends && n + 1 == count));
        if (n + 1 == count)
            break;
        const int64_t starts[] = {0, 1};
        MH_TRY(
            mh_token_decoder_step(context, s->decoder, starts, s->history + prompt + n, s->hidden));
        MH_TRY(beam_logits(context, s, s->hidden, 1));
    }
    return MH_OK;
}

static mh_generate_action report_beam_token(const beam_search *s, size_t n, mh_text text, bool last,
                                            mh_finish finish)
{
    const mh_generate_options *o = s->job->options;
    const mh_generated_token token = {
        .sequence = s->index,
        .position = n,
        .token = {s->history[s->prompt->prompt_count + n], s->logprobs[n]},
        .text = text,
        .top = s->top + n * o->top_logprobs,
        .top_count = o->top_logprobs,
        .last = last,
        .finish = finish};
    return o->on_token ? o->on_token(o->user, &token) : MH_GENERATE_CONTINUE;
}

// Token by token, as a search without hypotheses would report it.
static mh_status report_best(mh_context *context, beam_search *s, size_t count, bool ends,
                             mh_generated *result)
{
    const mh_generate_options *o = s->job->options;
    const mh_tokenizer *tokenizer = s->job->model->tokenizer;
    const int32_t *ids = s->history + s->prompt->prompt_count;
    MH_TRY(mh_growing_text_begin(context, tokenizer, s->prompt->prompt, s->prompt->prompt_count,
                                 &s->text));
    bool last = false;
    result->finish = ends ? MH_FINISH_STOP : MH_FINISH_LENGTH;
    for (size_t n = 0; n < count && !last; n++) {
        const size_t before = s->text.shown;
        mh_text shown;
        last = n + 1 == count;
        if (!(last && ends))
            MH_TRY(mh_growing_text_add(context, tokenizer, o->stop, o->stop_count, ids[n], &s->text,
                                       &shown));
        last = last || s->text.stopped;
        if (s->text.stopped)
            result->finish = MH_FINISH_STOP;
        if (last)
            MH_TRY(mh_growing_text_add(context, tokenizer, o->stop, o->stop_count, -1, &s->text,
                                       &shown));
        shown =
            (mh_text){s->text.text.data ? s->text.text.data + before : "", s->text.shown - before};
        const mh_generate_action action = report_beam_token(s, n, shown, last, result->finish);
        if (action != MH_GENERATE_CONTINUE && !last) {
            result->finish = MH_FINISH_STOPPED;
            last = true;
        }
        s->job->stopped = action == MH_GENERATE_STOP_ALL;
        result->count = n + 1;
    }
    result->text = (mh_text){s->text.text.data, s->text.text.size};
    return MH_OK;
}

static mh_status finish_beam(mh_context *context, beam_search *s)
{
    const mh_hypothesis *best = &s->beam.best[0];
    const bool ends = best->count < s->most;
    const size_t prompt = s->prompt->prompt_count, count = best->count + ends;
    if (best->count)
        memcpy(s->history + prompt, best->ids, best->count * sizeof *best->ids);
    MH_TRY(score_best(context, s, count, ends));
    mh_generated result = {
        .ids = s->history + prompt, .logprobs = s->logprobs, .top = s->top, .count = count};
    MH_TRY(report_best(context, s, count, ends, &result));
    return mh_job_store(context, s->job, s->index, &result);
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status beam_search_start(mh_context *context, beam_search *s)
{
    const mh_generate_options *o = s->job->options;
    mh_arena arena = {0};
    beam_search_layout(s, &arena);
    s->size = arena.used;
    if (arena.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for a beam of %zu", s->width);
    s->block = mh_alloc(context, s->size);
    if (!s->block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = s->block, .size = s->size};
    beam_search_layout(s, &arena);
    memcpy(s->history, s->prompt->prompt, s->prompt->prompt_count * sizeof *s->history);
    if (!mh_beam_create(context, s->width, 1, s->most + 1, o->length_penalty, &any_end, &s->beam))
        return MH_ERROR_MEMORY;
    return mh_token_decoder_create(context, s->job->model, o->cache_dtype, o->disabled_heads,
                                   &s->decoder);
}

static mh_status generate_one(mh_context *context, mh_generate_job *job, size_t i)
{
    const mh_generation *prompt = &job->to->list[i];
    beam_search s = {.job = job,
                     .index = i,
                     .prompt = prompt,
                     .V = job->model->description.vocabulary,
                     .D = job->model->description.block.d_model,
                     .width = job->options->beam,
                     .most = mh_job_limit(job, i) - prompt->prompt_count};
    if (s.most == 0)
        return mh_job_store(context, job, i, &(mh_generated){.finish = MH_FINISH_LENGTH});
    mh_status status = beam_search_start(context, &s);
    if (!status)
        status = search_beam(context, &s);
    if (!status)
        status = finish_beam(context, &s);
    mh_growing_text_free(context, &s.text);
    mh_token_decoder_free(context, s.decoder);
    mh_beam_free(context, &s.beam);
    mh_free(context, s.block, s.size);
    return status;
}

mh_status mh_generate_beam(mh_context *context, mh_generate_job *job)
{
    for (size_t i = 0; i < job->to->count && !job->stopped; i++)
        MH_TRY(generate_one(context, job, i));
    return MH_OK;
}
