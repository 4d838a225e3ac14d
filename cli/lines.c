// SPDX-License-Identifier: MIT
// Lines of text; see lines.h.
#include "lines.h"
#include "command.h"
#include "messages.h"
#include "whole_file.h"

#include <stdlib.h>
#include <string.h>

int check_line(const char *name, size_t number, mh_text line)
{
    size_t valid = mh_utf8_valid(line.bytes, line.size);
    if (valid == line.size)
        return EXIT_DONE;
    complain("%s: line %zu: byte %zu (0x%02x) is not valid UTF-8", name, number, valid + 1,
             (unsigned char)line.bytes[valid]);
    return EXIT_INPUT;
}

static mh_text skip_byte_order_mark(mh_text line)
{
    static const char mark[3] = {'\xef', '\xbb', '\xbf'};
    const bool marked = line.size >= sizeof mark && memcmp(line.bytes, mark, sizeof mark) == 0;
    return marked ? (mh_text){line.bytes + sizeof mark, line.size - sizeof mark} : line;
}

void lines_clean(mh_text *items, size_t count, bool has_first)
{
    if (count && has_first)
        items[0] = skip_byte_order_mark(items[0]);
    for (size_t i = 0; i < count; i++)
        if (items[i].size && items[i].bytes[items[i].size - 1] == '\r')
            items[i].size--;
}

static int lines_split(lines *l, size_t size)
{
    size_t most = 1;
    for (size_t i = 0; i < size; i++)
        most += l->bytes[i] == '\n';
    l->items = calloc(most, sizeof *l->items);
    if (!l->items) {
        complain("%s: out of memory", l->name);
        return EXIT_MEMORY;
    }
    for (size_t begin = 0, end; begin < size; begin = end + 1) {
        const char *newline = memchr(l->bytes + begin, '\n', size - begin);
        end = newline ? (size_t)(newline - l->bytes) : size;
        mh_text line = {l->bytes + begin, end - begin};
        if (check_line(l->name, l->count + 1, line) != EXIT_DONE)
            return EXIT_INPUT;
        l->items[l->count++] = line;
    }
    return EXIT_DONE;
}

int lines_read(const char *path, lines *l)
{
    size_t size;
    *l = (lines){.name = input_name(path)};
    int code = whole_file_read(NULL, path, SIZE_MAX, &l->bytes, &size);
    if (code == EXIT_DONE && size >= 2 && memcmp(l->bytes, "\x1f\x8b", 2) == 0) {
        complain("%s: is gzip-compressed, expected text: pipe it through zcat", l->name);
        return EXIT_INPUT;
    }
    return code == EXIT_DONE ? lines_split(l, size) : code;
}

void lines_free(lines *l)
{
    free(l->bytes);
    free(l->items);
    *l = (lines){0};
}
