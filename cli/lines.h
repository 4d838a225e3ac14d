// SPDX-License-Identifier: MIT
// Text that a command reads line by line: a file, or standard input.
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <multihead/text.h>

typedef struct lines {
    const char *name; // of the file, for messages
    char *bytes;      // all of it
    mh_text *items;   // without the newlines
    size_t count;
} lines;

// Reads a file, "-" for standard input. Every line must be valid UTF-8; the last
// may lack its newline. Returns an exit code after reporting errors by file, line and byte.
int lines_read(const char *path, lines *l);
// Checks that line `number` of `name` is valid UTF-8; returns an exit code after reporting errors.
int check_line(const char *name, size_t number, mh_text line);
// Removes what is not text from lines: the byte-order mark of a file's first one, and the carriage
// return before a newline.
void lines_clean(mh_text *items, size_t count, bool has_first);
void lines_free(lines *l); // may never have been read

#endif
