// SPDX-License-Identifier: MIT
// Text generation: arguments, prompts and results.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/release.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "model/generate_cache.h"
#include "model/generate_internal.h"
#include <math.h>
#include <string.h>

// ---- options ------------------------------------------------------------------------------------

enum { MOST_GENERATE_BEAM = 1024, MOST_SEQUENCES = 65536, MOST_TOP_LOGPROBS = 1024 };
static const size_t MOST_SEGMENT = 1 << 20;
static const double MOST_FACTOR = 1e6; // of logits: temperature and repetition penalty

static mh_status check_size(mh_context *context, const char *name, size_t found, size_t low,
                            size_t high)
{
    if (found >= low && found <= high)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %zu, expected %zu to %zu", name, found,
                   low, high);
}

static mh_status check_sampling(mh_context *context, const mh_generate_options *o)
{
    if (!(o->temperature >= 0 && o->temperature <= MOST_FACTOR))
        return mh_fail(context, MH_ERROR_ARGUMENT, "temperature: found %g, expected 0 to %.0f",
                       o->temperature, MOST_FACTOR);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "top_p: found %g, expected more than 0, up to 1",
                       o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "min_p: found %g, expected 0 to 1", o->min_p);
    if (!(o->repetition_penalty > 0 && o->repetition_penalty <= MOST_FACTOR))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "repetition_penalty: found %g, expected more than 0, up to %.0f",
                       o->repetition_penalty, MOST_FACTOR);
    if (!(o->length_penalty >= 0 && isfinite(o->length_penalty)))
        return mh_fail(context, MH_ERROR_ARGUMENT, "length_penalty: found %g, expected 0 or more",
                       o->length_penalty);
    if (o->beam > 1 && o->temperature > 0)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "beam: found %zu and a temperature of %g, expected one of them: beam search "
                       "does not sample",
                       o->beam, o->temperature);
    return MH_OK;
}

static mh_status check_stop(mh_context *context, const mh_model *model,
                            const mh_generate_options *o)
{
    if (o->stop_count == 0)
        return MH_OK;
    MH_TRY(MH_NEED(context, {"stop", o->stop}));
    MH_TRY(mh_model_need_tokenizer(context, model));
    for (size_t i = 0; i < o->stop_count; i++) {
        const mh_text stop = o->stop[i];
        if (!stop.bytes || stop.size == 0)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "stop[%zu]: found an empty string, expected text", i);
        if (mh_utf8_valid(stop.bytes, stop.size) < stop.size)
            return mh_fail(context, MH_ERROR_ARGUMENT, "stop[%zu]: is not valid UTF-8", i);
    }
    return MH_OK;
}

static mh_status generate_check_options(mh_context *context, const mh_model *model,
                                        const mh_generate_options *o)
{
    MH_TRY(check_size(context, "max_tokens", o->max_tokens, 1, INT32_MAX));
    MH_TRY(check_size(context, "beam", o->beam, 1, MOST_GENERATE_BEAM));
    MH_TRY(check_size(context, "batch", o->batch, 1, MOST_SEQUENCES));
    MH_TRY(check_size(context, "segment", o->segment, 1, MOST_SEGMENT));
    MH_TRY(check_size(context, "top_logprobs", o->top_logprobs, 0, MOST_TOP_LOGPROBS));
    MH_TRY(check_sampling(context, o));
    return check_stop(context, model, o);
}

mh_status mh_generate_check_model(mh_context *context, const mh_model *model)
{
    if (model->info.abilities & MH_CAN_GENERATE)
        return MH_OK;
    return mh_fail(context, MH_ERROR_UNSUPPORTED,
                   "this model (%s%s%s) cannot generate text: it is no causal language model",
                   model->info.family, *model->architecture ? ", " : "", model->architecture);
}

// ---- prompts ------------------------------------------------------------------------------------

static mh_status check_prompt(mh_context *context, const mh_model *model, size_t i,
                              const int32_t *ids, size_t count)
{
    const size_t most = model->info.max_length;
    if (count > most)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "text %zu: found %zu tokens, expected at most %zu, the model's longest "
                       "input",
                       i + 1, count, most);
    for (size_t j = 0; j < count; j++)
        if (ids[j] < 0 || (size_t)ids[j] >= model->description.vocabulary)
            return mh_fail(context, MH_ERROR_ARGUMENT, "text %zu: found id %d, expected 0 to %zu",
                           i + 1, (int)ids[j], model->description.vocabulary - 1);
    return MH_OK;
}

