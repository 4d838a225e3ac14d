// SPDX-License-Identifier: MIT
// Plain or gzip bytes; see byte_stream.h.
//
//     START -- 1f 8b --> MEMBER --- its end --> BETWEEN -- nothing left --> the end
//        \                  ^--------- 1f 8b -----'  \---- anything else --> an error
//         `-- else --> PLAIN
#include "io/byte_stream.h"
#include "base/compiler.h"

#include "base/size_math.h"

#include <inttypes.h>
#include <limits.h>

enum {
    BLOCK = 1 << 16,   // read from a file at a time
    GZIP = 15 + 16,    // zlib: the largest window, a gzip header and checksum
    MAGIC_SIZE = 2,    //
    MOST = INT_MAX / 2 // given to zlib at a time, which counts in unsigned
};

// Text compresses 3 to 20 times; deflate's limit is 1032. Short files are exempt.
enum { RATIO_MAX = 100, RATIO_FROM = 1 << 20 };

static size_t available(const mh_byte_stream *s) { return s->end - s->begin; }

// Reads until `wanted` (a few) bytes are available or the input ends.
static mh_status stream_fill(mh_byte_stream *s, size_t wanted)
{
    while (available(s) < wanted && !s->at_end) {
        size_t kept = available(s), got;
        memmove(s->block, s->block + s->begin, kept);
        s->begin = 0;
        s->end = kept;
        mh_status status = mh_file_read(&s->file, s->block + kept, BLOCK - kept, &got);
        if (status)
            return status;
        s->end += got;
        s->at_end = got == 0;
    }
    return MH_OK;
}

static bool at_gzip(const mh_byte_stream *s)
{
    return available(s) >= MAGIC_SIZE && s->input[s->begin] == 0x1F &&
           s->input[s->begin + 1] == 0x8B;
}

static mh_status begin_member(mh_byte_stream *s)
{
    if (s->state == MH_STREAM_BETWEEN) {
        inflateReset(&s->zlib);
    } else {
        s->zlib = mh_zlib_stream(s->source.context);
        if (inflateInit2(&s->zlib, GZIP) != Z_OK)
            return mh_source_fail(&s->source, MH_ERROR_MEMORY, "out of memory while decompressing");
    }
    s->state = MH_STREAM_MEMBER;
    return MH_OK;
}

static mh_status read_start(mh_byte_stream *s)
{
    mh_status status = stream_fill(s, MAGIC_SIZE);
    if (!status && at_gzip(s))
        return begin_member(s);
    s->state = MH_STREAM_PLAIN;
    return status;
}

static mh_status read_plain(mh_byte_stream *s, unsigned char *bytes, size_t size, size_t *got)
{
    MH_TRY(stream_fill(s, 1));
    *got = mh_smaller(size, available(s));
    if (*got > 0)
        memcpy(bytes, s->input + s->begin, *got);
    s->begin += *got;
    return MH_OK;
}

static mh_status fail_in_member(mh_byte_stream *s, int code)
{
    if (code == Z_MEM_ERROR)
        return mh_source_fail(&s->source, MH_ERROR_MEMORY, "out of memory while decompressing");
    return mh_source_fail(&s->source, MH_ERROR_FORMAT, "the gzip data is damaged: %s",
                          s->zlib.msg ? s->zlib.msg : "it needs a dictionary");
}

static mh_status check_ratio(mh_byte_stream *s, size_t in, size_t out)
{
    s->compressed += in;
    s->expanded += out;
    if (s->expanded <= RATIO_FROM || s->expanded / RATIO_MAX <= s->compressed)
        return MH_OK;
    return mh_source_fail(&s->source, MH_ERROR_FORMAT,
                          "the gzip data expands more than %d times: found %" PRIu64
                          " bytes from %" PRIu64 ", as no text does; if it is genuine, "
                          "decompress it first (gunzip)",
                          RATIO_MAX, s->expanded, s->compressed);
}

static mh_status read_member(mh_byte_stream *s, unsigned char *bytes, size_t size, size_t *got)
{
    MH_TRY(stream_fill(s, 1));
    unsigned in = (unsigned)mh_smaller(available(s), MOST), out = (unsigned)mh_smaller(size, MOST);
    s->zlib.next_in = in ? (Bytef *)(uintptr_t)(s->input + s->begin) : NULL;
    s->zlib.avail_in = in;
    s->zlib.next_out = bytes;
    s->zlib.avail_out = out;
    int code = inflate(&s->zlib, Z_NO_FLUSH);
    s->begin += in - s->zlib.avail_in;
    *got = out - s->zlib.avail_out;
    if (code == Z_STREAM_END)
        s->state = MH_STREAM_BETWEEN;
    else if (code != Z_OK && code != Z_BUF_ERROR)
        return fail_in_member(s, code);
    else if (*got == 0 && in == 0)
        return mh_source_fail(
            &s->source, MH_ERROR_FORMAT,
            "the gzip data is truncated: found the end of the file, expected more");
    return check_ratio(s, in - s->zlib.avail_in, *got);
}

// Sets *ended, or begins the next member. Trailing zeros, as on tapes, are skipped, as gzip(1)
// does.
static mh_status read_between(mh_byte_stream *s, bool *ended)
{
    mh_status status;
    while ((status = stream_fill(s, MAGIC_SIZE)) == MH_OK && available(s) > 0 &&
           s->input[s->begin] == 0)
        s->begin++;
    if (status)
        return status;
    *ended = available(s) == 0;
    if (*ended)
        return MH_OK;
    if (!at_gzip(s))
        return mh_source_fail(&s->source, MH_ERROR_FORMAT,
                              "found bytes after the gzip data, expected the end of the file");
    return begin_member(s);
}

mh_status mh_byte_stream_read(mh_byte_stream *s, void *bytes, size_t size, size_t *got)
{
    mh_status status = MH_OK;
    bool ended = false;
    *got = 0;
    while (!status && !ended && *got == 0) {
        switch (s->state) {
        case MH_STREAM_START:
            status = read_start(s);
            break;
        case MH_STREAM_PLAIN:
            status = read_plain(s, bytes, size, got);
            ended = *got == 0;
            break;
        case MH_STREAM_MEMBER:
            status = read_member(s, bytes, size, got);
            break;
        case MH_STREAM_BETWEEN:
            status = read_between(s, &ended);
            break;
        }
    }
    return status;
}

mh_status mh_byte_stream_open(mh_context *context, const char *path, mh_byte_stream *s)
{
    *s = (mh_byte_stream){.source = {.context = context}};
    MH_TRY(mh_file_open(context, path, &s->file));
    s->source.name = s->file.path;
    s->input = s->block = mh_alloc(context, BLOCK);
    if (s->block)
        return MH_OK;
    mh_byte_stream_close(s);
    return MH_ERROR_MEMORY;
}

void mh_byte_stream_open_memory(mh_context *context, const char *name, const void *bytes,
                                size_t size, mh_byte_stream *s)
{
    *s = (mh_byte_stream){
        .source = {.context = context, .name = name}, .input = bytes, .end = size, .at_end = true};
}

void mh_byte_stream_close(mh_byte_stream *s)
{
    if (s->state == MH_STREAM_MEMBER || s->state == MH_STREAM_BETWEEN)
        inflateEnd(&s->zlib);
    if (s->block)
        mh_free(s->source.context, s->block, BLOCK);
    mh_file_close(&s->file);
    *s = (mh_byte_stream){0};
}
