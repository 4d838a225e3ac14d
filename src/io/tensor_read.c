// SPDX-License-Identifier: MIT
// Reads a tensor of a file into memory of the caller, converted, without a copy of the tensor in
// between: what is not aligned goes through a small buffer. This is how parameters are loaded; a
// legacy PyTorch file of 300 MB then takes no memory besides the parameters. Quantised blocks are
// converted on all threads (tensor_blocks.c).
#include "base/argument_check.h"
#include "base/compiler.h"
#include "io/tensor_blocks.h"
#include "io/tensor_file.h"
#include "io/tensor_place.h"

enum { PIECE = 16384 };

// Both are contiguous and of equal shape.
static mh_status read_pieces(mh_context *context, const mh_file_entry *entry, mh_tensor *to)
{
    union {
        uint64_t aligned;
        unsigned char bytes[PIECE];
    } buffer;
    const size_t width = mh_dtype_size(entry->tensor.dtype), to_width = mh_dtype_size(to->dtype);
    mh_status status = MH_OK;
    for (size_t at = 0; at < entry->size && !status; at += PIECE) {
        const size_t size = entry->size - at < PIECE ? entry->size - at : PIECE;
        mh_file_copy_piece(entry->copy, entry->bytes + at, size, buffer.bytes);
        const mh_tensor part = mh_tensor_1d(buffer.bytes, entry->tensor.dtype, size / width);
        mh_tensor place =
            mh_tensor_1d((char *)to->data + at / width * to_width, to->dtype, size / width);
        status = mh_tensor_copy(context, &part, &place);
    }
    return status;
}

static mh_status find_entry(mh_context *context, const mh_tensor_file *file, size_t i,
                            const mh_file_entry **entry)
{
    if (i >= file->count)
        return mh_fail(context, MH_ERROR_ARGUMENT, "i: found %zu, but the file has %zu tensors", i,
                       file->count);
    *entry = &file->entries[i];
    return MH_OK;
}

mh_status mh_tensor_file_read(mh_context *context, const mh_tensor_file *file, size_t i,
                              mh_tensor *to)
{
    const mh_file_entry *entry = NULL;
    MH_TRY(MH_NEED(context, {"file", file}, {"to", to}));
    MH_TRY(find_entry(context, file, i, &entry));
    if (!mh_tensor_same_shape(&entry->tensor, to)) {
        char found[256], expected[256];
        return mh_fail(context, MH_ERROR_ARGUMENT, "to: found %s, expected the shape of %s",
                       mh_tensor_describe(to, found, sizeof found),
                       mh_tensor_describe(&entry->tensor, expected, sizeof expected));
    }
    if (entry->blocks)
        return mh_blocks_read(context, entry, NULL, to);
    const bool in_pieces = entry->copy && !mh_file_copy_is_made(entry->copy) && to->data &&
                           mh_tensor_is_contiguous(&entry->tensor) && mh_tensor_is_contiguous(to);
    if (in_pieces)
        return read_pieces(context, entry, to);
    mh_tensor from;
    mh_tensor_file_at(file, i, &from);
    return mh_tensor_copy(context, &from, to);
}

// ---- rows ---------------------------------------------------------------------------------------

static mh_status check_rows(mh_context *context, const mh_tensor *from, const int32_t *rows,
                            size_t count, const mh_tensor *to)
{
    char a[256], b[256];
    if (from->rank != 2 || to->rank != 2 || to->shape[0] != count || to->shape[1] != from->shape[1])
        return mh_fail(context, MH_ERROR_ARGUMENT, "to: found %s for %zu rows of %s",
                       mh_tensor_describe(to, a, sizeof a), count,
                       mh_tensor_describe(from, b, sizeof b));
    for (size_t r = 0; r < count; r++)
        if (rows[r] < 0 || (size_t)rows[r] >= from->shape[0])
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "rows[%zu]: found %ld, expected 0 to %zu, of %s", r, (long)rows[r],
                           from->shape[0] - 1, mh_tensor_describe(from, b, sizeof b));
    return MH_OK;
}

mh_status mh_tensor_file_read_rows(mh_context *context, const mh_tensor_file *file, size_t i,
                                   const int32_t *rows, size_t count, mh_tensor *to)
{
    const mh_file_entry *entry = NULL;
    mh_tensor from;
    MH_TRY(MH_NEED(context, {"file", file}, {"rows", mh_array(rows, count)}, {"to", to}));
    MH_TRY(find_entry(context, file, i, &entry));
    MH_TRY(check_rows(context, &entry->tensor, rows, count, to));
    if (entry->blocks)
        return mh_blocks_read(context, entry, rows, to);
    mh_tensor_file_at(file, i, &from);
    for (size_t r = 0; r < count; r++) {
        const mh_tensor row = mh_tensor_slice(from, 0, (size_t)rows[r], 1);
        mh_tensor place = mh_tensor_slice(*to, 0, r, 1);
        MH_TRY(mh_tensor_copy(context, &row, &place));
    }
    return MH_OK;
}
