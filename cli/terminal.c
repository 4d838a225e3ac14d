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

// C0, DEL, and C1, which is c2 80 to c2 9f.
static void put_printable(FILE *to, mh_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char c = (unsigned char)text.bytes[i];
        const unsigned char next = i + 1 < text.size ? (unsigned char)text.bytes[i + 1] : 0;
        const bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        putc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || c1 ? '?' : c, to);
        i += c1;
    }
}

void terminal_put(FILE *to, mh_text text)
{
    if (isatty(fileno(to)))
        put_printable(to, text);
    else
        fwrite(text.bytes, 1, text.size, to);
}
