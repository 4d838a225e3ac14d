// SPDX-License-Identifier: MIT
// What is known of the terminal behind standard output or standard error.
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// The columns of the one behind a descriptor; 80 if there is none.
size_t terminal_width(int descriptor);

// Whether $NO_COLOR is there and not empty (no-color.org).
bool colours_refused(void);

// Whether standard output's announces 24-bit colours, and $NO_COLOR does not object.
bool terminal_has_colours(void);

#endif
