// SPDX-License-Identifier: MIT
// Cross-entropy with label smoothing, class weights and ignored rows, and its gradient in the same
// pass: the row is in the cache, and the softmax that the loss needs is most of the gradient
// already. Every row has its own loss in double; losses are summed in order at the end.
//
// With p = softmax(x), s the smoothing, w the weights and W their sum, a row with target t has
//
//     loss    = (1 - s) w_t (lse - x_t) + s W/V (lse - sum_v w_v x_v / W)
//     dloss_v = (a p_v - s/V w_v) - (1 - s) w_t [v = t],  a = (1 - s) w_t + s W/V
#include "base/arena.h"
#include "base/compiler.h"
#include "base/context.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "ops/indices.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <float.h>
#include <multihead/layers.h>

typedef struct entropy_job {
    const mh_kernels *kernels;
    mh_cross_entropy_options o;
    const mh_tensor *logits, *targets;
    const mh_tensor *dlogits; // NULL: not wanted
    size_t N, V, rows_per_task;
    float scale;       // of the gradient
    float *weight;     // (V) or NULL: 1 each
    double weight_sum; // W
    double *losses;    // (N)
    float *staging;    // (workers, 2, V)
} entropy_job;

// The mean logit, weighted by class.
static double mean_logit(const entropy_job *job, const float *x)
{
    if (!job->weight)
        return (double)job->kernels->rowwise.sum(job->V, x) / (double)job->V;
    double sum = 0;
    for (size_t v = 0; v < job->V; v++)
        sum += job->weight[v] > 0 ? (double)job->weight[v] * (double)x[v] : 0;
    return sum / job->weight_sum;
}

// From the softmax y to the gradient of a row, in place.
static void gradient_row(const entropy_job *job, size_t target, float *y)
{
    const double smoothing = (double)job->o.label_smoothing, each = smoothing / (double)job->V;
    if (!job->weight) {
        const mh_norm_map map = {.mean = (float)each, .rstd = job->scale};
        y[target] -= (float)(1 - smoothing);
        job->kernels->rowwise.norm_row(&map, job->V, y, y); // (y - smoothing / V) * scale
        return;
    }
    const double wanted = (1 - smoothing) * (double)job->weight[target];
    const float a = (float)(wanted + each * job->weight_sum), e = (float)each;
    for (size_t v = 0; v < job->V; v++)
        y[v] = a * y[v] - e * job->weight[v];
    y[target] -= (float)wanted;
    for (size_t v = 0; v < job->V; v++)
        y[v] *= job->scale;
}

static void cross_entropy_one_row(const entropy_job *job, size_t n, float *staging)
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
    const double weight = job->weight ? (double)job->weight[target] : 1;
    const double share = job->weight ? job->weight_sum / (double)V : 1;
    const bool smooth = smoothing > 0 && share > 0;
    const double mean = smooth ? mean_logit(job, x) : 0;
    const mh_softmax_norm norm = k->rowwise.softmax_row(V, x, y);
    const double max = (double)norm.max, log_sum = (double)norm.log_sum;
    if (weight > 0)
        job->losses[n] = (1 - smoothing) * weight * ((max - wanted) + log_sum);
    if (smooth)
        job->losses[n] += smoothing * share * ((max - mean) + log_sum);
    if (job->dlogits) {
        gradient_row(job, (size_t)target, y);
        mh_row_written(k, job->dlogits, n, y, staging + V);
    }
}

static void cross_entropy_some_rows(void *arg, size_t index, size_t worker)
{
    const entropy_job *job = arg;
    const size_t first = index * job->rows_per_task;
    for (size_t n = first; n < mh_smaller(first + job->rows_per_task, job->N); n++)
        cross_entropy_one_row(job, n, job->staging + worker * 2 * job->V);
}

// The workspace; `weight` is a contiguous copy of the caller's view.
static void cross_entropy_layout(entropy_job *job, mh_arena *arena, size_t threads)
{
    job->losses = mh_arena_take(arena, job->N, sizeof(double));
    job->weight = job->o.weight ? mh_arena_take(arena, job->V, sizeof(float)) : NULL;
    job->staging = mh_arena_take(arena, job->V, 2 * threads * sizeof(float));
}

static float element(const mh_tensor *t, size_t i)
{
    return ((const float *)t->data)[(ptrdiff_t)i * t->stride[0]];
}

static mh_status check_weight(mh_context *context, const mh_tensor *weight, size_t V)
{
    mh_status status = mh_check_f32(context, "weight", weight, 1);
    if (!status && weight->shape[0] != V)
        status =
            mh_fail(context, MH_ERROR_ARGUMENT,
                    "weight: found %zu, expected one for each of %zu classes", weight->shape[0], V);
    for (size_t v = 0; v < V && !status; v++)
        if (!(element(weight, v) >= 0 && element(weight, v) <= FLT_MAX))
            status = mh_fail(context, MH_ERROR_ARGUMENT,
                             "weight: class %zu has %g, expected a finite number, not negative", v,
                             (double)element(weight, v));
    return status;
}

