// SPDX-License-Identifier: MIT
// Lines of text; see lines.h.
#include "lines.h"
#include "command.h"
#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(const lines *l)
{
    complain("%s: out of memory", l->name);
    return EXIT_MEMORY;
}

static int read_bytes(FILE *stream, lines *l, size_t *size)
{
    size_t capacity = 0;
    *size = 0;
    do {
        if (*size == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *bigger = capacity > *size ? realloc(l->bytes, capacity) : NULL;
            if (!bigger)
                return no_memory(l);
            l->bytes = bigger;
        }
        *size += fread(l->bytes + *size, 1, capacity - *size, stream);
    } while (!feof(stream) && !ferror(stream));
    if (!ferror(stream))
        return EXIT_DONE;
    complain("%s: cannot be read: %s", l->name, strerror(errno));
    return EXIT_INPUT;
}

int check_line(const char *name, size_t number, mh_text line)
{
    size_t valid = mh_utf8_valid(line.bytes, line.size);
    if (valid == line.size)
        return EXIT_DONE;
    complain("%s: line %zu: byte %zu (0x%02x) is not valid UTF-8", name, number, valid + 1,
             (unsigned char)line.bytes[valid]);
    return EXIT_INPUT;
}

static int split(lines *l, size_t size)
{
    size_t most = 1;
    for (size_t i = 0; i < size; i++)
        most += l->bytes[i] == '\n';
    l->items = calloc(most, sizeof *l->items);
    if (!l->items)
        return no_memory(l);
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
    bool standard = !path || strcmp(path, "-") == 0;
    size_t size;
    *l = (lines){.name = standard ? "standard input" : path};
    FILE *stream = standard ? stdin : fopen(path, "rb");
    if (!stream) {
        complain("%s: cannot be opened: %s", l->name, strerror(errno));
        return errno == ENOMEM ? EXIT_MEMORY : EXIT_INPUT;
    }
    int code = read_bytes(stream, l, &size);
    if (!standard)
        fclose(stream);
    return code == EXIT_DONE ? split(l, size) : code;
}

void lines_free(lines *l)
{
    free(l->bytes);
    free(l->items);
    *l = (lines){0};
}
