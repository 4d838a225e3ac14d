// SPDX-License-Identifier: MIT
#include "ops/sharded/sharding.h"

#include "base/sized_struct.h"

// Keys pass every rank in key order, so queries of all ranks should be among those that see the
// key at hand, early and late. With as many rounds of the zigzag, 2 ROUNDS / (2 ROUNDS + 1) of the
// time is computed if the ranks keep pace with each other.
enum { ROUNDS = 8 };

mh_shards mh_shards_of(const mh_sharding *sharding, size_t length, size_t ranks)
{
    mh_shards s = {length, ranks, sharding->chunk, 2 * ranks};
    const size_t units = mh_shards_units(&s);
    if (sharding->order == MH_SHARD_CONTIGUOUS) {
        s.period = ranks;
        s.chunk = mh_larger((units + ranks - 1) / ranks, 1) * MH_SHARD_UNIT;
    } else if (s.chunk == 0) {
        s.chunk = mh_larger(units / (2 * ranks * ROUNDS), 1) * MH_SHARD_UNIT;
    }
    return s;
}

static size_t rank_of_chunk(const mh_shards *s, size_t chunk)
{
    const size_t i = chunk % s->period;
    return i < s->ranks ? i : s->period - 1 - i;
}

size_t mh_shards_owner(const mh_shards *s, size_t unit)
{
    return rank_of_chunk(s, unit * MH_SHARD_UNIT / s->chunk);
}

size_t mh_shards_rows(const mh_shards *s, size_t rank)
{
    const size_t chunks = (s->length + s->chunk - 1) / s->chunk;
    const size_t rounds = chunks / s->period, rest = chunks % s->period;
    const bool twice = s->period > s->ranks;
    size_t held = rounds * (twice ? 2 : 1) + (rank < rest) + (twice && s->period - 1 - rank < rest);
    if (held > 0 && rank_of_chunk(s, chunks - 1) == rank)
        return (held - 1) * s->chunk + s->length - (chunks - 1) * s->chunk;
    return held * s->chunk;
}

size_t mh_shards_position(const mh_shards *s, size_t rank, size_t row)
{
    size_t i = row / s->chunk, chunk;
    if (s->period > s->ranks)
        chunk = i / 2 * s->period + (i % 2 ? s->period - 1 - rank : rank);
    else
        chunk = i * s->period + rank;
    return chunk * s->chunk + row % s->chunk;
}

size_t mh_shards_row(const mh_shards *s, size_t unit)
{
    const size_t position = unit * MH_SHARD_UNIT, chunk = position / s->chunk;
    const size_t before = s->period > s->ranks
                              ? chunk / s->period * 2 + (chunk % s->period >= s->ranks)
                              : chunk / s->period;
    return before * s->chunk + position % s->chunk;
}

// ---- public -------------------------------------------------------------------------------------

static bool resolve(const mh_sharding *given, size_t length, size_t ranks, size_t rank,
                    mh_shards *shards)
{
    mh_sharding own = mh_sharding_default();
    if (!given || rank >= ranks || ranks > SIZE_MAX / 64)
        return false;
    const size_t size = mh_struct_size(given);
    memcpy(&own, given, mh_smaller(size, sizeof own));
    if ((unsigned)own.order > MH_SHARD_CONTIGUOUS || own.chunk % MH_SHARD_UNIT ||
        (own.chunk && own.order == MH_SHARD_CONTIGUOUS) || length > SIZE_MAX / 4 ||
        own.chunk > SIZE_MAX / 4)
        return false;
    *shards = mh_shards_of(&own, length, ranks);
    return true;
}

size_t mh_shard_length(const mh_sharding *sharding, size_t length, size_t ranks, size_t rank)
{
    mh_shards shards;
    return resolve(sharding, length, ranks, rank, &shards) ? mh_shards_rows(&shards, rank) : 0;
}

size_t mh_shard_position(const mh_sharding *sharding, size_t length, size_t ranks, size_t rank,
                         size_t row)
{
    mh_shards shards;
    if (!resolve(sharding, length, ranks, rank, &shards) || row >= mh_shards_rows(&shards, rank))
        return length;
    return mh_shards_position(&shards, rank, row);
}
