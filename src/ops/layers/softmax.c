// SPDX-License-Identifier: MIT
// Softmax and its logarithm over any dimension: every slice along it is gathered into a
// contiguous row, goes through one kernel, and is scattered back.
#include "base/arena.h"
#include "base/compiler.h"
#include "base/context.h"
#include "kernels/kernels.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <math.h>
#include <multihead/ops.h>

typedef struct softmax_job {
    const mh_kernels *kernels;
    mh_tensor x, y; // the axis moved to the end
    bool logarithm;
    size_t slices, slices_per_task;
    float *rows; // (workers, 2, n)
} softmax_job;

// The indices of slice i in all dimensions but the last.
static void slice_index(const mh_tensor *t, size_t i, size_t *index)
{
    for (int d = t->rank - 2; d >= 0; d--) {
        index[d] = i % t->shape[d];
        i /= t->shape[d];
    }
}

static void log_row(size_t n, mh_softmax_norm norm, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = norm.log_sum == -INFINITY ? -INFINITY : (x[i] - norm.max) - norm.log_sum;
}

static void softmax_slices(void *arg, size_t index, size_t worker)
{
    const softmax_job *job = arg;
    const int last = job->x.rank - 1;
    const size_t n = job->x.shape[last];
    float *x = job->rows + worker * 2 * n, *y = x + n;
    size_t end = (index + 1) * job->slices_per_task;
    for (size_t i = index * job->slices_per_task; i < end && i < job->slices; i++) {
        size_t at[MH_MAX_RANK];
        slice_index(&job->x, i, at);
        mh_row_read(job->kernels, job->x.dtype, mh_element(&job->x, last, at), job->x.stride[last],
                    n, x);
        mh_softmax_norm norm = job->kernels->rowwise.softmax_row(n, x, y);
        if (job->logarithm)
            log_row(n, norm, x, y);
        mh_row_write(job->kernels, job->y.dtype, (void *)mh_element(&job->y, last, at),
                     job->y.stride[last], n, y);
    }
}

static mh_status softmax_check(mh_context *context, const mh_tensor *x, int axis,
                               const mh_tensor *y)
{
    MH_TRY(mh_check_float(context, "x", x, -1));
    MH_TRY(mh_check_like(context, "y", y, "x", x));
    if (x->rank < 1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "x: found rank 0, expected 1 to %d",
                       MH_MAX_RANK);
    if (axis < -x->rank || axis >= x->rank)
        return mh_fail(context, MH_ERROR_ARGUMENT, "axis: found %d, expected %d to %d", axis,
                       -x->rank, x->rank - 1);
    return MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y), MH_OPERAND_IN_PLACE(x));
}

static mh_status softmax_run(mh_context *context, const mh_tensor *x, int axis, const mh_tensor *y,
                             bool logarithm)
{
    mh_status status = softmax_check(context, x, axis, y);
    size_t count = status ? 0 : mh_tensor_count(x);
    if (status || count == 0)
        return status;
    const int last = x->rank - 1, moved = axis < 0 ? axis + x->rank : axis;
    softmax_job job = {.kernels = context->kernels,
                       .x = mh_tensor_swap(*x, moved, last),
                       .y = mh_tensor_swap(*y, moved, last),
                       .logarithm = logarithm};
    const size_t n = job.x.shape[last], enough = 16 * 1024; // elements that are worth a task
    job.slices = count / n;
    job.slices_per_task = n >= enough ? 1 : (enough + n - 1) / n;

    mh_arena size = {0};
    mh_arena_take(&size, 2 * n, context->threads * sizeof(float));
    job.rows = size.overflow ? NULL : mh_context_scratch(context, size.used);
    if (!job.rows)
        return mh_fail(context, MH_ERROR_MEMORY, "x: out of memory for rows of %zu elements", n);
    mh_parallel_for(context, (job.slices + job.slices_per_task - 1) / job.slices_per_task,
                    softmax_slices, &job);
    return MH_OK;
}

mh_status mh_softmax(mh_context *context, const mh_tensor *x, int axis, mh_tensor *y)
{
    return softmax_run(context, x, axis, y, false);
}

mh_status mh_log_softmax(mh_context *context, const mh_tensor *x, int axis, mh_tensor *y)
{
    return softmax_run(context, x, axis, y, true);
}