// An empty prompt is the beginning-of-text token.
static mh_status set_prompt(mh_context *context, const mh_generate_job *job, size_t i,
                            const int32_t *ids, size_t count)
{
    const int32_t bos = job->model->rules.bos;
    if (count == 0 && bos < 0)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "text %zu: found no tokens, expected some: the model has no "
                       "beginning-of-text token",
                       i + 1);
    MH_TRY(check_prompt(context, job->model, i, ids, count));
    if (count == 0) {
        ids = &bos;
        count = 1;
    }
    mh_generation *g = &job->to->list[i];
    *g =
        (mh_generation){.text = {"", 0},
                        .prompt = mh_result_copy(context, &job->to->store, ids, count, sizeof *ids),
                        .prompt_count = count,
                        .top_count = job->options->top_logprobs,
                        .finish = MH_FINISH_STOPPED};
    return g->prompt ? MH_OK : MH_ERROR_MEMORY;
}

size_t mh_job_limit(const mh_generate_job *job, size_t i)
{
    const mh_generate_options *o = job->options;
    const size_t prompt = job->to->list[i].prompt_count;
    size_t most = mh_smaller(prompt + o->max_tokens, job->model->info.max_length);
    if (o->max_length)
        most = mh_smaller(most, o->max_length);
    return mh_larger(most, prompt);
}

// ---- results ------------------------------------------------------------------------------------

static mh_generations *make_generations(mh_context *context, size_t count)
{
    mh_generations *g = mh_alloc(context, sizeof *g);
    if (!g)
        return NULL;
    *g = (mh_generations){.store.allocator = mh_context_allocator(context), .count = count};
    g->list = mh_result_take(context, &g->store, count, sizeof *g->list);
    if (g->list)
        return g;
    mh_generations_free(g);
    return NULL;
}

void mh_generations_free(mh_generations *g)
{
    if (!g)
        return;
    const mh_allocator allocator = g->store.allocator;
    mh_result_free(&g->store);
    mh_release(&allocator, g, sizeof *g);
}

const mh_generation *mh_generations_at(const mh_generations *g, size_t i)
{
    return i < g->count ? &g->list[i] : NULL;
}

mh_status mh_job_store(mh_context *context, const mh_generate_job *job, size_t i,
                       const mh_generated *r)
{
    mh_result_arena *store = &job->to->store;
    mh_generation *g = &job->to->list[i];
    char *text = mh_result_take(context, store, r->text.size + 1, 1);
    g->ids = mh_result_copy(context, store, r->ids, r->count, sizeof *r->ids);
    g->logprobs = mh_result_copy(context, store, r->logprobs, r->count, sizeof *r->logprobs);
    g->top = mh_result_copy(context, store, r->top, r->count * g->top_count, sizeof *r->top);
    if (!text || !g->ids || !g->logprobs || !g->top)
        return MH_ERROR_MEMORY;
    if (r->text.size)
        memcpy(text, r->text.bytes, r->text.size);
    text[r->text.size] = 0;
    g->text = (mh_text){text, r->text.size};
    g->count = r->count;
    g->finish = r->finish;
    return MH_OK;
}

mh_status mh_job_damaged(mh_context *context, const mh_generate_job *job)
{
    return mh_fail(
        context, MH_ERROR_FORMAT,
        "the logits of this model (%s) are NaN or infinite, or its token rules allow no token: "
        "its files are damaged",
        job->model->info.family);
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status generate_ids(mh_context *context, mh_generate_job *job, const int64_t *starts,
                              const int32_t *ids)
{
    for (size_t i = 0; i < job->to->count; i++)
        MH_TRY(set_prompt(context, job, i, ids + starts[i], (size_t)(starts[i + 1] - starts[i])));
    return job->options->beam > 1 ? mh_generate_beam(context, job)
                                  : mh_generate_schedule(context, job);
}

static mh_status check_starts(mh_context *context, const int64_t *starts, const int32_t *ids,
                              size_t count)
{
    if (count == 0)
        return MH_OK;
    MH_TRY(MH_NEED(context, {"starts", starts}));
    for (size_t i = 0; i < count; i++)
        if (starts[0] != 0 || starts[i + 1] < starts[i])
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "starts[%zu]: found %lld, expected 0, ... in order", i,
                           (long long)starts[i]);
    return MH_NEED(context, {"ids", mh_array(ids, (size_t)starts[count])});
}

