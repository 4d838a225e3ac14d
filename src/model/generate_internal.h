// SPDX-License-Identifier: MIT
// Parts of text generation:
//
//     generate.c            arguments, prompts, results
//     generate_schedule.c   many sequences at once, token by token: greedy and sampling
//     generate_cache.c      keys and values that a prompt shares with the last one
//     generate_beam.c       beam search, many prompts at once
#ifndef MH_MODEL_GENERATE_INTERNAL_H
#define MH_MODEL_GENERATE_INTERNAL_H

#include "model/model_internal.h"
#include "model/result_arena.h"
#include "model/sampling.h"

struct mh_generations {
    mh_result_arena store; // everything below is in it
    size_t count;
    mh_generation *list; // (count); prompts are set first
};

typedef struct mh_generate_job {
    const mh_model *model;
    const mh_generate_options *options; // complete and checked
    mh_generations *to;
    bool stopped; // by the callback
} mh_generate_job;

static inline mh_sampling mh_job_sampling(const mh_generate_job *job)
{
    const mh_generate_options *o = job->options;
    return (mh_sampling){o->temperature, o->top_k, o->top_p, o->min_p, o->seed};
}

// The most tokens that prompt `i` and what is generated may have together.
size_t mh_job_limit(const mh_generate_job *job, size_t i);

// Continue all prompts.
mh_status mh_generate_schedule(mh_context *context, mh_generate_job *job);
mh_status mh_generate_beam(mh_context *context, mh_generate_job *job);

// What a sequence has become; `logprobs` and `top` as in mh_generation. Everything is copied.
typedef struct mh_generated {
    const int32_t *ids;
    const double *logprobs;
    const mh_token_score *top;
    size_t count;
    mh_text text;
    mh_finish finish;
} mh_generated;

mh_status mh_job_store(mh_context *context, const mh_generate_job *job, size_t i,
                       const mh_generated *result);

// MH_ERROR_UNSUPPORTED unless the model is a causal language model.
mh_status mh_generate_check_model(mh_context *context, const mh_model *model);

mh_status mh_job_damaged(mh_context *context, const mh_generate_job *job);

#endif
