// SPDX-License-Identifier: MIT
// Writes a file from bytes in memory, for callers outside the library.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "support/file.h"
#include <multihead/io.h>

mh_status mh_bytes_write(mh_context *context, const char *path, const void *bytes, size_t size)
{
    MH_TRY(MH_NEED(context, {"path", path}, {"bytes", mh_array(bytes, size)}));
    return mh_file_replace(context, path, bytes, size);
}
