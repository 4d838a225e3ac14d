// SPDX-License-Identifier: MIT
// Lines; see line_reader.h. The buffer is larger than the longest line, so that most lines need no
// read and no move. Longer lines are discarded.
#include "io/line_reader.h"
#include "base/compiler.h"

enum { BUFFER = 2 * MH_LINE_MAX };

static mh_status open_buffer(mh_context *context, mh_line_reader *r)
{
    r->buffer = mh_alloc(context, BUFFER);
    if (r->buffer)
        return MH_OK;
    mh_line_reader_close(r);
    return MH_ERROR_MEMORY;
}

mh_status mh_line_reader_open(mh_context *context, const char *path, mh_line_reader *r)
{
    *r = (mh_line_reader){0};
    MH_TRY(mh_byte_stream_open(context, path, &r->stream));
    return open_buffer(context, r);
}

mh_status mh_line_reader_open_memory(mh_context *context, const char *name, const void *bytes,
                                     size_t size, mh_line_reader *r)
{
    *r = (mh_line_reader){0};
    mh_byte_stream_open_memory(context, name, bytes, size, &r->stream);
    return open_buffer(context, r);
}

void mh_line_reader_close(mh_line_reader *r)
{
    if (r->buffer)
        mh_free(r->stream.source.context, r->buffer, BUFFER);
    mh_byte_stream_close(&r->stream);
    *r = (mh_line_reader){0};
}

static mh_status line_read_more(mh_line_reader *r)
{
    size_t got;
    memmove(r->buffer, r->buffer + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    mh_status status = mh_byte_stream_read(&r->stream, r->buffer + r->end, BUFFER - r->end, &got);
    r->end += got;
    r->at_end = got == 0;
    return status;
}

// The bytes of a line without its end: a CR, and the mark before the first one.
static mh_line line_of(const mh_line_reader *r, size_t size, bool too_long)
{
    mh_line line = {r->buffer + r->begin, size, r->number, too_long, false};
    if (line.size > 0 && line.bytes[line.size - 1] == '\r')
        line.size--;
    if (line.number == 1 && line.size >= 3 && memcmp(line.bytes, "\xEF\xBB\xBF", 3) == 0) {
        line.bytes += 3;
        line.size -= 3;
    }
    line.too_long = too_long || line.size > MH_LINE_MAX;
    line.size = line.too_long ? 0 : line.size;
    return line;
}

mh_status mh_line_reader_next(mh_line_reader *r, mh_line *line, bool *found)
{
    enum { KEPT = MH_LINE_MAX + 4 }; // plus a byte order mark and a CR
    size_t seen = 0;                 // of this line, no LF in it
    bool too_long = false;
    const char *newline;
    *found = false;
    for (;;) {
        newline = memchr(r->buffer + r->begin + seen, '\n', r->end - r->begin - seen);
        seen = newline ? (size_t)(newline - r->buffer) - r->begin : r->end - r->begin;
        if (newline || r->at_end)
            break;
        if (seen > KEPT) {
            too_long = true;
            r->begin = r->end;
            seen = 0;
        }
        mh_status status = line_read_more(r);
        if (status)
            return status;
    }
    *found = newline || seen > 0 || too_long;
    if (*found) {
        r->number++;
        *line = line_of(r, seen, too_long);
        line->cut = !newline;
        r->begin += seen + (newline != NULL);
    }
    return MH_OK;
}
