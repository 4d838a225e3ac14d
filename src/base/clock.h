// SPDX-License-Identifier: MIT
#ifndef MH_BASE_CLOCK_H
#define MH_BASE_CLOCK_H

#include <multihead/base.h>

// Seconds since some fixed moment, never going back.
MH_API double mh_clock_seconds(void);

#endif
