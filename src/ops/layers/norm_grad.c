// SPDX-License-Identifier: MIT
// Layer norm and RMS norm, backward. dx is computed row by row. The gradients of weight and bias
// are sums over all rows: blocks of 64 rows, counted from the first, have partial sums, which are
// then reduced in the order of the blocks.
//
//     rows  0 .. 63 | 64 .. 127 | ...          partials (blocks, 2, D)
//             |          |                        dweight = p0 + p1 + ...
//            p0         p1                        columns are split across threads
#include "base/arena.h"
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "ops/layers/layers_internal.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"

typedef struct norm_grad_job {
    const mh_kernels *kernels;
    bool rms, accumulate;
    const mh_tensor *x, *dy, *mean, *rstd;
    const mh_tensor *dx, *dweight, *dbias; // NULL: not wanted
    size_t rows, blocks, D;
    float *weight;   // (D), NULL: none
    float *partials; // (blocks, 2, D): dweight, dbias; NULL: neither is wanted
    float *staging;  // (workers, 3, D)
} norm_grad_job;

enum { COLUMNS = 256 }; // per task of the reduction

static void norm_grad_one_row(const norm_grad_job *job, size_t row, float *staging, float *partial)
{
    const mh_kernels *k = job->kernels;
    const size_t D = job->D;
    const float *x = mh_row_input(k, job->x, row, staging);
    const float *dy = mh_row_input(k, job->dy, row, staging + D);
    const mh_norm_map map = {.mean = job->rms ? 0 : *mh_norm_statistic(job->mean, row),
                             .rstd = *mh_norm_statistic(job->rstd, row),
                             .weight = job->weight};
    if (partial)
        k->rowwise.norm_grad_weight(&map, D, x, dy, partial, job->dbias ? partial + D : NULL);
    if (job->dx) { // last, as it may be dy
        float *dx = mh_row_output(job->dx, row, staging + 2 * D), sum, gemm;
        k->rowwise.norm_grad_sums(&map, D, x, dy, &sum, &gemm);
        k->rowwise.norm_grad_row(&map, D, x, dy, job->rms ? 0 : sum / (float)D, gemm / (float)D,
                                 dx);
        mh_row_written(k, job->dx, row, dx, staging + 2 * D);
    }
}

static void one_block(void *arg, size_t block, size_t worker)
{
    const norm_grad_job *job = arg;
    float *staging = job->staging + worker * 3 * job->D;
    float *partial = job->partials ? job->partials + block * 2 * job->D : NULL;
    if (partial)
        memset(partial, 0, 2 * job->D * sizeof *partial);
    const size_t end = mh_smaller((block + 1) * MH_NORM_ROWS, job->rows);
    for (size_t row = block * MH_NORM_ROWS; row < end; row++)
        norm_grad_one_row(job, row, staging, partial);
}

// Reduces the partials of some columns; `which` is 0 for dweight, 1 for dbias.
static void norm_grad_add_columns(const norm_grad_job *job, const mh_tensor *to, size_t which,
                                  size_t first)
{
    float sum[COLUMNS] = {0}, before[COLUMNS];
    const size_t n = mh_smaller(COLUMNS, job->D - first);
    void *address = (void *)mh_row_offset(to, to->data, (ptrdiff_t)first * to->stride[0]);
    for (size_t block = 0; block < job->blocks; block++)
        job->kernels->elementwise.add_row(n, job->partials + (block * 2 + which) * job->D + first,
                                          sum);
    if (job->accumulate) {
        mh_row_read(job->kernels, to->dtype, address, to->stride[0], n, before);
        job->kernels->elementwise.add_row(n, before, sum);
    }
    mh_row_write(job->kernels, to->dtype, address, to->stride[0], n, sum);
}

static void add_partials(void *arg, size_t index, size_t worker)
{
    const norm_grad_job *job = arg;
    (void)worker;
    if (job->dweight)
        norm_grad_add_columns(job, job->dweight, 0, index * COLUMNS);
    if (job->dbias)
        norm_grad_add_columns(job, job->dbias, 1, index * COLUMNS);
}

