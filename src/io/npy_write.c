// SPDX-License-Identifier: MIT
// A tensor to .npy, byte for byte what numpy.save writes (NumPy 1.23 and later): version 1.0,
// C order, and a header that leaves room for its first dimension to grow to 21 digits, padded with
// 1 to 64 spaces and a newline to a multiple of 64 bytes. Layout: npy.h.
#include <multihead/io.h>

#include <stdio.h>
#include <string.h>

#include "io/npy.h"
#include "io/tensor_stream.h"
#include "support/file.h"

enum {
    PREFIX = 10, // magic, version, length
    ALIGNMENT = 64,
    GROWTH_DIGITS = 21,
    HEADER_ROOM = 512 // 8 dimensions of 20 digits take less than 300
};

// The dictionary as Python prints it; returns its length.
static size_t print_dictionary(const mh_tensor *t, char *text)
{
    size_t digits = 0;
    int used = sprintf(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                       mh_dtype_size(t->dtype) == 1 ? '|' : '<', mh_npy_type(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        int printed = sprintf(text + used, "%zu", t->shape[i]);
        if (i == 0)
            digits = (size_t)printed;
        used += printed;
        if (i + 1 < t->rank || t->rank == 1)
            used += sprintf(text + used, i + 1 < t->rank ? ", " : ",");
    }
    used += sprintf(text + used, "), }");
    if (t->rank > 0)
        used += sprintf(text + used, "%*s", (int)(GROWTH_DIGITS - digits), "");
    return (size_t)used;
}

// Everything before the data; returns its length, a multiple of 64.
static size_t npy_print_header(const mh_tensor *t, char *header)
{
    size_t used = PREFIX + print_dictionary(t, header + PREFIX);
    size_t padding = ALIGNMENT - (used + 1) % ALIGNMENT; // 64, not 0, as NumPy does
    memset(header + used, ' ', padding);
    used += padding;
    header[used++] = '\n';
    size_t length = used - PREFIX;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(length & 0xFF);
    header[9] = (char)(length >> 8);
    return used;
}

static mh_status write_all(mh_context *context, mh_file_writer *writer, const mh_tensor *tensor,
                           void *buffer)
{
    char header[HEADER_ROOM];
    mh_status status = mh_file_write(writer, header, npy_print_header(tensor, header));
    return status == MH_OK ? mh_stream_tensor(context, writer, tensor, buffer) : status;
}

mh_status mh_npy_write(mh_context *context, const char *path, const mh_tensor *tensor)
{
    size_t bytes;
    mh_file_writer *writer;
    if (context == NULL)
        return MH_ERROR_ARGUMENT;
    if (path == NULL || tensor == NULL)
        return mh_fail(context, MH_ERROR_ARGUMENT, "mh_npy_write: %s is NULL",
                       path ? "tensor" : "path");
    mh_source target = {.context = context, .name = path};
    mh_status status = mh_stream_check(&target, "", tensor, &bytes);
    if (status != MH_OK)
        return status;
    if (mh_npy_type(tensor->dtype) == NULL)
        return mh_source_fail(&target, MH_ERROR_UNSUPPORTED,
                              ".npy has no type for %s; convert it to f32 or write .safetensors",
                              mh_dtype_name(tensor->dtype));

    void *buffer = mh_alloc(context, MH_STREAM_BYTES);
    if (buffer == NULL)
        return MH_ERROR_MEMORY;
    status = mh_file_begin(context, path, &writer);
    if (status == MH_OK) {
        status = write_all(context, writer, tensor, buffer);
        if (status == MH_OK)
            status = mh_file_commit(writer);
        else
            mh_file_abandon(writer);
    }
    mh_free(context, buffer, MH_STREAM_BYTES);
    return status;
}
