// SPDX-License-Identifier: MIT
// Unchecked arithmetic on sizes that are known to fit; overflow.h is for the others.
#ifndef MH_BASE_SIZE_MATH_H
#define MH_BASE_SIZE_MATH_H

#include <stddef.h>

static inline size_t mh_smaller(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t mh_larger(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t mh_round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

#endif
