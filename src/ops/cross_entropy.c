// SPDX-License-Identifier: MIT
// Cross-entropy with label smoothing and ignored rows, and its gradient in the same pass: the row
// is in the cache, and the softmax that the loss needs is most of the gradient already. Every
// row has a loss of its own in double; they are added in order at the end.
#include "base/arena.h"
#include "base/context.h"
#include "base/fpenv.h"
#include "base/sizes.h"
#include "ops/indices.h"
#include "ops/rows.h"
#include "ops/tensor_check.h"
#include <multihead/layers.h>

typedef struct entropy_job {
    const mh_kernels *kernels;
    mh_cross_entropy_options o;
    const mh_tensor *logits, *targets;
    const mh_tensor *dlogits; // NULL: not wanted
    size_t N, V, rows_per_task;
    float scale;    // of the gradient
    double *losses; // (N)
    float *staging; // (workers, 2, V)
} entropy_job;

static void one_row(const entropy_job *job, size_t n, float *staging)
{
    const mh_kernels *k = job->kernels;
    const size_t V = job->V;
    const int64_t target = mh_index_get(job->targets, n);
    float *y = job->dlogits ? mh_row_output(job->dlogits, n, staging + V) : staging + V;
    job->losses[n] = 0;
    if (target == job->o.ignore_index) {
        if (job->dlogits) {
            memset(y, 0, V * sizeof *y);
            mh_row_written(k, job->dlogits, n, y, staging + V);
        }
        return;
    }
    const double smoothing = (double)job->o.label_smoothing;
    const float *x = mh_row_input(k, job->logits, n, staging);
    const double wanted = (double)x[target]; // before y, which may be x
    const double mean = smoothing > 0 ? (double)k->read_sum(V, x) / (double)V : 0;
    const mh_softmax_norm norm = k->softmax_row(V, x, y);
    const double max = (double)norm.max, log_sum = (double)norm.log_sum;
    job->losses[n] = (1 - smoothing) * ((max - wanted) + log_sum);
    if (smoothing > 0)
        job->losses[n] += smoothing * ((max - mean) + log_sum);
    if (job->dlogits) {
        const mh_norm_map map = {.mean = (float)(smoothing / (double)V), .rstd = job->scale};
        y[target] -= (float)(1 - smoothing);
        k->norm_row(&map, V, y, y); // (y - smoothing / V) * scale
        mh_row_written(k, job->dlogits, n, y, staging + V);
    }
}

static void some_rows(void *arg, size_t index, size_t worker)
{
    const entropy_job *job = arg;
    const size_t first = index * job->rows_per_task;
    for (size_t n = first; n < mh_smaller(first + job->rows_per_task, job->N); n++)
        one_row(job, n, job->staging + worker * 2 * job->V);
}

static void layout(entropy_job *job, mh_arena *arena, size_t threads)
{
    job->losses = mh_arena_take(arena, job->N, sizeof(double));
    job->staging = mh_arena_take(arena, job->V, 2 * threads * sizeof(float));
}

static mh_status check(mh_context *context, entropy_job *job,
                       const mh_cross_entropy_options *options)
{
    mh_status status = mh_check_float(context, "logits", job->logits, 2);
    if (!status)
        status = mh_check_indices(context, "targets", job->targets, 1);
    if (!status && job->targets->shape[0] != job->logits->shape[0])
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "targets: found %zu, expected one for each of %zu rows of logits",
                         job->targets->shape[0], job->logits->shape[0]);
    if (!status && job->dlogits)
        status = mh_check_like(context, "dlogits", job->dlogits, "logits", job->logits);
    if (!status)
        status = mh_check_options(context, options, &job->o, sizeof job->o);
    if (status)
        return status;
    if (!(job->o.label_smoothing >= 0 && job->o.label_smoothing <= 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "label_smoothing: found %g, expected 0 to 1",
                       (double)job->o.label_smoothing);
    if (job->o.reduction != MH_REDUCTION_MEAN && job->o.reduction != MH_REDUCTION_SUM)
        return mh_fail(context, MH_ERROR_ARGUMENT, "reduction: found %d, expected 0 or 1",
                       (int)job->o.reduction);
    return mh_check_index_range(context, "targets", job->targets, 0, (int64_t)job->logits->shape[1],
                                &job->o.ignore_index);
}

// The rows that count.
static size_t count_rows(const entropy_job *job)
{
    size_t count = 0;
    for (size_t n = 0; n < job->N; n++)
        count += mh_index_get(job->targets, n) != job->o.ignore_index;
    return count;
}

static mh_status sum_losses(mh_context *context, entropy_job *job, double *loss, size_t *count)
{
    const size_t counted = count_rows(job), enough = 16 * 1024; // elements that are worth a task
    const double divisor = job->o.reduction == MH_REDUCTION_MEAN ? (double)counted : 1;
    if (job->N > 0 && job->V > 0) {
        job->rows_per_task = (enough + job->V - 1) / job->V;
        job->scale = (float)((double)job->o.gradient_scale / (counted ? divisor : 1));
        mh_arena arena = {0};
        layout(job, &arena, context->threads);
        void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
        if (!memory)
            return mh_fail(context, MH_ERROR_MEMORY, "logits: no memory for rows of %zu numbers",
                           job->V);
        arena = (mh_arena){memory, arena.used, 0, false};
        layout(job, &arena, context->threads);
        mh_parallel_for(context, (job->N + job->rows_per_task - 1) / job->rows_per_task, some_rows,
                        job);
    }
    double sum = 0;
    for (size_t n = 0; n < job->N && job->V > 0; n++)
        sum += job->losses[n];
    *loss = sum / divisor;
    if (count)
        *count = counted;
    return MH_OK;
}

mh_status mh_cross_entropy(mh_context *context, const mh_cross_entropy_options *options,
                           const mh_tensor *logits, const mh_tensor *targets, double *loss,
                           size_t *count, const mh_tensor *dlogits)
{
    entropy_job job = {.o = mh_cross_entropy_options_default(),
                       .logits = logits,
                       .targets = targets,
                       .dlogits = dlogits};
    mh_status status = check(context, &job, options);
    if (!status && !loss)
        status = mh_fail(context, MH_ERROR_ARGUMENT, "loss: found NULL, expected a number");
    if (status)
        return status;
    job.kernels = context->kernels;
    job.N = logits->shape[0];
    job.V = logits->shape[1];
    mh_fpenv saved = mh_fpenv_enter();
    status = sum_losses(context, &job, loss, count);
    mh_fpenv_leave(saved);
    return status;
}
