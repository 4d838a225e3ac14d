// SPDX-License-Identifier: MIT
// A file of bytes that are all there already.
#include "base/file.h"
#include <multihead/io.h>

mh_status mh_bytes_write(mh_context *context, const char *path, const void *bytes, size_t size)
{
    mh_file_writer *writer;
    mh_status status = mh_file_begin(context, path, &writer);
    if (status)
        return status;
    status = mh_file_write(writer, bytes, size);
    if (!status)
        return mh_file_commit(writer);
    mh_file_abandon(writer);
    return status;
}
