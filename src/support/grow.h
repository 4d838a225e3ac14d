// SPDX-License-Identifier: MIT
// Growing arrays in a context's memory, and the hash used by all tables of text.
#ifndef MH_SUPPORT_GROW_H
#define MH_SUPPORT_GROW_H

#include "base/overflow.h"

#include <multihead/base.h>

// Makes `*pointer` (any T *, as void *) hold at least `needed` elements; the contents are kept.
// False with a message, and nothing changed, if out of memory.
bool mh_grow(mh_context *context, void *pointer, size_t *capacity, size_t needed, size_t element);

// Frees such an array and makes it empty.
void mh_shrink(mh_context *context, void *pointer, size_t *capacity, size_t element);

static inline uint64_t mh_mix(uint64_t x) // the finaliser of splitmix64
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

// Seeded: texts crafted to collide do so under one seed only.
static inline uint64_t mh_hash_bytes(uint64_t seed, const char *bytes, size_t size)
{
    uint64_t hash = seed ^ size * UINT64_C(0x9E3779B97F4A7C15), word;
    for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = mh_mix(hash ^ word) + UINT64_C(0x9E3779B97F4A7C15);
    }
    word = 0;
    if (size > 0)
        memcpy(&word, bytes, size);
    return mh_mix(hash ^ word);
}

#endif
