// SPDX-License-Identifier: MIT
// The terminal; see terminal.h.
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FEWEST_COLUMNS = 20, MOST_COLUMNS = 10000 };

size_t terminal_columns(int descriptor)
{
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= FEWEST_COLUMNS)
        return size.ws_col;
    const char *text = getenv("COLUMNS");
    char *end;
    const long columns = text ? strtol(text, &end, 10) : 0;
    return columns >= FEWEST_COLUMNS && columns <= MOST_COLUMNS && !*end ? (size_t)columns : 0;
}

size_t terminal_width(int descriptor)
{
    const size_t columns = terminal_columns(descriptor);
    return columns ? columns : 80;
}

bool colours_refused(void)
{
    const char *refused = getenv("NO_COLOR");
    return refused && *refused;
}

bool terminal_has_colours(void)
{
    const char *kind = getenv("COLORTERM");
    if (colours_refused() || !isatty(STDOUT_FILENO) || !kind)
        return false;
    return strcmp(kind, "truecolor") == 0 || strcmp(kind, "24bit") == 0;
}
