// SPDX-License-Identifier: MIT
// Top-k of log-softmax. Log-softmax is monotonic, so the largest logits are selected first, while
// the row is in the cache, and only those are converted to log-probabilities.
#include "base/arena.h"
#include "base/context.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "kernels/kernels.h"
#include "ops/indices.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <math.h>
#include <multihead/layers.h>

enum {
    BLOCK = 32,                // values that are skipped together if none is large enough
    ELEMENTS_PER_TASK = 16384, // at least
};

typedef struct topk_job {
    const mh_kernels *kernels;
    mh_topk_options o;
    const mh_tensor *logits, *ids, *log_probabilities;
    size_t N, V, K, rows_per_task;
    uint64_t *excluded; // (ceil(V / 64)): bit v is set if id v is excluded; NULL: none is
    float *staging;     // (workers, V); NULL: logits are read in place
} topk_job;

// The results of a row, some of which are still logits.
typedef struct selection {
    int32_t *ids;
    double *values;
    ptrdiff_t id_stride, value_stride;
    size_t count;
} selection;

static int32_t *id_at(const selection *s, size_t i) { return s->ids + (ptrdiff_t)i * s->id_stride; }

static double *value_at(const selection *s, size_t i)
{
    return s->values + (ptrdiff_t)i * s->value_stride;
}

// Ids ascend, so that equal values keep the smaller id first.
static void insert(selection *s, size_t K, int32_t id, float logit)
{
    size_t rank = s->count < K ? s->count++ : K - 1;
    for (; rank > 0 && *value_at(s, rank - 1) < (double)logit; rank--) {
        *id_at(s, rank) = *id_at(s, rank - 1);
        *value_at(s, rank) = *value_at(s, rank - 1);
    }
    *id_at(s, rank) = id;
    *value_at(s, rank) = (double)logit;
}

static bool any_above(const float *x, float threshold)
{
    unsigned any = 0;
    for (size_t i = 0; i < BLOCK; i++)
        any |= x[i] > threshold;
    return any != 0;
}

static bool is_excluded(const topk_job *job, size_t id)
{
    return job->excluded && job->excluded[id / 64] >> id % 64 & 1;
}

static void select_largest(const topk_job *job, const float *x, selection *s)
{
    const size_t V = job->V, K = job->K;
    float threshold = -INFINITY;
    for (size_t block = 0; block < V; block += BLOCK) {
        if (V - block >= BLOCK && !any_above(x + block, threshold))
            continue;
        for (size_t i = block; i < V && i < block + BLOCK; i++) {
            if (!(x[i] > threshold) || is_excluded(job, i))
                continue;
            insert(s, K, (int32_t)i, x[i]);
            if (s->count == K)
                threshold = (float)*value_at(s, K - 1);
        }
    }
}

static void fill_rest(const selection *s, size_t K)
{
    for (size_t i = s->count; i < K; i++) {
        *id_at(s, i) = -1;
        *value_at(s, i) = -INFINITY;
    }
}

static double *wanted_at(const topk_job *job, size_t row, size_t i)
{
    const mh_tensor *to = job->o.wanted_log_probabilities;
    return (double *)to->data + (ptrdiff_t)row * to->stride[0] + (ptrdiff_t)i * to->stride[1];
}

static void topk_one_row(const topk_job *job, size_t row, float *staging)
{
    const float *x = mh_row_input(job->kernels, job->logits, row, staging);
    const mh_tensor *ids = job->ids, *values = job->log_probabilities;
    selection s = {.ids = (int32_t *)mh_row_address(ids, row),
                   .values = (double *)mh_row_address(values, row),
                   .id_stride = ids->stride[1],
                   .value_stride = values->stride[1]};
    if (job->K > 0)
        select_largest(job, x, &s);
    fill_rest(&s, job->K);
    if (job->V == 0)
        return;
    const mh_softmax_norm norm = job->kernels->rowwise.softmax_row(job->V, x, NULL);
    const double max = (double)norm.max, log_sum = (double)norm.log_sum;
    for (size_t i = 0; i < s.count; i++)
        *value_at(&s, i) = (*value_at(&s, i) - max) - log_sum;
    for (size_t i = 0; job->o.wanted && i < job->o.wanted->shape[0]; i++)
        *wanted_at(job, row, i) = ((double)x[mh_index_get(job->o.wanted, i)] - max) - log_sum;
}

static void topk_some_rows(void *arg, size_t index, size_t worker)
{
    const topk_job *job = arg;
    const size_t first = index * job->rows_per_task;
    for (size_t row = first; row < mh_smaller(first + job->rows_per_task, job->N); row++)
        topk_one_row(job, row, job->staging ? job->staging + worker * job->V : NULL);
}

// ---- arguments ----------------------------------------------------------------------------------

