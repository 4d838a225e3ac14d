// SPDX-License-Identifier: MIT
// Which rank holds which positions of a sequence. In zigzag order, with n = 3 ranks:
//
//     chunk   0  1  2  3  4  5 | 6  7  8  9 10 11 | 12 ..
//     rank    0  1  2  2  1  0 | 0  1  2  2  1  0 |  0 ..
//
// A chunk is a multiple of MH_SHARD_UNIT positions, the unit that messages and the engine count in:
// a KV split of keys, eight blocks of queries. Only the last unit of a sequence may be shorter, and
// it is the last of its rank.
#ifndef MH_OPS_SHARDING_H
#define MH_OPS_SHARDING_H

#include "base/size_math.h"
#include <multihead/sharded.h>

typedef struct mh_shards {
    size_t length, ranks;
    size_t chunk;  // positions
    size_t period; // chunks after which the deal repeats
} mh_shards;

// Resolves a checked sharding for one length.
mh_shards mh_shards_of(const mh_sharding *sharding, size_t length, size_t ranks);

static inline size_t mh_shards_units(const mh_shards *s)
{
    return (s->length + MH_SHARD_UNIT - 1) / MH_SHARD_UNIT;
}

// The positions of unit i, and the rank that holds it.
static inline size_t mh_shards_unit_rows(const mh_shards *s, size_t i)
{
    return mh_smaller(s->length - i * MH_SHARD_UNIT, MH_SHARD_UNIT);
}
size_t mh_shards_owner(const mh_shards *shards, size_t unit);

// What a rank holds: its number of rows and of units; the first position of row `row`.
size_t mh_shards_rows(const mh_shards *shards, size_t rank);
static inline size_t mh_shards_held(const mh_shards *s, size_t rank)
{
    return (mh_shards_rows(s, rank) + MH_SHARD_UNIT - 1) / MH_SHARD_UNIT;
}
size_t mh_shards_position(const mh_shards *shards, size_t rank, size_t row);

// The row in which a rank that holds unit i has its first position.
size_t mh_shards_row(const mh_shards *shards, size_t unit);

#endif
