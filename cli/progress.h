// SPDX-License-Identifier: MIT
// One line of progress on stderr: only on a terminal, never with -q, without colour where
// $NO_COLOR asks for that. Anything else may be printed after progress_clear().
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stddef.h>

void progress_show(size_t done, size_t total, const char *what);
void progress_clear(void);

#endif
