// SPDX-License-Identifier: MIT
// Philox4x32-10, a counter-based generator: number i is a function of the counter, whatever thread
// computes it and in whatever order.
#ifndef MH_BASE_PHILOX_H
#define MH_BASE_PHILOX_H

#include <multihead/base.h>

// out = philox(counter, key), ten rounds.
MH_API void mh_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

// Fills n floats uniform in [low, high) from (seed, stream, element index).
MH_API void mh_random_uniform(uint64_t seed, uint64_t stream, float low, float high, size_t n,
                              float *out);

#endif
