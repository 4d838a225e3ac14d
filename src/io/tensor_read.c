// SPDX-License-Identifier: MIT
// Reads a tensor of a file into memory of the caller, converted, without a copy of the tensor in
// between: what is not aligned goes through a small buffer. This is how parameters are loaded; a
// legacy PyTorch file of 300 MB then takes no memory besides the parameters.
#include "base/argument_check.h"
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

mh_status mh_tensor_file_read(mh_context *context, const mh_tensor_file *file, size_t i,
                              mh_tensor *to)
{
    if (MH_NEED(context, {"file", file}, {"to", to}))
        return MH_ERROR_ARGUMENT;
    if (i >= file->count)
        return mh_fail(context, MH_ERROR_ARGUMENT, "i: found %zu, but the file has %zu tensors", i,
                       file->count);
    const mh_file_entry *entry = &file->entries[i];
    if (!mh_tensor_same_shape(&entry->tensor, to)) {
        char found[256], expected[256];
        return mh_fail(context, MH_ERROR_ARGUMENT, "to: found %s, expected the shape of %s",
                       mh_tensor_describe(to, found, sizeof found),
                       mh_tensor_describe(&entry->tensor, expected, sizeof expected));
    }
    const bool in_pieces = entry->copy && !mh_file_copy_is_made(entry->copy) && to->data &&
                           mh_tensor_is_contiguous(&entry->tensor) && mh_tensor_is_contiguous(to);
    if (in_pieces)
        return read_pieces(context, entry, to);
    mh_tensor from;
    mh_tensor_file_at(file, i, &from);
    return mh_tensor_copy(context, &from, to);
}
