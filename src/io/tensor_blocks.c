// SPDX-License-Identifier: MIT
// Dequantises rows of blocks in parallel: a task is a group of rows. A row that is contiguous f32
// in its place is written there; others go through a buffer of a few blocks.
#include "io/tensor_blocks.h"

#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/half.h"
#include "io/gguf_blocks.h"

enum { TASK_VALUES = 32768, PIECE = 4 * MH_BLOCK_VALUES_MAX };

typedef struct blocks_job {
    const mh_file_entry *entry;
    const int32_t *rows; // NULL: all, in order
    const mh_tensor *to;
    size_t count, columns;
    size_t rows_per_task;
} blocks_job;

// Where row r of `to` begins, in elements.
static ptrdiff_t row_offset(const mh_tensor *to, size_t r)
{
    ptrdiff_t offset = 0;
    for (int i = to->rank - 2; i >= 0; i--) {
        offset += (ptrdiff_t)(r % to->shape[i]) * to->stride[i];
        r /= to->shape[i];
    }
    return offset;
}

static void store_values(const float *values, size_t count, mh_dtype dtype, char *to,
                         ptrdiff_t stride)
{
    for (size_t i = 0; i < count; i++) {
        const ptrdiff_t at = (ptrdiff_t)i * stride;
        if (dtype == MH_F32)
            ((float *)to)[at] = values[i];
        else if (dtype == MH_BF16)
            ((uint16_t *)to)[at] = mh_float_to_bf16(values[i]);
        else if (dtype == MH_F16)
            ((uint16_t *)to)[at] = mh_float_to_f16(values[i]);
        else
            ((double *)to)[at] = (double)values[i];
    }
}

static void dequantize_row(const blocks_job *job, size_t r)
{
    const mh_block_format *format = job->entry->blocks;
    const mh_tensor *to = job->to;
    const size_t row = job->rows ? (size_t)job->rows[r] : r, width = mh_dtype_size(to->dtype);
    const unsigned char *blocks =
        job->entry->bytes + row * (job->columns / format->values) * format->bytes;
    const ptrdiff_t stride = to->stride[to->rank - 1];
    char *place = (char *)to->data + row_offset(to, r) * (ptrdiff_t)width;
    if (to->dtype == MH_F32 && stride == 1) {
        format->dequantize(blocks, job->columns / format->values, (float *)place);
        return;
    }
    for (size_t at = 0; at < job->columns; at += PIECE) {
        float values[PIECE];
        const size_t count = job->columns - at < PIECE ? job->columns - at : PIECE;
        format->dequantize(blocks + at / format->values * format->bytes, count / format->values,
                           values);
        store_values(values, count, to->dtype, place + (ptrdiff_t)(at * width) * stride, stride);
    }
}

static void dequantize_rows(void *arg, size_t task, size_t worker)
{
    const blocks_job *job = arg;
    const size_t begin = task * job->rows_per_task;
    const size_t left = job->count - begin;
    const size_t end = begin + (left < job->rows_per_task ? left : job->rows_per_task);
    (void)worker;
    for (size_t r = begin; r < end; r++)
        dequantize_row(job, r);
}

mh_status mh_blocks_read(mh_context *context, const mh_file_entry *entry, const int32_t *rows,
                         mh_tensor *to)
{
    const bool is_float =
        to->dtype == MH_F32 || to->dtype == MH_BF16 || to->dtype == MH_F16 || to->dtype == MH_F64;
    if (!is_float)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "to: found %s, expected a float dtype for a tensor of type %s",
                       mh_dtype_name(to->dtype), entry->blocks->name);
    const size_t columns = to->shape[to->rank - 1], values = mh_tensor_count(to);
    if (values == 0)
        return MH_OK;
    MH_TRY(MH_NEED(context, {"to.data", to->data}));
    blocks_job job = {entry, rows, to, values / columns, columns, TASK_VALUES / columns};
    job.rows_per_task += job.rows_per_task == 0;
    mh_parallel_for(context, (job.count + job.rows_per_task - 1) / job.rows_per_task,
                    dequantize_rows, &job);
    return MH_OK;
}
