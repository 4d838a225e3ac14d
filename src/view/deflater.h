// SPDX-License-Identifier: MIT
// zlib's raw deflate with the context's allocator, for a browser's DecompressionStream.
#ifndef MH_VIEW_DEFLATER_H
#define MH_VIEW_DEFLATER_H

#include <multihead/base.h>

#include <zlib.h>

typedef struct mh_deflater {
    mh_context *context;
    z_stream stream;
    unsigned char *out; // output of the last call
    size_t capacity;
} mh_deflater;

// Ready for inputs of up to `largest` bytes. Errors: MH_ERROR_MEMORY, MH_ERROR_ARGUMENT (too many).
mh_status mh_deflater_open(mh_deflater *d, mh_context *context, size_t largest);
void mh_deflater_close(mh_deflater *d); // all zeros is allowed

// Compresses the bytes into d->out; returns the compressed size, 0 on failure.
size_t mh_deflate(mh_deflater *d, const void *bytes, size_t size);

#endif
