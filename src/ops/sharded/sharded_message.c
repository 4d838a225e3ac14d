// SPDX-License-Identifier: MIT
// Messages as tensors, what is counted of them, and which units of keys a unit of queries sees.
#include "ops/row_io.h"
#include "ops/sharded/sharded_internal.h"

mh_tensor mh_message_tensor(mh_arena *message, mh_dtype dtype, size_t B, size_t heads, size_t rows,
                            size_t width)
{
    void *data = mh_arena_take(message, B * heads * rows, width * mh_dtype_size(dtype));
    return mh_tensor_4d(data, dtype, B, heads, rows, width);
}

static void copy_row(const mh_tensor *from, const void *source, const mh_tensor *to, void *target)
{
    const size_t size = mh_dtype_size(from->dtype), n = from->shape[3];
    if ((from->stride[3] == 1 && to->stride[3] == 1) || n == 1) {
        memcpy(target, source, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy((void *)mh_row_offset(to, target, (ptrdiff_t)i * to->stride[3]),
               mh_row_offset(from, source, (ptrdiff_t)i * from->stride[3]), size);
}

void mh_copy_rows(const mh_tensor *from, const mh_tensor *to)
{
    for (size_t b = 0; b < from->shape[0]; b++)
        for (size_t h = 0; h < from->shape[1]; h++)
            for (size_t i = 0; i < from->shape[2]; i++) {
                const size_t at[3] = {b, h, i};
                copy_row(from, mh_element(from, 3, at), to, (void *)mh_element(to, 3, at));
            }
}

void mh_sharded_deltas(mh_context *context, const mh_tensor *out, const mh_tensor *dout,
                       const mh_tensor *delta)
{
    const mh_kernels *kernels = context->kernels;
    const size_t Ev = out->shape[3], *shape = delta->shape;
    float outs[MH_MAX_HEAD_DIM], douts[MH_MAX_HEAD_DIM];
    for (size_t i = 0; i < shape[0] * shape[1] * shape[2]; i++) {
        const size_t at[3] = {i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]};
        mh_row_read(kernels, out->dtype, mh_element(out, 3, at), out->stride[3], Ev, outs);
        mh_row_read(kernels, dout->dtype, mh_element(dout, 3, at), dout->stride[3], Ev, douts);
        ((float *)delta->data)[i] = mh_attention_grad_delta(kernels, Ev, outs, douts);
    }
}

mh_tensor mh_as_rows(const mh_tensor *t)
{
    mh_tensor rows = *t;
    rows.rank = 4;
    rows.shape[3] = 1, rows.stride[3] = 1;
    return rows;
}

void mh_count_sent(mh_traffic *traffic, size_t bytes)
{
    traffic->messages_sent++;
    traffic->bytes_sent += bytes;
    traffic->largest = mh_larger(traffic->largest, bytes);
}

void mh_count_received(mh_traffic *traffic, size_t bytes)
{
    traffic->messages_received++;
    traffic->bytes_received += bytes;
    traffic->largest = mh_larger(traffic->largest, bytes);
}

void mh_sharded_spans(const mh_sharded_call *call, mh_interval *spans)
{
    mh_attention_desc whole = call->desc;
    whole.T = whole.whole_T, whole.positions = NULL;
    for (size_t unit = 0; unit < mh_shards_units(&call->queries); unit++)
        spans[unit] = (mh_interval){SIZE_MAX, 0};
    for (size_t b = 0; b < whole.B; b++) {
        const mh_sequence sequence = mh_attention_sequence(&whole, b);
        for (size_t query = 0; query < whole.T; query++) {
            mh_interval keys, *span = &spans[query / MH_SHARD_UNIT];
            mh_attention_interval(&whole, &sequence, query, &keys);
            if (keys.begin == keys.end)
                continue;
            span->begin = mh_smaller(span->begin, keys.begin);
            span->end = mh_larger(span->end, keys.end);
        }
    }
}
