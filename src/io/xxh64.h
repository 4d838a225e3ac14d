// SPDX-License-Identifier: MIT
// XXH64, the 64-bit hash of xxHash: four lanes of one multiplication each keep up with memory, and
// every step is a bijection of its word, so that one changed bit changes its lane.
#ifndef MH_IO_XXH64_H
#define MH_IO_XXH64_H

#include <stddef.h>
#include <stdint.h>

enum { MH_XXH64_STRIPE = 32 };

typedef struct mh_xxh64 {
    uint64_t seed, size;
    uint64_t lane[4];
} mh_xxh64;

mh_xxh64 mh_xxh64_begin(uint64_t seed);

// Adds bytes, of which there are a multiple of MH_XXH64_STRIPE.
void mh_xxh64_add(mh_xxh64 *hash, const void *bytes, size_t size);

// Adds the last bytes, any number of them, and returns the hash.
uint64_t mh_xxh64_end(mh_xxh64 *hash, const void *bytes, size_t size);

// All of that in one call.
uint64_t mh_xxh64_of(uint64_t seed, const void *bytes, size_t size);

#endif
