// SPDX-License-Identifier: MIT
// Unchecked arithmetic on sizes that are known to fit; overflow.h is for the others.
#ifndef MH_BASE_SIZE_MATH_H
#define MH_BASE_SIZE_MATH_H

#include <stddef.h>

static inline size_t mh_smaller(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t mh_larger(size_t a, size_t b) { return a > b ? a : b; }

// The next size of memory that is kept and grows to `needed`: at least a quarter more than before,
// because a cache that grows token by token, or batches that differ a little, would otherwise
// reallocate every time, and fresh memory is slow.
static inline size_t mh_grown_size(size_t size, size_t needed)
{
    return mh_larger(size + size / 4, needed);
}

static inline size_t mh_round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

#endif
