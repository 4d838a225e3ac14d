// SPDX-License-Identifier: MIT
// Raw deflate; see deflater.h. One stream serves all blobs of a page: it is reset, not recreated.
#include "view/deflater.h"

#include "io/zlib_memory.h"

enum {
    LEVEL = 6,        // 9 takes three times as long for less than a percent
    WINDOW = -15,     // raw: no header, no checksum
    MEMORY_LEVEL = 9, // 9 of 9
};

mh_status mh_deflater_open(mh_deflater *d, mh_context *context, size_t largest)
{
    *d = (mh_deflater){.context = context};
    if (largest > INT32_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "page: %zu bytes for one head, expected at most %d", largest, INT32_MAX);
    d->stream = mh_zlib_stream(context);
    if (deflateInit2(&d->stream, LEVEL, Z_DEFLATED, WINDOW, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        d->context = NULL;
        return mh_fail(context, MH_ERROR_MEMORY, "page: out of memory while compressing");
    }
    d->capacity = deflateBound(&d->stream, (uLong)largest);
    d->out = mh_alloc(context, d->capacity);
    return d->out ? MH_OK : MH_ERROR_MEMORY;
}

void mh_deflater_close(mh_deflater *d)
{
    if (d->context == NULL)
        return;
    deflateEnd(&d->stream);
    mh_free(d->context, d->out, d->capacity);
    *d = (mh_deflater){0};
}

size_t mh_deflate(mh_deflater *d, const void *bytes, size_t size)
{
    deflateReset(&d->stream);
    d->stream.next_in = (Bytef *)(uintptr_t)bytes;
    d->stream.avail_in = (uInt)size;
    d->stream.next_out = d->out;
    d->stream.avail_out = (uInt)d->capacity;
    if (deflate(&d->stream, Z_FINISH) != Z_STREAM_END)
        return 0;
    return d->capacity - d->stream.avail_out;
}
