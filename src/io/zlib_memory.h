// SPDX-License-Identifier: MIT
// zlib with the context's allocator.
#ifndef MH_IO_ZLIB_MEMORY_H
#define MH_IO_ZLIB_MEMORY_H

#include <multihead/base.h>

#include <zlib.h>

// A stream for deflateInit or inflateInit that allocates from the context.
z_stream mh_zlib_stream(mh_context *context);

#endif
