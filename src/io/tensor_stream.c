// SPDX-License-Identifier: MIT
// Writes tensors of any strides to a file, in blocks that fit a buffer of 256 KiB.
//
//     shape   (5, 7, 3, 4)           the buffer holds, say, 40 elements
//              |  |  '--'-- 12       whole inner dimensions, as many as fit
//              |  '-- by 3           then as many of the next as fit: blocks of (3, 3, 4)
//              '-- one by one        the rest is counted like an odometer
//
// Elements are copied as unsigned integers of their size, so that every bit of a NaN survives.
#include "io/tensor_stream.h"

#include <string.h>

#include "base/overflow.h"
#include "io/shape_bytes.h"

// Why a tensor is invalid; NULL if it is valid.
static const char *find_fault(const mh_tensor *tensor, size_t *bytes)
{
    if (tensor->rank < 0 || tensor->rank > MH_MAX_RANK)
        return "its rank is not within 0 to 8";
    if (mh_dtype_size(tensor->dtype) == 0)
        return "its dtype is none";
    if (!mh_shape_bytes(tensor->dtype, tensor->rank, tensor->shape, bytes))
        return "the shape's product overflows";
    if (tensor->data == NULL && *bytes != 0)
        return "its data is NULL";
    if (*bytes != 0 &&
        !mh_strides_fit(tensor->rank, tensor->shape, tensor->stride, mh_dtype_size(tensor->dtype)))
        return "its strides reach beyond what memory can hold";
    return NULL;
}

mh_status mh_stream_check(const mh_source *target, const char *name, const mh_tensor *tensor,
                          size_t *bytes)
{
    const char *fault = find_fault(tensor, bytes);
    char text[256];
    if (fault == NULL)
        return MH_OK;
    return mh_source_fail(target, MH_ERROR_ARGUMENT, "tensor %s of rank %d, %s: %s",
                          mh_quote_string(name).text, tensor->rank,
                          mh_tensor_describe(tensor, text, sizeof text), fault);
}

static mh_dtype bits_of(mh_dtype dtype)
{
    switch (mh_dtype_size(dtype)) {
    case 1:
        return MH_U8;
    case 2:
        return MH_U16;
    case 4:
        return MH_U32;
    default:
        return MH_U64;
    }
}

// The view from dimension `cut` on, at the odometer's `index` (of dimensions 0..cut) and with
// `rows` of dimension `cut`.
static mh_tensor piece_at(const mh_tensor *t, int cut, const size_t *index, size_t rows)
{
    mh_tensor piece = {.dtype = bits_of(t->dtype), .rank = t->rank - cut};
    ptrdiff_t offset = 0;
    for (int i = 0; i <= cut; i++)
        offset += (ptrdiff_t)index[i] * t->stride[i];
    piece.data = (char *)t->data + offset * (ptrdiff_t)mh_dtype_size(t->dtype);
    memcpy(piece.shape, t->shape + cut, (size_t)piece.rank * sizeof *piece.shape);
    memcpy(piece.stride, t->stride + cut, (size_t)piece.rank * sizeof *piece.stride);
    piece.shape[0] = rows;
    return piece;
}

static mh_status write_piece(mh_context *context, mh_file_writer *writer, mh_dtype dtype,
                             const mh_tensor *piece, unsigned char *buffer)
{
    mh_tensor packed = mh_tensor_view(buffer, piece->dtype, piece->rank, piece->shape);
    size_t bytes = mh_tensor_count(piece) * mh_dtype_size(dtype);
    mh_status status = mh_tensor_copy(context, piece, &packed);
    if (status != MH_OK)
        return status;
    if (dtype == MH_BOOL) // ours is "0 or not", the file's is 0 or 1
        for (size_t i = 0; i < bytes; i++)
            buffer[i] = buffer[i] != 0;
    return mh_file_write(writer, buffer, bytes);
}

// Dimensions cut+1.. fit into `room` elements together; *rows of dimension `cut` do, too.
static int choose_cut(const mh_tensor *t, size_t room, size_t *rows)
{
    int cut = t->rank - 1;
    size_t inner = 1;
    while (cut > 0 && t->shape[cut] <= room / inner)
        inner *= t->shape[cut--];
    *rows = room / inner;
    return cut;
}

// The odometer: steps dimension `cut` by `rows`, carries into those before; false at the end.
static bool next_piece(const mh_tensor *t, int cut, size_t rows, size_t *index)
{
    if (t->shape[cut] - index[cut] > rows) {
        index[cut] += rows;
        return true;
    }
    index[cut] = 0;
    for (int i = cut - 1; i >= 0; i--) {
        if (++index[i] < t->shape[i])
            return true;
        index[i] = 0;
    }
    return false;
}

mh_status mh_stream_tensor(mh_context *context, mh_file_writer *writer, const mh_tensor *tensor,
                           void *buffer)
{
    mh_tensor t = *tensor;
    size_t count = mh_tensor_count(&t), rows, index[MH_MAX_RANK] = {0};
    if (count == 0)
        return MH_OK;
    if (t.dtype != MH_BOOL && mh_tensor_is_contiguous(&t))
        return mh_file_write(writer, t.data, count * mh_dtype_size(t.dtype));
    if (t.rank == 0) {
        t.rank = 1;
        t.shape[0] = 1;
        t.stride[0] = 0;
    }
    int cut = choose_cut(&t, MH_STREAM_BYTES / mh_dtype_size(t.dtype), &rows);
    mh_status status;
    do {
        size_t left = t.shape[cut] - index[cut];
        mh_tensor piece = piece_at(&t, cut, index, left < rows ? left : rows);
        status = write_piece(context, writer, t.dtype, &piece, buffer);
    } while (status == MH_OK && next_piece(&t, cut, rows, index));
    return status;
}
