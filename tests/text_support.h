// SPDX-License-Identifier: MIT
// What the tests of text share: texts from literals, and the lines of a file.
#ifndef MH_TESTS_TEXT_SUPPORT_H
#define MH_TESTS_TEXT_SUPPORT_H

#include "file_support.h"

#include <multihead/text.h>

#define TEXT(literal) ((mh_text){literal, sizeof literal - 1})

// The lines of a file in tests/goldens; `file` is what they are in. Free both.
static inline mh_text *read_lines(const char *from, blob *file, size_t *count)
{
    *file = blob_read(from);
    mh_text *lines = malloc((file->size + 1) * sizeof *lines);
    if (!lines)
        abort();
    *count = 0;
    for (size_t begin = 0, end; begin < file->size; begin = end + 1) {
        const unsigned char *newline = memchr(file->bytes + begin, '\n', file->size - begin);
        end = newline ? (size_t)(newline - file->bytes) : file->size;
        lines[(*count)++] = (mh_text){(const char *)file->bytes + begin, end - begin};
    }
    return lines;
}

#endif
