// SPDX-License-Identifier: MIT
// The line of progress; see progress.h.
#include "progress.h"
#include "messages.h"
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, SHORT_WIDTH = 12 };

bool progress_wanted(void)
{
    const char *terminal = getenv("TERM");
    bool dumb = !terminal || strcmp(terminal, "dumb") == 0;
    return !is_quiet() && !dumb && isatty(STDERR_FILENO);
}

static void show_bar(size_t filled, size_t width)
{
    const bool colour = !colours_refused();
    fputs(colour ? "\033[36m" : "", stderr);
    for (size_t i = 0; i < width; i++)
        fputs(i < filled ? "#" : "-", stderr);
    fputs(colour ? "\033[0m " : " ", stderr);
}

// A bar of `width`, 0 for none, and as much of the text as fits next to it.
static void show_line(double part, size_t width, const char *text)
{
    if (!progress_wanted())
        return;
    const int room = (int)terminal_width(STDERR_FILENO) - (int)width - 2;
    fputs("\r", stderr);
    if (width)
        show_bar((size_t)(part * (double)width), width);
    fprintf(stderr, "%.*s\033[K", room > 0 ? room : 0, text);
    fflush(stderr);
    set_live_line(true);
}

void progress_show(size_t done, size_t total, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%zu/%zu %s", done, total, what);
    if (total)
        show_line((double)done / (double)total, BAR_WIDTH, text);
}

void progress_line(double part, const char *text) { show_line(part, SHORT_WIDTH, text); }
void progress_text(const char *text) { show_line(0, 0, text); }
void progress_clear(void) { erase_live_line(); }
