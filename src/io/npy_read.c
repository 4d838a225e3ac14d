// SPDX-License-Identifier: MIT
// .npy to one checked entry. The header is untrusted: the shape must account for exactly the bytes
// that follow it, so that 80 bytes that claim 32 GiB, and truncated or extended files, are all
// rejected before anything is allocated. Layout: npy.h.
#include <string.h>

#include "io/npy.h"
#include "io/shape_bytes.h"
#include "io/tensor_file.h"

// Finds the header's text after magic, version and length.
static mh_status npy_find_header(const mh_source *source, size_t *start, size_t *size)
{
    if (source->size < 10)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              ".npy file of %zu bytes, expected at least 10", source->size);
    const unsigned char *b = source->bytes;
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              ".npy version %d.%d, expected 1.0, 2.0 or 3.0", b[6], b[7]);
    *start = b[6] == 1 ? 10 : 12;
    if (source->size < *start)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              ".npy file of %zu bytes, expected at least %zu", source->size,
                              *start);
    *size = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1)
        *size |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (*size > MH_HEADER_BYTES_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT, "header of %zu bytes, expected at most %zu",
                              *size, MH_HEADER_BYTES_MAX);
    if (*size > source->size - *start)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %zu bytes, but the file has only %zu bytes left", *size,
                              source->size - *start);
    return MH_OK;
}

static mh_tensor make_view(const mh_npy_header *header)
{
    mh_tensor view = mh_tensor_view(NULL, header->dtype, header->rank, header->shape);
    ptrdiff_t step = 1;
    for (int i = 0; header->fortran_order && i < header->rank; i++) {
        view.stride[i] = step;
        step *= header->shape[i] ? (ptrdiff_t)header->shape[i] : 1; // fits: mh_shape_bytes
    }
    return view;
}

bool mh_is_npy(const mh_source *source)
{
    static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
    return source->size >= sizeof magic && memcmp(source->bytes, magic, sizeof magic) == 0;
}

mh_status mh_npy_entry(const mh_source *source, mh_file_entry *entry)
{
    size_t start = 0, size = 0, needed = 0;
    mh_npy_header header = {0};
    mh_status status = mh_is_npy(source) ? npy_find_header(source, &start, &size)
                                         : mh_source_fail(source, MH_ERROR_FORMAT,
                                                          "does not start with the .npy signature");
    if (status == MH_OK)
        status = mh_npy_parse_header(source, (const char *)source->bytes + start, size, &header);
    if (status != MH_OK)
        return status;

    size_t left = source->size - start - size;
    char text[256];
    if (!mh_shape_bytes(header.dtype, header.rank, header.shape, &needed))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "the shape's product overflows: its size does not fit in memory");
    mh_tensor view = make_view(&header);
    if (needed != left)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "%s needs %zu bytes of data, but the file has %zu",
                              mh_tensor_describe(&view, text, sizeof text), needed, left);

    *entry = (mh_file_entry){.name = "",
                             .bytes = source->bytes + start + size,
                             .size = needed,
                             .big_endian = header.big_endian,
                             .tensor = view};
    return MH_OK;
}

mh_status mh_npy_read(const mh_source *source, mh_tensor_file *file)
{
    mh_file_entry entry;
    mh_status status = mh_npy_entry(source, &entry);
    if (status == MH_OK)
        status = mh_tensor_file_reserve(source->context, file, 1, 0, 0);
    if (status == MH_OK)
        file->entries[0] = entry;
    return status;
}
