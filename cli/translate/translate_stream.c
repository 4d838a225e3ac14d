// SPDX-License-Identifier: MIT
// Lines of standard input as they arrive; see translate.h. Reads only what is available, so that a
// program that writes a line and waits for its translation gets it.
#include "messages.h"
#include "translate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_SIZE = 1 << 16 };

static int stream_no_memory(void)
{
    complain("standard input: out of memory");
    return EXIT_MEMORY;
}

static int stream_read_more(line_stream *s)
{
    if (s->begin > 0) {
        memmove(s->bytes, s->bytes + s->begin, s->size - s->begin);
        s->size -= s->begin;
        s->begin = 0;
    }
    if (s->capacity - s->size < READ_SIZE) {
        const size_t capacity = 2 * s->capacity + READ_SIZE;
        char *bigger = realloc(s->bytes, capacity);
        if (!bigger)
            return stream_no_memory();
        s->bytes = bigger;
        s->capacity = capacity;
    }
    ssize_t got;
    do
        got = read(s->descriptor, s->bytes + s->size, READ_SIZE);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        complain("standard input: cannot be read: %s", strerror(errno));
        return EXIT_INPUT;
    }
    s->size += (size_t)got;
    s->ended = got == 0;
    return EXIT_DONE;
}

static int add_line(line_stream *s, size_t end)
{
    if (s->count == s->item_capacity) {
        const size_t capacity = 2 * s->count + 64;
        mh_text *bigger = realloc(s->items, capacity * sizeof *bigger);
        if (!bigger)
            return stream_no_memory();
        s->items = bigger;
        s->item_capacity = capacity;
    }
    s->items[s->count++] = (mh_text){s->bytes + s->begin, end - s->begin};
    return EXIT_DONE;
}

// The lines that are complete; at the end of the stream, also a last one without newline.
static int take_complete(line_stream *s, size_t most)
{
    int code = EXIT_DONE;
    while (s->begin < s->size && s->count < most && code == EXIT_DONE) {
        const size_t from = s->begin + s->searched;
        const char *newline = memchr(s->bytes + from, '\n', s->size - from);
        if (!newline && !s->ended) {
            s->searched = s->size - s->begin;
            break;
        }
        const size_t end = newline ? (size_t)(newline - s->bytes) : s->size;
        code = add_line(s, end);
        s->begin = newline ? end + 1 : end;
        s->searched = 0;
    }
    return code;
}

int stream_take(line_stream *s, size_t most)
{
    s->count = 0;
    int code = take_complete(s, most);
    if (s->count == 0 && s->prompts) {
        fputs("> ", stderr);
        fflush(stderr);
    }
    while (code == EXIT_DONE && s->count == 0 && !s->ended) {
        code = stream_read_more(s);
        if (code == EXIT_DONE)
            code = take_complete(s, most);
    }
    if (code == EXIT_DONE && s->count == 0 && s->prompts)
        putc('\n', stderr);
    return code;
}

void stream_free(line_stream *s)
{
    free(s->bytes);
    free(s->items);
    s->bytes = NULL;
    s->items = NULL;
}
