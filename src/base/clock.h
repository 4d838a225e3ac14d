// SPDX-License-Identifier: MIT
// The monotonic clock: for measuring, never for results.
#ifndef MH_BASE_CLOCK_H
#define MH_BASE_CLOCK_H

#include <time.h>

// Seconds since an arbitrary fixed time; monotonic.
static inline double mh_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
