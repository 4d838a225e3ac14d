// SPDX-License-Identifier: MIT
// The progress bar; see progress.h. The command's own variables of the environment ($NO_COLOR,
// $TERM) are read here and nowhere else.
#include "progress.h"
#include "messages.h"
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, SHORT_WIDTH = 12 };

static bool shown;

bool progress_wanted(void)
{
    const char *terminal = getenv("TERM");
    bool dumb = !terminal || strcmp(terminal, "dumb") == 0;
    return !is_quiet() && !dumb && isatty(STDERR_FILENO);
}

static bool colour_wanted(void)
{
    const char *no_color = getenv("NO_COLOR"); // no-color.org: present and not empty
    return !no_color || !*no_color;
}

static void show_bar(size_t filled, size_t width)
{
    const bool colour = colour_wanted();
    fprintf(stderr, "\r%s", colour ? "\033[36m" : "");
    for (size_t i = 0; i < width; i++)
        fputs(i < filled ? "#" : "-", stderr);
    fputs(colour ? "\033[0m " : " ", stderr);
}

void progress_show(size_t done, size_t total, const char *what)
{
    if (!progress_wanted() || total == 0)
        return;
    show_bar(done * BAR_WIDTH / total, BAR_WIDTH);
    fprintf(stderr, "%zu/%zu %.40s\033[K", done, total, what);
    fflush(stderr);
    shown = true;
}

void progress_line(double part, const char *text)
{
    if (!progress_wanted())
        return;
    const int room = (int)terminal_width(STDERR_FILENO) - SHORT_WIDTH - 2;
    show_bar((size_t)(part * SHORT_WIDTH), SHORT_WIDTH);
    fprintf(stderr, "%.*s\033[K", room > 0 ? room : 0, text);
    fflush(stderr);
    shown = true;
}

void progress_clear(void)
{
    if (!shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    shown = false;
}
