// SPDX-License-Identifier: MIT
// The fixed position encodings of "Attention is all you need": sines in even columns, cosines in
// odd ones.
#include "base/arena.h"
#include "base/context.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "ops/layers/layers_internal.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <multihead/layers.h>

enum { ROWS = 16 }; // per task

typedef struct sinusoid_job {
    const mh_kernels *kernels;
    const mh_tensor *y;
    int64_t first;
    float scale;
    size_t pairs;      // D / 2, rounded up
    double *frequency; // (pairs)
    float *staging;    // (workers, 4, pairs): sines, cosines, the row
} sinusoid_job;

static void position_rows(void *arg, size_t index, size_t worker)
{
    const sinusoid_job *job = arg;
    const size_t D = job->y->shape[1], pairs = job->pairs;
    float *sine = job->staging + worker * 4 * pairs, *cosine = sine + pairs, *row = cosine + pairs;
    for (size_t t = index * ROWS; t < mh_smaller((index + 1) * ROWS, job->y->shape[0]); t++) {
        job->kernels->rowwise.sin_cos(pairs, (double)(job->first + (int64_t)t), job->frequency,
                                      sine, cosine);
        for (size_t i = 0; i < pairs; i++) {
            row[2 * i] = job->scale * sine[i];
            row[2 * i + 1] = job->scale * cosine[i];
        }
        mh_row_write(job->kernels, job->y->dtype, (void *)mh_row_address(job->y, t),
                     job->y->stride[1], D, row);
    }
}

static void sinusoidal_layout(sinusoid_job *job, mh_arena *arena, size_t threads)
{
    job->frequency = mh_arena_take(arena, job->pairs, sizeof(double));
    job->staging = mh_arena_take(arena, job->pairs, 4 * threads * sizeof(float));
}

mh_status mh_positions_sinusoidal(mh_context *context, int64_t first, float scale, mh_tensor *y)
{
    const int64_t limit = INT64_C(1) << 31;
    mh_status status = mh_check_float(context, "y", y, 2);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y));
    if (status || mh_tensor_count(y) == 0)
        return status;
    const size_t T = y->shape[0];
    if (first <= -limit || first >= limit || T > (size_t)limit || first + (int64_t)T > limit)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "first: found %lld and %zu positions, expected all within 2^31",
                       (long long)first, T);
    sinusoid_job job = {.kernels = context->kernels,
                        .y = y,
                        .first = first,
                        .scale = scale,
                        .pairs = y->shape[1] / 2 + y->shape[1] % 2};
    mh_arena arena = {0};
    sinusoidal_layout(&job, &arena, context->threads);
    void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "y: out of memory for rows of %zu elements",
                       y->shape[1]);
    arena = (mh_arena){memory, arena.used, 0, false};
    sinusoidal_layout(&job, &arena, context->threads);
    mh_fpenv saved = mh_fpenv_enter();
    mh_frequencies(10000, y->shape[1], job.pairs, job.frequency);
    mh_fpenv_leave(saved);
    mh_parallel_for(context, (T + ROWS - 1) / ROWS, position_rows, &job);
    return MH_OK;
}
