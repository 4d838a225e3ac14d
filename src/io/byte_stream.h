// SPDX-License-Identifier: MIT
// A byte stream from a file or from memory; gzip is detected by its first two bytes and
// decompressed transparently. Anything after a gzip member that is neither another member nor zeros
// is rejected, unlike in zlib's gzread: a damaged member would otherwise be lost silently. Data
// that expand more than any text does are rejected, too: a few kilobytes of gzip may hold
// gigabytes.
#ifndef MH_IO_BYTE_STREAM_H
#define MH_IO_BYTE_STREAM_H

#include "io/zlib_memory.h"
#include "support/file.h"
#include "support/source.h"

typedef struct mh_byte_stream {
    mh_source source;    // for messages: context and name
    mh_file_reader file; // not open: all data is in `input`
    unsigned char *block;
    const unsigned char *input; // [begin, end) is not consumed yet
    size_t begin, end;
    bool at_end; // no data after `input`
    enum { MH_STREAM_START, MH_STREAM_PLAIN, MH_STREAM_MEMBER, MH_STREAM_BETWEEN } state;
    z_stream zlib;
    uint64_t compressed, expanded; // gzip bytes consumed and produced so far
} mh_byte_stream;

// Opens a file, plain or gzip, "-" for standard input. `path` must outlive the stream.
// Errors: MH_ERROR_FILE, MH_ERROR_MEMORY; the stream is then closed.
mh_status mh_byte_stream_open(mh_context *context, const char *path, mh_byte_stream *stream);

// The same for bytes in memory, which must outlive the stream.
void mh_byte_stream_open_memory(mh_context *context, const char *name, const void *bytes,
                                size_t size, mh_byte_stream *stream);

// At least one byte, at most `size` (> 0); *got is 0 only at the end.
// Errors: MH_ERROR_FILE, MH_ERROR_FORMAT (gzip: cut off, damaged, or expanding too much),
// MH_ERROR_MEMORY.
mh_status mh_byte_stream_read(mh_byte_stream *stream, void *bytes, size_t size, size_t *got);

void mh_byte_stream_close(mh_byte_stream *stream); // all zeros is allowed, and so is closing twice

#endif
