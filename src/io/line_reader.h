// SPDX-License-Identifier: MIT
// Reads a text line by line, in constant memory. Lines end with LF or CR LF, the last one also with
// the file; a UTF-8 byte order mark at the beginning is skipped. The bytes are not checked.
#ifndef MH_IO_LINE_READER_H
#define MH_IO_LINE_READER_H

#include "io/byte_stream.h"

enum { MH_LINE_MAX = 1 << 16 }; // bytes without the line's end

typedef struct mh_line {
    const char *bytes; // borrowed until the next call
    size_t size;
    size_t number; // from 1
    bool too_long; // more than MH_LINE_MAX bytes, none of which are here
    bool cut;      // the file ends before the line does
} mh_line;

typedef struct mh_line_reader {
    mh_byte_stream stream;
    char *buffer;
    size_t begin, end; // read, not yet returned
    size_t number;     // of lines so far
    bool at_end;
} mh_line_reader;

// As mh_byte_stream_open: plain or gzip, "-" for standard input; `path` must outlive the reader.
// Errors: MH_ERROR_FILE, MH_ERROR_MEMORY; the reader is then closed.
mh_status mh_line_reader_open(mh_context *context, const char *path, mh_line_reader *reader);

// The same for bytes in memory, which must outlive the reader. Errors: MH_ERROR_MEMORY.
mh_status mh_line_reader_open_memory(mh_context *context, const char *name, const void *bytes,
                                     size_t size, mh_line_reader *reader);

// The next line; *found is false after the last. Errors: as mh_byte_stream_read.
mh_status mh_line_reader_next(mh_line_reader *reader, mh_line *line, bool *found);

void mh_line_reader_close(mh_line_reader *reader); // all zeros is allowed, and so is closing twice

#endif
