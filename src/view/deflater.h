// SPDX-License-Identifier: MIT
// zlib's raw deflate with the context's memory: what a browser's DecompressionStream inflates.
#ifndef MH_VIEW_DEFLATER_H
#define MH_VIEW_DEFLATER_H

#include <multihead/base.h>

#include <zlib.h>

typedef struct mh_deflater {
    mh_context *context;
    z_stream stream;
    unsigned char *out; // what the last call compressed
    size_t capacity;
} mh_deflater;

// Ready for inputs of up to `largest` bytes. Errors: MH_ERROR_MEMORY, MH_ERROR_ARGUMENT (too many).
mh_status mh_deflater_open(mh_deflater *d, mh_context *context, size_t largest);
void mh_deflater_close(mh_deflater *d); // all zeros is fine

// Compresses the bytes into d->out; returns their new number, 0 if that failed.
size_t mh_deflate(mh_deflater *d, const void *bytes, size_t size);

#endif
