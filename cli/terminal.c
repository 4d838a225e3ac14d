// SPDX-License-Identifier: MIT
// The terminal; see terminal.h.
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t terminal_width(int descriptor)
{
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
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
