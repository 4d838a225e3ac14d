// SPDX-License-Identifier: MIT
// One line of progress on stderr, as wide as the terminal: only on a terminal, never with -q,
// without colour if $NO_COLOR is set. A message erases it; anything else may be printed after
// progress_clear().
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

// Whether there is such a line at all.
bool progress_wanted(void);

// A bar and "DONE/TOTAL WHAT".
void progress_show(size_t done, size_t total, const char *what);

// A custom line: a bar that is `part` (0 .. 1) full, and text.
void progress_line(double part, const char *text);

// Text only, if the progress is unknown.
void progress_text(const char *text);

void progress_clear(void);

#endif
