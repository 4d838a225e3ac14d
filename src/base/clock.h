// SPDX-License-Identifier: MIT
#ifndef MH_BASE_CLOCK_H
#define MH_BASE_CLOCK_H

// Seconds since some fixed moment, never going back.
double mh_clock_seconds(void);

#endif