static void norm_grad_layout(norm_grad_job *job, mh_arena *arena, size_t threads, bool weight)
{
    const bool sums = job->dweight || job->dbias;
    job->weight = weight ? mh_arena_take(arena, job->D, sizeof(float)) : NULL;
    job->staging = mh_arena_take(arena, job->D, 3 * threads * sizeof(float));
    job->partials = sums ? mh_arena_take(arena, job->blocks, 2 * job->D * sizeof(float)) : NULL;
}

static mh_status norm_grad_run(mh_context *context, norm_grad_job *job, const mh_tensor *weight)
{
    job->kernels = context->kernels;
    job->D = job->x->shape[job->x->rank - 1];
    if (job->D == 0)
        return MH_OK;
    job->rows = mh_tensor_count(job->x) / job->D;
    job->blocks = (job->rows + MH_NORM_ROWS - 1) / MH_NORM_ROWS;
    mh_arena arena = {0};
    norm_grad_layout(job, &arena, context->threads, weight);
    void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "x: out of memory for %zu rows of %zu elements",
                       job->rows, job->D);
    arena = (mh_arena){memory, arena.used, 0, false};
    norm_grad_layout(job, &arena, context->threads, weight);
    if (weight)
        mh_row_read(job->kernels, weight->dtype, weight->data, weight->stride[0], job->D,
                    job->weight);
    mh_parallel_for(context, job->blocks, one_block, job);
    if (job->dweight || job->dbias)
        mh_parallel_for(context, (job->D + COLUMNS - 1) / COLUMNS, add_partials, job);
    return MH_OK;
}

static mh_status norm_grad_check(mh_context *context, const norm_grad_job *job,
                                 const mh_tensor *weight)
{
    const mh_tensor *x = job->x;
    MH_TRY(mh_norm_check_x(context, x));
    MH_TRY(mh_norm_check_vector(context, "weight", weight, x));
    if ((!job->rstd || (!job->rms && !job->mean)))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL, expected what forward gave",
                       job->rstd ? "mean" : "rstd");
    MH_TRY(mh_norm_check_statistic(context, "mean", job->mean, x));
    MH_TRY(mh_norm_check_statistic(context, "rstd", job->rstd, x));
    MH_TRY(mh_check_like(context, "dy", job->dy, "x", x));
    if (job->dx)
        MH_TRY(mh_check_like(context, "dx", job->dx, "x", x));
    MH_TRY(mh_norm_check_vector(context, "dweight", job->dweight, x));
    MH_TRY(mh_norm_check_vector(context, "dbias", job->dbias, x));
    return MH_CHECK_OVERLAP(
        context, 3, {.name = "dx", .tensor = job->dx}, {.name = "dweight", .tensor = job->dweight},
        {.name = "dbias", .tensor = job->dbias}, MH_OPERAND(x), MH_OPERAND(weight),
        {.name = "mean", .tensor = job->mean}, {.name = "rstd", .tensor = job->rstd},
        {.name = "dy", .tensor = job->dy, .may_be = 1});
}

mh_status mh_layer_norm_backward(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                                 const mh_tensor *mean, const mh_tensor *rstd, const mh_tensor *dy,
                                 mh_tensor *dx, mh_tensor *dweight, mh_tensor *dbias,
                                 bool accumulate)
{
    norm_grad_job job = {.accumulate = accumulate,
                         .x = x,
                         .dy = dy,
                         .mean = mean,
                         .rstd = rstd,
                         .dx = dx,
                         .dweight = dweight,
                         .dbias = dbias};
    MH_TRY(norm_grad_check(context, &job, weight));
    return norm_grad_run(context, &job, weight);
}

mh_status mh_rms_norm_backward(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                               const mh_tensor *rstd, const mh_tensor *dy, mh_tensor *dx,
                               mh_tensor *dweight, bool accumulate)
{
    norm_grad_job job = {.rms = true,
                         .accumulate = accumulate,
                         .x = x,
                         .dy = dy,
                         .rstd = rstd,
                         .dx = dx,
                         .dweight = dweight};
    MH_TRY(norm_grad_check(context, &job, weight));
    return norm_grad_run(context, &job, weight);
}
