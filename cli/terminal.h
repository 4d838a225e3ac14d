// SPDX-License-Identifier: MIT
// Properties of the terminal of standard output or standard error.
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <multihead/text.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// The columns of a descriptor's terminal, or else $COLUMNS; 0 if neither is known.
size_t terminal_columns(int descriptor);

// The same; 80 if they are not known.
size_t terminal_width(int descriptor);

// Whether $NO_COLOR is set and not empty (no-color.org).
bool colours_refused(void);

// Whether standard output's terminal announces 24-bit colours, and $NO_COLOR is not set.
bool terminal_has_colours(void);

// Writes whole characters of UTF-8. On a terminal, control characters but newline and tab, which a
// model may generate, are question marks.
void terminal_put(FILE *to, mh_text text);

#endif
