// SPDX-License-Identifier: MIT
// What is known of the terminal behind standard output.
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Its columns; 80 if it is none.
size_t terminal_width(void);

// Whether it announces 24-bit colours, and $NO_COLOR does not object.
bool terminal_has_colours(void);

#endif
