// SPDX-License-Identifier: MIT
// One line of progress on stderr: only on a terminal, never with -q, without colour where
// $NO_COLOR asks for that. Anything else may be printed after progress_clear().
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

void progress_show(size_t done, size_t total, const char *what);

// Whether there is such a line at all.
bool progress_wanted(void);

// A line of one's own: a bar that is `part` (0 .. 1) full, and text as wide as the terminal.
void progress_line(double part, const char *text);
void progress_clear(void);

#endif