// `name` is (N, *columns) of this dtype; columns NULL: any number of them.
static mh_status check_results(mh_context *context, const char *name, const mh_tensor *t,
                               mh_dtype dtype, size_t N, const size_t *columns)
{
    const mh_status status = mh_check_tensor(context, name, t, 2);
    if (status)
        return status;
    if (t->dtype != dtype)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "%s: found dtype %s, expected %s", name,
                       mh_dtype_name(t->dtype), mh_dtype_name(dtype));
    if (t->shape[0] != N)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %zu rows, expected one for each of %zu rows of logits", name,
                       t->shape[0], N);
    if (columns && t->shape[1] != *columns)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %zu columns, expected %zu", name,
                       t->shape[1], *columns);
    return MH_OK;
}

static mh_status topk_check_options(mh_context *context, const topk_job *job)
{
    const mh_topk_options *o = &job->o;
    const int64_t V = (int64_t)job->logits->shape[1];
    mh_status status = MH_OK;
    if (!o->wanted != !o->wanted_log_probabilities)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "wanted, wanted_log_probabilities: found one of them, expected both");
    if (!status && o->excluded)
        status = mh_check_indices(context, "excluded", o->excluded, 1);
    if (!status && o->excluded)
        status = mh_check_index_range(context, "excluded", o->excluded, 0, V, NULL);
    if (!status && o->wanted)
        status = mh_check_indices(context, "wanted", o->wanted, 1);
    if (!status && o->wanted)
        status = mh_check_index_range(context, "wanted", o->wanted, 0, V, NULL);
    if (!status && o->wanted)
        status = check_results(context, "wanted_log_probabilities", o->wanted_log_probabilities,
                               MH_F64, job->logits->shape[0], &o->wanted->shape[0]);
    return status;
}

static mh_status topk_check(mh_context *context, const mh_topk_options *options, topk_job *job)
{
    const mh_tensor *logits = job->logits;
    mh_status status = mh_check_float(context, "logits", logits, 2);
    if (!status && logits->shape[1] > INT32_MAX)
        status =
            mh_fail(context, MH_ERROR_ARGUMENT, "logits: found %zu columns, expected %d or fewer",
                    logits->shape[1], INT32_MAX);
    if (!status)
        status = check_results(context, "ids", job->ids, MH_I32, logits->shape[0], NULL);
    if (!status)
        status = check_results(context, "log_probabilities", job->log_probabilities, MH_F64,
                               logits->shape[0], &job->ids->shape[1]);
    if (!status)
        status = MH_READ_STRUCT(context, mh_topk_options, options, &job->o);
    if (!status)
        status = topk_check_options(context, job);
    return status
               ? status
               : MH_CHECK_OVERLAP(context, 3, {.name = "ids", .tensor = job->ids},
                                  {.name = "log_probabilities", .tensor = job->log_probabilities},
                                  {.name = "wanted_log_probabilities",
                                   .tensor = job->o.wanted_log_probabilities},
                                  {.name = "logits", .tensor = logits},
                                  {.name = "excluded", .tensor = job->o.excluded},
                                  {.name = "wanted", .tensor = job->o.wanted});
}

// ---- the call -----------------------------------------------------------------------------------

static bool read_in_place(const mh_tensor *logits)
{
    return logits->dtype == MH_F32 && (logits->stride[1] == 1 || logits->shape[1] == 1);
}

static void topk_layout(topk_job *job, size_t threads, mh_arena *arena)
{
    const bool some = job->o.excluded && job->o.excluded->shape[0] > 0;
    job->excluded = some ? mh_arena_take(arena, job->V / 64 + 1, sizeof *job->excluded) : NULL;
    job->staging = read_in_place(job->logits)
                       ? NULL
                       : mh_arena_take(arena, job->V, threads * sizeof *job->staging);
}

static void mark_excluded(topk_job *job)
{
    if (!job->excluded)
        return;
    memset(job->excluded, 0, (job->V / 64 + 1) * sizeof *job->excluded);
    for (size_t i = 0; i < job->o.excluded->shape[0]; i++) {
        const size_t id = (size_t)mh_index_get(job->o.excluded, i);
        job->excluded[id / 64] |= UINT64_C(1) << id % 64;
    }
}

static mh_status topk_run(mh_context *context, topk_job *job)
{
    mh_arena arena = {0};
    topk_layout(job, context->threads, &arena);
    void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "logits: no memory for rows of %zu numbers",
                       job->V);
    arena = (mh_arena){.base = memory, .size = arena.used};
    topk_layout(job, context->threads, &arena);
    mark_excluded(job);
    job->rows_per_task = ELEMENTS_PER_TASK / (job->V + 1) + 1;
    mh_parallel_for(context, (job->N + job->rows_per_task - 1) / job->rows_per_task, topk_some_rows,
                    job);
    return MH_OK;
}

mh_status mh_log_softmax_topk(mh_context *context, const mh_topk_options *options,
                              const mh_tensor *logits, mh_tensor *ids, mh_tensor *log_probabilities)
{
    topk_job job = {.o = mh_topk_options_default(),
                    .logits = logits,
                    .ids = ids,
                    .log_probabilities = log_probabilities};
    const mh_status status = topk_check(context, options, &job);
    if (status || logits->shape[0] == 0)
        return status;
    job.kernels = context->kernels;
    job.N = logits->shape[0];
    job.V = logits->shape[1];
    job.K = ids->shape[1];
    return topk_run(context, &job);
}
