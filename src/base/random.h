// SPDX-License-Identifier: MIT
// Arrays of random numbers, as initial values of parameters.
#ifndef MH_BASE_RANDOM_H
#define MH_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

// Fills n floats uniform in [low, high) from (seed, stream, element index), see random.c.
void mh_random_uniform(uint64_t seed, uint64_t stream, float low, float high, size_t n, float *out);

#endif
