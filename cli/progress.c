// SPDX-License-Identifier: MIT
// The progress bar; see progress.h. The command's own variables of the environment ($NO_COLOR,
// $TERM) are read here and nowhere else.
#include "progress.h"
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

static bool shown;

static bool wanted(void)
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

void progress_show(size_t done, size_t total, const char *what)
{
    if (!wanted() || total == 0)
        return;
    size_t filled = done * BAR_WIDTH / total;
    bool colour = colour_wanted();
    fprintf(stderr, "\r%s", colour ? "\033[36m" : "");
    for (size_t i = 0; i < BAR_WIDTH; i++)
        fputs(i < filled ? "#" : "-", stderr);
    fprintf(stderr, "%s %zu/%zu %.40s\033[K", colour ? "\033[0m" : "", done, total, what);
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
