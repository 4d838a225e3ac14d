// SPDX-License-Identifier: MIT
// A file of bytes that are all there already, for those outside the library.
#include "base/file.h"
#include <multihead/io.h>

mh_status mh_bytes_write(mh_context *context, const char *path, const void *bytes, size_t size)
{
    return mh_file_replace(context, path, bytes, size);
}