static mh_status generate_check(mh_context *context, const mh_model *model,
                                const mh_generate_options *options, mh_generate_options *own,
                                mh_generations **generations)
{
    MH_TRY(MH_NEED(context, {"generations", generations}));
    *generations = NULL;
    MH_TRY(MH_NEED(context, {"model", model}));
    *own = mh_generate_options_default();
    MH_TRY(MH_READ_STRUCT(context, mh_generate_options, options, own));
    MH_TRY(mh_generate_check_model(context, model));
    return generate_check_options(context, model, own);
}

// A cache is of one sequence.
static mh_status check_cache(mh_context *context, const mh_model *model,
                             const mh_generate_options *o, size_t count)
{
    if (!o->prompt_cache)
        return MH_OK;
    if (count != 1 || o->beam > 1)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "prompt_cache: found %zu prompts and a beam of %zu, expected one prompt and "
                       "no beam",
                       count, o->beam);
    return mh_prompt_cache_check(context, o->prompt_cache, model);
}

static mh_status generate_all(mh_context *context, const mh_model *model,
                              const mh_generate_options *own, const int64_t *starts,
                              const int32_t *ids, size_t count, mh_generations **generations)
{
    MH_TRY(check_cache(context, model, own, count));
    mh_generate_job job = {model, own, make_generations(context, count), false};
    if (!job.to)
        return MH_ERROR_MEMORY;
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = generate_ids(context, &job, starts, ids);
    mh_fpenv_leave(saved);
    if (status)
        mh_generations_free(job.to);
    else
        *generations = job.to;
    return status;
}

mh_status mh_generate(mh_context *context, const mh_model *model,
                      const mh_generate_options *options, const int64_t *starts, const int32_t *ids,
                      size_t count, mh_generations **generations)
{
    mh_generate_options own;
    MH_TRY(generate_check(context, model, options, &own, generations));
    MH_TRY(check_starts(context, starts, ids, count));
    return generate_all(context, model, &own, starts, ids, count, generations);
}

// ---- texts --------------------------------------------------------------------------------------

static void generate_free_texts(mh_context *context, size_t count, mh_encoding *encodings,
                                int64_t *starts, int32_t *ids, size_t rows)
{
    for (size_t i = 0; encodings && i < count; i++)
        mh_encoding_free(context, &encodings[i]);
    mh_free(context, encodings, count * sizeof *encodings);
    mh_free(context, starts, (count + 1) * sizeof *starts);
    mh_free(context, ids, rows * sizeof *ids);
}

static mh_status encode_prompts(mh_context *context, const mh_model *model,
                                const mh_generate_options *own, const mh_text *texts, size_t count,
                                mh_encoding *encodings, int64_t *starts)
{
    mh_encode_options o = mh_encode_options_default();
    o.add_special_tokens = own->add_special_tokens;
    memset(encodings, 0, count * sizeof *encodings);
    MH_TRY(mh_tokenizer_encode_batch(context, model->tokenizer, &o, texts, NULL, count, encodings));
    starts[0] = 0;
    for (size_t i = 0; i < count; i++)
        starts[i + 1] = starts[i] + (int64_t)encodings[i].count;
    return MH_OK;
}

mh_status mh_generate_texts(mh_context *context, const mh_model *model,
                            const mh_generate_options *options, const mh_text *texts, size_t count,
                            mh_generations **generations)
{
    mh_generate_options own;
    MH_TRY(generate_check(context, model, options, &own, generations));
    MH_TRY(mh_model_need_tokenizer(context, model));
    MH_TRY(MH_NEED(context, {"texts", mh_array(texts, count)}));
    mh_encoding *encodings = mh_alloc(context, count * sizeof *encodings);
    int64_t *starts = encodings ? mh_alloc(context, (count + 1) * sizeof *starts) : NULL;
    if (!starts) {
        mh_free(context, encodings, count * sizeof *encodings);
        return MH_ERROR_MEMORY;
    }
    mh_status status = encode_prompts(context, model, &own, texts, count, encodings, starts);
    const size_t rows = status ? 0 : (size_t)starts[count];
    int32_t *ids = status ? NULL : mh_alloc(context, rows * sizeof *ids);
    for (size_t i = 0; i < count && ids; i++)
        if (encodings[i].count)
            memcpy(ids + starts[i], encodings[i].ids, encodings[i].count * sizeof *ids);
    if (!status)
        status = ids ? generate_all(context, model, &own, starts, ids, count, generations)
                     : MH_ERROR_MEMORY;
    generate_free_texts(context, count, encodings, starts, ids, rows);
    return status;
}

const mh_generation_defaults *mh_model_generation_defaults(const mh_model *model)
{
    return &model->rules.defaults;
}
