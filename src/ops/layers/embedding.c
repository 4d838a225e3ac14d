// SPDX-License-Identifier: MIT
// Embedding lookup and its gradient. Forward, ids are split across threads. Backward, several ids
// may name one row: columns are split across threads instead, and each thread walks all ids in
// order, so that every sum has a fixed order and no two threads write to the same element.
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "ops/indices.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <multihead/layers.h>

enum { ROWS = 64, COLUMNS = 256 }; // per task; COLUMNS also of a copy on the stack

typedef struct embedding_job {
    const mh_kernels *kernels;
    const mh_tensor *table, *ids, *y;
    size_t count, D, columns;
    float scale;
    int64_t padding_id;
} embedding_job;

// The address of column `first` in a row of t.
static void *part_of_row(const mh_tensor *t, size_t row, size_t first)
{
    return (void *)mh_row_offset(t, mh_row_address(t, row),
                                 (ptrdiff_t)first * t->stride[t->rank - 1]);
}

static void gather_rows(void *arg, size_t index, size_t worker)
{
    const embedding_job *job = arg;
    const mh_tensor *table = job->table, *y = job->y;
    float part[COLUMNS];
    (void)worker;
    for (size_t i = index * ROWS; i < mh_smaller((index + 1) * ROWS, job->count); i++) {
        const size_t id = (size_t)mh_index_get(job->ids, i);
        for (size_t first = 0; first < job->D; first += COLUMNS) {
            const size_t n = mh_smaller(COLUMNS, job->D - first);
            mh_row_read(job->kernels, table->dtype, part_of_row(table, id, first), table->stride[1],
                        n, part);
            if (job->scale != 1)
                job->kernels->elementwise.scale_row(n, part, job->scale, part);
            mh_row_write(job->kernels, y->dtype, part_of_row(y, i, first), y->stride[y->rank - 1],
                         n, part);
        }
    }
}

static void embedding_add_columns(void *arg, size_t index, size_t worker)
{
    const embedding_job *job = arg;
    const mh_tensor *dtable = job->table, *dy = job->y;
    const size_t first = index * job->columns, n = mh_smaller(job->columns, job->D - first);
    float from[COLUMNS], sum[COLUMNS];
    (void)worker;
    for (size_t i = 0; i < job->count; i++) {
        const int64_t id = mh_index_get(job->ids, i);
        if (id == job->padding_id)
            continue;
        float *to = part_of_row(dtable, (size_t)id, first);
        const void *row = part_of_row(dy, i, first);
        const float *x = row;
        if (dy->dtype != MH_F32 || dy->stride[dy->rank - 1] != 1) {
            mh_row_read(job->kernels, dy->dtype, row, dy->stride[dy->rank - 1], n, from);
            x = from;
        }
        if (dtable->stride[1] == 1) {
            job->kernels->elementwise.axpy(n, job->scale, x, to);
        } else {
            mh_row_read(job->kernels, MH_F32, to, dtable->stride[1], n, sum);
            job->kernels->elementwise.axpy(n, job->scale, x, sum);
            mh_row_write(job->kernels, MH_F32, to, dtable->stride[1], n, sum);
        }
    }
}

// y (or dy) is (..., D), as many rows as there are ids.
static mh_status check_rows(mh_context *context, const char *name, const mh_tensor *y,
                            const mh_tensor *ids, size_t D)
{
    char found[128], text[128];
    MH_TRY(mh_check_float(context, name, y, -1));
    if (ids->rank == MH_MAX_RANK)
        return mh_fail(context, MH_ERROR_ARGUMENT, "ids: found rank %d, expected at most %d",
                       ids->rank, MH_MAX_RANK - 1);
    mh_tensor expected = *ids;
    expected.shape[expected.rank++] = D;
    if (!mh_tensor_same_shape(y, &expected)) {
        expected.dtype = y->dtype;
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected %s", name,
                       mh_tensor_describe(y, found, sizeof found),
                       mh_tensor_describe(&expected, text, sizeof text));
    }
    return MH_OK;
}

mh_status mh_embedding(mh_context *context, const mh_tensor *table, const mh_tensor *ids,
                       float scale, mh_tensor *y)
{
    MH_TRY(mh_check_float(context, "table", table, 2));
    MH_TRY(mh_check_indices(context, "ids", ids, -1));
    MH_TRY(check_rows(context, "y", y, ids, table->shape[1]));
    MH_TRY(mh_check_index_range(context, "ids", ids, 0, (int64_t)table->shape[0], NULL));
    MH_TRY(MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y), MH_OPERAND(table), MH_OPERAND(ids)));
    embedding_job job = {.kernels = context->kernels,
                         .table = table,
                         .ids = ids,
                         .y = y,
                         .count = mh_tensor_count(ids),
                         .D = table->shape[1],
                         .scale = scale};
    if (job.D > 0)
        mh_parallel_for(context, (job.count + ROWS - 1) / ROWS, gather_rows, &job);
    return MH_OK;
}

mh_status mh_embedding_backward(mh_context *context, const mh_tensor *ids, float scale,
                                int64_t padding_id, const mh_tensor *dy, mh_tensor *dtable)
{
    MH_TRY(mh_check_indices(context, "ids", ids, -1));
    MH_TRY(mh_check_f32(context, "dtable", dtable, 2));
    MH_TRY(check_rows(context, "dy", dy, ids, dtable->shape[1]));
    MH_TRY(mh_check_index_range(context, "ids", ids, 0, (int64_t)dtable->shape[0],
                                padding_id < 0 ? NULL : &padding_id));
    MH_TRY(MH_CHECK_OVERLAP(context, 1, MH_OPERAND(dtable), MH_OPERAND(ids), MH_OPERAND(dy)));
    embedding_job job = {.kernels = context->kernels,
                         .table = dtable,
                         .ids = ids,
                         .y = dy,
                         .count = mh_tensor_count(ids),
                         .D = dtable->shape[1],
                         .columns = context->threads > 1 ? 64 : COLUMNS, // changes no sum
                         .scale = scale,
                         .padding_id = padding_id};
    mh_parallel_for(context, (job.D + job.columns - 1) / job.columns, embedding_add_columns, &job);
    return MH_OK;
}
