// SPDX-License-Identifier: MIT
// How steps are shown: a line each for people, or one JSON object each for programs. Lines are
// printed as the steps complete: a large layer takes a while.
#include "steps.h"
#include "terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TIME_WIDTH = 10, FORMULA_WIDTH = 24 }; // columns; of a formula the least to wrap it in

const char *steps_shape_text(const mh_tensor *t, bool json, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, json ? "[" : "(");
    for (int d = 0; d < t->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", d ? ", " : "", t->shape[d]);
    if (used < size)
        snprintf(text + used, size - used, json ? "]" : ")");
    return text;
}

const char *steps_time_text(double seconds, char *text, size_t size)
{
    if (isnan(seconds))
        snprintf(text, size, "%s", "");
    else if (seconds < 0)
        snprintf(text, size, "a view");
    else if (seconds < 1e-3)
        snprintf(text, size, "%.1f us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, size, "%.1f ms", 1e3 * seconds);
    else
        snprintf(text, size, "%.2f s", seconds);
    return text;
}

static int prefix_width(const step_table *t)
{
    return t->step_width + t->tensor_width + t->shape_width + 3 +
           (t->no_times ? 0 : TIME_WIDTH + 1);
}

void steps_head(step_table *t)
{
    if (t->json)
        return;
    t->width = terminal_columns(STDOUT_FILENO);
    if (t->width > 0 && t->width < (size_t)t->line_width)
        t->no_times = true;
    printf("%-*s %-*s %-*s %swhat happens\n", t->step_width, "step", t->tensor_width, "tensor",
           t->shape_width, "shape", t->no_times ? "" : "time       ");
}

// Words below each other from `column` on, where the cursor is one short of it.
static void print_wrapped(const char *words, size_t column, size_t width)
{
    size_t at = column;
    while (*words) {
        const int size = (int)strcspn(words, " ");
        if (at > column && at + (size_t)size > width) {
            printf("\n%*s", (int)column - 1, "");
            at = column;
        }
        printf(" %.*s", size, words);
        at += (size_t)size + 1;
        words += size + (words[size] == ' ');
    }
    putchar('\n');
}

void steps_line(step_table *t, const char *step, const char *name, const mh_tensor *tensor,
                double seconds, const char *formula)
{
    char shape[128], time[32];
    const bool first = !t->shown_step, again = !first && strcmp(t->shown_step, step) == 0;
    t->shown_step = step;
    steps_shape_text(tensor, t->json, shape, sizeof shape);
    if (t->json) {
        printf("%s{\"step\": \"%s\", \"tensor\": \"%s\", \"shape\": %s, \"formula\": \"%s\", ",
               first ? "" : ", ", step + strspn(step, " "), name, shape, formula);
        if (!t->no_times && seconds >= 0)
            printf("\"seconds\": %.9f, ", seconds);
        printf("\"view\": %s}", seconds < 0 ? "true" : "false");
        return;
    }
    const size_t column = (size_t)prefix_width(t);
    const bool narrow = t->width > 0 && column + strlen(formula) > t->width;
    const bool wrapped = narrow && column + FORMULA_WIDTH <= t->width;
    printf("%-*s %-*s %-*s", t->step_width, again ? "" : step, t->tensor_width, name,
           narrow && !wrapped && t->no_times ? 0 : t->shape_width, shape);
    if (!t->no_times)
        printf(" %-*s", TIME_WIDTH, steps_time_text(seconds, time, sizeof time));
    if (wrapped)
        print_wrapped(formula, column, t->width);
    else
        printf(narrow ? "\n    %s\n" : " %s\n", formula);
    fflush(stdout);
}

void steps_row(bool json, const float *row, ptrdiff_t stride, size_t count)
{
    const size_t shown = count < STEPS_VALUES ? count : STEPS_VALUES;
    printf(json ? "[" : "");
    for (size_t i = 0; i < shown; i++) {
        const double x = (double)row[(ptrdiff_t)i * stride];
        if (!json)
            printf(" %7.3f", x);
        else
            printf(isfinite(x) ? "%s%.6g" : "%snull", i ? ", " : "", x);
    }
    printf("%s", json ? "]" : "");
    if (!json && shown < count)
        printf(" ... (%zu)", count);
}
