// SPDX-License-Identifier: MIT
#ifndef MH_BASE_CLOCK_H
#define MH_BASE_CLOCK_H

#include <multihead/base.h>

// Seconds since an arbitrary fixed time; monotonic.
MH_API double mh_clock_seconds(void);

#endif
