// SPDX-License-Identifier: MIT
// Gemma 2's soft cap of logits: y = c tanh(x / c), and its derivative 1 - (y / c)^2.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/model_internal.h"

typedef struct softcap_job {
    float factor;
    const mh_tensor *y; // backward: capped logits
    mh_tensor *x;       // (n, V): scaled, or a gradient of capped logits
} softcap_job;

static float *softcap_row(const mh_tensor *t, size_t i)
{
    return (float *)t->data + (ptrdiff_t)i * t->stride[0];
}

static void softcap_scale_row(void *user, size_t i, size_t worker)
{
    (void)worker;
    const softcap_job *job = user;
    float *x = softcap_row(job->x, i);
    for (size_t j = 0; j < job->x->shape[1]; j++)
        x[j] *= job->factor;
}

mh_status mh_model_cap_logits(mh_context *context, float cap, mh_tensor *logits)
{
    char found[128];
    if (logits->rank != 2 || logits->dtype != MH_F32 || logits->stride[1] != 1)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "logits: found %s, expected f32 (n, V) with contiguous rows",
                       mh_tensor_describe(logits, found, sizeof found));
    softcap_job job = {.factor = 1 / cap, .x = logits};
    mh_parallel_for(context, logits->shape[0], softcap_scale_row, &job);
    MH_TRY(mh_activate(context, MH_TANH, logits, logits));
    job.factor = cap;
    mh_parallel_for(context, logits->shape[0], softcap_scale_row, &job);
    return MH_OK;
}

static void softcap_backward_row(void *user, size_t i, size_t worker)
{
    (void)worker;
    const softcap_job *job = user;
    const float *y = softcap_row(job->y, i);
    float *dx = softcap_row(job->x, i);
    for (size_t j = 0; j < job->x->shape[1]; j++) {
        const float t = y[j] * job->factor;
        dx[j] *= 1 - t * t;
    }
}

void mh_model_cap_logits_backward(mh_context *context, float cap, const mh_tensor *capped,
                                  mh_tensor *dlogits)
{
    softcap_job job = {.factor = 1 / cap, .y = capped, .x = dlogits};
    mh_parallel_for(context, dlogits->shape[0], softcap_backward_row, &job);
}
