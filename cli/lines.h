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
// may lack its newline. Returns an exit code after saying what is wrong: file, line, byte.
int lines_read(const char *path, lines *l);
// Whether line `number` of what is called `name` is valid UTF-8: an exit code, after saying so.
int check_line(const char *name, size_t number, mh_text line);
// A text's first line without the mark that some programs begin a file with, U+FEFF.
mh_text skip_byte_order_mark(mh_text line);
void lines_free(lines *l); // fine if it was never read

#endif
