// SPDX-License-Identifier: MIT
// The monotonic clock: for measuring, never for results.
#include "base/clock.h"
#include <time.h>

double mh_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
