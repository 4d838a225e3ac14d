// SPDX-License-Identifier: MIT
// Layer norm and RMS norm, forward: a row is read from memory once; its mean, its variance and
// the result are three passes in the cache. Blocks of rows are split across threads.
#include "base/arena.h"
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "ops/layers/layers_internal.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <math.h>

// ---- checks -------------------------------------------------------------------------------------

mh_status mh_norm_check_x(mh_context *context, const mh_tensor *x)
{
    MH_TRY(mh_check_float(context, "x", x, -1));
    if (x->rank < 1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "x: found rank 0, expected 1 to %d",
                       MH_MAX_RANK);
    return MH_OK;
}

mh_status mh_norm_check_statistic(mh_context *context, const char *name, const mh_tensor *statistic,
                                  const mh_tensor *x)
{
    if (!statistic)
        return MH_OK;
    char found[128], rows[128];
    mh_tensor expected = *x;
    expected.rank--;
    expected.dtype = MH_F32;
    MH_TRY(mh_check_f32(context, name, statistic, -1));
    if (!mh_tensor_same_shape(statistic, &expected))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected one element per row, %s",
                       name, mh_tensor_describe(statistic, found, sizeof found),
                       mh_tensor_describe(&expected, rows, sizeof rows));
    return MH_OK;
}

mh_status mh_norm_check_vector(mh_context *context, const char *name, const mh_tensor *vector,
                               const mh_tensor *x)
{
    if (!vector)
        return MH_OK;
    const size_t D = x->shape[x->rank - 1];
    MH_TRY(mh_check_float(context, name, vector, 1));
    if (vector->shape[0] != D)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %zu elements, expected %zu as the last dimension of x", name,
                       vector->shape[0], D);
    return MH_OK;
}

// ---- the rows -----------------------------------------------------------------------------------

typedef struct norm_job {
    const mh_kernels *kernels;
    bool rms;
    float epsilon;
    mh_tensor x, y;
    const mh_tensor *mean, *rstd; // NULL: not wanted
    size_t rows, D;
    float *weight, *bias; // (D), NULL: none
    float *staging;       // (workers, 2, D)
} norm_job;

static void norm_put(const mh_tensor *t, size_t row, float value)
{
    if (t)
        *mh_norm_statistic(t, row) = value;
}

static void norm_rows(void *arg, size_t index, size_t worker)
{
    const norm_job *job = arg;
    const mh_kernels *k = job->kernels;
    float *staging = job->staging + worker * 2 * job->D;
    const size_t end = mh_smaller((index + 1) * MH_NORM_ROWS, job->rows);
    for (size_t row = index * MH_NORM_ROWS; row < end; row++) {
        const float *x = mh_row_input(k, &job->x, row, staging);
        float *y = mh_row_output(&job->y, row, staging + job->D);
        mh_norm_map map = {.weight = job->weight, .bias = job->bias};
        float variance;
        if (job->rms)
            variance = k->rowwise.mean_square(job->D, x);
        else
            k->rowwise.moments(job->D, x, &map.mean, &variance);
        map.rstd = 1 / sqrtf(variance + job->epsilon);
        k->rowwise.norm_row(&map, job->D, x, y);
        mh_row_written(k, &job->y, row, y, staging + job->D);
        norm_put(job->mean, row, map.mean);
        norm_put(job->rstd, row, map.rstd);
    }
}

static void norm_layout(norm_job *job, mh_arena *arena, size_t threads, bool weight, bool bias)
{
    job->weight = weight ? mh_arena_take(arena, job->D, sizeof(float)) : NULL;
    job->bias = bias ? mh_arena_take(arena, job->D, sizeof(float)) : NULL;
    job->staging = mh_arena_take(arena, job->D, 2 * threads * sizeof(float));
}

static mh_status norm_run(mh_context *context, norm_job *job, const mh_tensor *weight,
                          const mh_tensor *bias)
{
    const size_t count = mh_tensor_count(&job->x);
    if (count == 0)
        return MH_OK;
    job->kernels = context->kernels;
    job->D = job->x.shape[job->x.rank - 1];
    job->rows = count / job->D;
    mh_arena arena = {0};
    norm_layout(job, &arena, context->threads, weight, bias);
    void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "x: out of memory for rows of %zu elements",
                       job->D);
    arena = (mh_arena){memory, arena.used, 0, false};
    norm_layout(job, &arena, context->threads, weight, bias);
    if (weight)
        mh_row_read(job->kernels, weight->dtype, weight->data, weight->stride[0], job->D,
                    job->weight);
    if (bias)
        mh_row_read(job->kernels, bias->dtype, bias->data, bias->stride[0], job->D, job->bias);
    mh_parallel_for(context, (job->rows + MH_NORM_ROWS - 1) / MH_NORM_ROWS, norm_rows, job);
    return MH_OK;
}

static mh_status check_epsilon(mh_context *context, float epsilon)
{
    if (epsilon >= 0 && epsilon < INFINITY)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT, "epsilon: found %g, expected a number >= 0",
                   (double)epsilon);
}

mh_status mh_layer_norm(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                        const mh_tensor *bias, float epsilon, mh_tensor *y, mh_tensor *mean,
                        mh_tensor *rstd)
{
    MH_TRY(mh_norm_check_x(context, x));
    MH_TRY(mh_norm_check_vector(context, "weight", weight, x));
    MH_TRY(mh_norm_check_vector(context, "bias", bias, x));
    MH_TRY(check_epsilon(context, epsilon));
    MH_TRY(mh_check_like(context, "y", y, "x", x));
    MH_TRY(mh_norm_check_statistic(context, "mean", mean, x));
    MH_TRY(mh_norm_check_statistic(context, "rstd", rstd, x));
    MH_TRY(MH_CHECK_OVERLAP(context, 3, MH_OPERAND(y), MH_OPERAND(mean), MH_OPERAND(rstd),
                            MH_OPERAND_IN_PLACE(x), MH_OPERAND(weight), MH_OPERAND(bias)));
    norm_job job = {.epsilon = epsilon, .x = *x, .y = *y, .mean = mean, .rstd = rstd};
    return norm_run(context, &job, weight, bias);
}

mh_status mh_rms_norm(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                      float epsilon, mh_tensor *y, mh_tensor *rstd)
{
    MH_TRY(mh_norm_check_x(context, x));
    MH_TRY(mh_norm_check_vector(context, "weight", weight, x));
    MH_TRY(check_epsilon(context, epsilon));
    MH_TRY(mh_check_like(context, "y", y, "x", x));
    MH_TRY(mh_norm_check_statistic(context, "rstd", rstd, x));
    MH_TRY(MH_CHECK_OVERLAP(context, 2, MH_OPERAND(y), MH_OPERAND(rstd), MH_OPERAND_IN_PLACE(x),
                            MH_OPERAND(weight)));
    norm_job job = {.rms = true, .epsilon = epsilon, .x = *x, .y = *y, .rstd = rstd};
    return norm_run(context, &job, weight, NULL);
}
