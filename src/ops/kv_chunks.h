// SPDX-License-Identifier: MIT
// The chunks of a cache: memory that sequences take, share, exchange for more and leave; kv_tiles.h
// draws them. kv_cache.c decides when.
//
// A chunk is one tile of each head: beams copy a chunk when they part. Sentences have few keys, so
// a sequence's first chunk starts with 16 places and is exchanged for one of 32 and one of 64: 64
// at once took 7 times the memory that was in use, and more time to find it than to read it.
//
// Memory comes in slabs of several chunks, by a quarter more each time: those of 2 MB and more lie
// on huge pages, without which finding pages takes up to half the time of decoding.
#ifndef MH_OPS_KV_CHUNKS_H
#define MH_OPS_KV_CHUNKS_H

#include "ops/kv_form.h"

enum { MH_KV_CHUNK = MH_KEY_TILE, MH_KV_CHUNK_SIZES = 3 };

typedef struct mh_kv_chunk {
    size_t references;
    struct mh_kv_chunk *next; // of the spare ones
    size_t places;            // there are
    size_t used;              // that were ever written
    bool *finite;             // (heads); behind them the tiles of all heads
} mh_kv_chunk;

typedef struct mh_kv_slab {
    struct mh_kv_slab *next;
    size_t bytes;
} mh_kv_slab;

typedef struct mh_kv_sequence {
    mh_kv_chunk **chunks; // NULL where forgotten
    size_t count, capacity;
    size_t forgotten; // the first so many
} mh_kv_sequence;

struct mh_kv_cache {
    mh_kv_cache_options options;
    mh_allocator allocator;
    mh_kv_form form;
    size_t held;                           // bytes of all chunks in use
    mh_kv_chunk *spare[MH_KV_CHUNK_SIZES]; // left by sequences, for the next: beams part and end at
                                           // every step
    mh_kv_slab *slabs;
    size_t slab_bytes; // of all
    mh_kv_sequence *sequences;
    int64_t *lengths;
};

// Memory of the cache's own, whatever context it is used with.
void *mh_kv_allocate(const mh_kv_cache *cache, size_t bytes);
void mh_kv_release(const mh_kv_cache *cache, void *memory, size_t bytes); // NULL is fine

// A head's tile in a chunk of so many places, which is not looked at itself.
void *mh_kv_tile_at(const mh_kv_cache *cache, const mh_kv_chunk *chunk, size_t places, size_t head);

// Sequence b gets chunks of its own for its next `count` places. False if there is no memory; what
// it holds has not changed then.
bool mh_kv_make_room(mh_kv_cache *cache, size_t b, size_t count);

// Leaves the chunks of sequence b that lie before the window.
void mh_kv_forget(mh_kv_cache *cache, size_t b);

// Leaves the chunks of a sequence from number `kept` on.
void mh_kv_cut(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t kept);

// A list of the same chunks, each counted once more; false if there is no memory.
bool mh_kv_share(mh_kv_cache *cache, const mh_kv_sequence *from, mh_kv_sequence *to);

// Leaves all chunks and the list.
void mh_kv_empty(mh_kv_cache *cache, mh_kv_sequence *sequence);

// Frees all chunks.
void mh_kv_free_slabs(mh_kv_cache *cache);

#endif
