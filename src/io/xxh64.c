// SPDX-License-Identifier: MIT
// XXH64 as specified; see xxh64.h.
//
//     stripe of 32 bytes   [word 0][word 1][word 2][word 3]     each to its lane
//     end                  lanes merged, then the rest by 8, 4 and 1 bytes, then the bits mixed
#include "io/xxh64.h"

#include <string.h>

#define PRIME1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME3 UINT64_C(0x165667B19E3779F9)
#define PRIME4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t xxh64_rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t xxh64_step(uint64_t lane, uint64_t word)
{
    return xxh64_rotate(lane + word * PRIME2, 31) * PRIME1;
}

static uint64_t xxh64_merge(uint64_t hash, uint64_t lane)
{
    return (hash ^ xxh64_step(0, lane)) * PRIME1 + PRIME4;
}

static uint64_t load64(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t load32(const unsigned char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

mh_xxh64 mh_xxh64_begin(uint64_t seed)
{
    return (mh_xxh64){.seed = seed,
                      .lane = {seed + PRIME1 + PRIME2, seed + PRIME2, seed, seed - PRIME1}};
}

void mh_xxh64_add(mh_xxh64 *hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t a = hash->lane[0], b = hash->lane[1], c = hash->lane[2], d = hash->lane[3];
    for (size_t i = 0; i < size; i += MH_XXH64_STRIPE, at += MH_XXH64_STRIPE) {
        a = xxh64_step(a, load64(at));
        b = xxh64_step(b, load64(at + 8));
        c = xxh64_step(c, load64(at + 16));
        d = xxh64_step(d, load64(at + 24));
    }
    hash->lane[0] = a, hash->lane[1] = b, hash->lane[2] = c, hash->lane[3] = d;
    hash->size += size;
}

static uint64_t merge_lanes(const mh_xxh64 *hash)
{
    const uint64_t *lane = hash->lane;
    if (hash->size < MH_XXH64_STRIPE)
        return hash->seed + PRIME5;
    uint64_t merged = xxh64_rotate(lane[0], 1) + xxh64_rotate(lane[1], 7) +
                      xxh64_rotate(lane[2], 12) + xxh64_rotate(lane[3], 18);
    for (int i = 0; i < 4; i++)
        merged = xxh64_merge(merged, lane[i]);
    return merged;
}

uint64_t mh_xxh64_end(mh_xxh64 *hash, const void *bytes, size_t size)
{
    const size_t stripes = size - size % MH_XXH64_STRIPE;
    const unsigned char *at = bytes;
    if (stripes) // without data `bytes` may be NULL, to which nothing may be added
        at += stripes;
    mh_xxh64_add(hash, bytes, stripes);
    uint64_t h = merge_lanes(hash) + hash->size + (size - stripes);
    size_t left = size - stripes;
    for (; left >= 8; left -= 8, at += 8)
        h = xxh64_rotate(h ^ xxh64_step(0, load64(at)), 27) * PRIME1 + PRIME4;
    for (; left >= 4; left -= 4, at += 4)
        h = xxh64_rotate(h ^ load32(at) * PRIME1, 23) * PRIME2 + PRIME3;
    for (; left > 0; left--, at++)
        h = xxh64_rotate(h ^ *at * PRIME5, 11) * PRIME1;
    h = (h ^ h >> 33) * PRIME2;
    h = (h ^ h >> 29) * PRIME3;
    return h ^ h >> 32;
}

uint64_t mh_xxh64_of(uint64_t seed, const void *bytes, size_t size)
{
    mh_xxh64 hash = mh_xxh64_begin(seed);
    return mh_xxh64_end(&hash, bytes, size);
}