static mh_status check_losses(mh_context *context, const mh_tensor *losses, size_t N)
{
    MH_TRY(mh_check_f32(context, "losses", losses, 1));
    if (losses->shape[0] != N)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "losses: found room for %zu, expected one for each of %zu rows of logits",
                       losses->shape[0], N);
    return MH_OK;
}

static mh_status cross_entropy_check(mh_context *context, entropy_job *job,
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
        status = MH_READ_STRUCT(context, mh_cross_entropy_options, options, &job->o);
    if (status)
        return status;
    if (!(job->o.label_smoothing >= 0 && job->o.label_smoothing <= 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "label_smoothing: found %g, expected 0 to 1",
                       (double)job->o.label_smoothing);
    if (job->o.reduction != MH_REDUCTION_MEAN && job->o.reduction != MH_REDUCTION_SUM)
        return mh_fail(context, MH_ERROR_ARGUMENT, "reduction: found %d, expected 0 or 1",
                       (int)job->o.reduction);
    if (job->o.weight)
        status = check_weight(context, job->o.weight, job->logits->shape[1]);
    if (!status && job->o.losses)
        status = check_losses(context, job->o.losses, job->logits->shape[0]);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 2, {.name = "dlogits", .tensor = job->dlogits},
                                  {.name = "losses", .tensor = job->o.losses},
                                  {.name = "logits", .tensor = job->logits, .may_be = 1},
                                  {.name = "targets", .tensor = job->targets},
                                  {.name = "weight", .tensor = job->o.weight});
    if (status)
        return status;
    return mh_check_index_range(context, "targets", job->targets, 0, (int64_t)job->logits->shape[1],
                                &job->o.ignore_index);
}

// The number of rows that are not ignored, and the divisor of a mean over them.
static size_t count_rows(const entropy_job *job, double *weight)
{
    size_t count = 0;
    *weight = 0;
    for (size_t n = 0; n < job->N; n++) {
        const int64_t target = mh_index_get(job->targets, n);
        if (target == job->o.ignore_index)
            continue;
        count++;
        *weight += job->o.weight ? (double)element(job->o.weight, (size_t)target) : 1;
    }
    return count;
}

static void copy_weight(entropy_job *job)
{
    job->weight_sum = 0;
    for (size_t v = 0; v < job->V; v++) {
        job->weight[v] = element(job->o.weight, v);
        job->weight_sum += (double)job->weight[v];
    }
}

// Sums the rows' losses, and returns them if requested.
static double sum_losses(const entropy_job *job)
{
    const mh_tensor *to = job->o.losses;
    double sum = 0;
    for (size_t n = 0; n < job->N; n++) {
        const double loss = job->V > 0 ? job->losses[n] : 0;
        sum += loss;
        if (to)
            ((float *)to->data)[(ptrdiff_t)n * to->stride[0]] = (float)loss;
    }
    return sum;
}

static mh_status find_losses(mh_context *context, entropy_job *job, double *loss, size_t *count)
{
    double weight;
    const size_t counted = count_rows(job, &weight), enough = 16 * 1024; // elements worth a task
    const double divisor = job->o.reduction == MH_REDUCTION_MEAN ? weight : 1;
    if (job->N > 0 && job->V > 0) {
        job->rows_per_task = (enough + job->V - 1) / job->V;
        job->scale = divisor > 0 ? (float)((double)job->o.gradient_scale / divisor) : 0;
        mh_arena arena = {0};
        cross_entropy_layout(job, &arena, context->threads);
        void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
        if (!memory)
            return mh_fail(context, MH_ERROR_MEMORY,
                           "logits: out of memory for rows of %zu elements", job->V);
        arena = (mh_arena){memory, arena.used, 0, false};
        cross_entropy_layout(job, &arena, context->threads);
        if (job->weight)
            copy_weight(job);
        mh_parallel_for(context, (job->N + job->rows_per_task - 1) / job->rows_per_task,
                        cross_entropy_some_rows, job);
    }
    *loss = sum_losses(job) / divisor;
    if (count)
        *count = counted;
    return MH_OK;
}

mh_status mh_cross_entropy(mh_context *context, const mh_cross_entropy_options *options,
                           const mh_tensor *logits, const mh_tensor *targets, double *loss,
                           size_t *count, mh_tensor *dlogits)
{
    entropy_job job = {.o = mh_cross_entropy_options_default(),
                       .logits = logits,
                       .targets = targets,
                       .dlogits = dlogits};
    mh_status status = cross_entropy_check(context, &job, options);
    if (!status && !loss)
        status = mh_fail(context, MH_ERROR_ARGUMENT, "loss: found NULL, expected a number");
    if (status)
        return status;
    job.kernels = context->kernels;
    job.N = logits->shape[0];
    job.V = logits->shape[1];
    mh_fpenv saved = mh_fpenv_enter();
    status = find_losses(context, &job, loss, count);
    mh_fpenv_leave(saved);
    return status;
}
