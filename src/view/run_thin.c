// SPDX-License-Identifier: MIT
// Downsampling of a series; see run_log_read.h.
#include "view/run_log_read.h"

#include <string.h>

const mh_run_point *mh_run_lowest(const mh_run_series *s)
{
    const mh_run_point *lowest = s->points;
    for (size_t i = 1; i < s->count; i++)
        if (s->points[i].value < lowest->value)
            lowest = &s->points[i];
    return lowest;
}

const mh_run_point *mh_run_highest(const mh_run_series *s)
{
    const mh_run_point *highest = s->points;
    for (size_t i = 1; i < s->count; i++)
        if (s->points[i].value > highest->value)
            highest = &s->points[i];
    return highest;
}

const mh_run_point *mh_run_last(const mh_run_series *s) { return &s->points[s->count - 1]; }

size_t mh_run_thin(const mh_run_series *s, size_t most, mh_run_point *to)
{
    if (s->count <= most) {
        if (s->count != 0)
            memcpy(to, s->points, s->count * sizeof *to);
        return s->count;
    }
    const size_t inner = s->count - 2, stretches = (most - 2) / 2;
    size_t count = 0;
    to[count++] = s->points[0];
    for (size_t i = 0; i < stretches; i++) { // at most 2^22 points: the products fit
        size_t begin = 1 + inner * i / stretches, end = 1 + inner * (i + 1) / stretches;
        mh_run_series interval = {.points = s->points + begin, .count = end - begin};
        const mh_run_point *a = mh_run_lowest(&interval), *b = mh_run_highest(&interval);
        to[count++] = a < b ? *a : *b;
        if (a != b)
            to[count++] = a < b ? *b : *a;
    }
    to[count++] = *mh_run_last(s);
    return count;
}
