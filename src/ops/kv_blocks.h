// SPDX-License-Identifier: MIT
// The blocks of a cache: memory that sequences take, share, exchange for more and leave; kv_tiles.h
// draws them. kv_cache.c decides when.
//
// A block is one tile of each head: beams copy a block when they part. Sentences have few keys, so
// a sequence's first block starts with 16 slots and is exchanged for one of 32 and one of 64: 64
// at once took 7 times the memory that was in use, and more time to find it than to read it.
//
// Memory comes in slabs of several blocks, by a quarter more each time: those of 2 MB and more lie
// on huge pages, without which finding pages takes up to half the time of decoding.
#ifndef MH_OPS_KV_BLOCKS_H
#define MH_OPS_KV_BLOCKS_H

#include "ops/kv_layout.h"

enum { MH_KV_BLOCK = MH_KEY_TILE, MH_KV_BLOCK_SIZES = 3 };

typedef struct mh_kv_block {
    size_t references;
    struct mh_kv_block *next; // of the spare ones
    size_t slots;             // there are
    size_t used;              // that were ever written
    bool *finite;             // (heads); behind them the tiles of all heads
} mh_kv_block;

typedef struct mh_kv_slab {
    struct mh_kv_slab *next;
    size_t bytes;
} mh_kv_slab;

typedef struct mh_kv_sequence {
    mh_kv_block **blocks; // NULL where forgotten
    size_t count, capacity;
    size_t forgotten; // the first so many
} mh_kv_sequence;

struct mh_kv_cache {
    mh_kv_cache_options options;
    mh_allocator allocator;
    mh_kv_layout layout;
    size_t held;                           // bytes of all blocks in use
    mh_kv_block *spare[MH_KV_BLOCK_SIZES]; // left by sequences, for the next: beams part and end at
                                           // every step
    mh_kv_slab *slabs;
    size_t slab_bytes; // of all
    mh_kv_sequence *sequences;
    int64_t *lengths;
};

// Memory of the cache's own, whatever context it is used with.
void *mh_kv_allocate(const mh_kv_cache *cache, size_t bytes);
void mh_kv_release(const mh_kv_cache *cache, void *memory, size_t bytes); // NULL is fine

// A head's tile in a block of so many slots, which is not looked at itself.
void *mh_kv_tile_at(const mh_kv_cache *cache, const mh_kv_block *block, size_t slots, size_t head);

// Sequence b gets blocks of its own for its next `count` slots. False if there is no memory; what
// it holds has not changed then.
bool mh_kv_make_room(mh_kv_cache *cache, size_t b, size_t count);

// Leaves the blocks of sequence b that lie before the window.
void mh_kv_forget(mh_kv_cache *cache, size_t b);

// Leaves the blocks of a sequence from number `kept` on.
void mh_kv_cut(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t kept);

// A list of the same blocks, each counted once more; false if there is no memory.
bool mh_kv_share(mh_kv_cache *cache, const mh_kv_sequence *from, mh_kv_sequence *to);

// Leaves all blocks and the list.
void mh_kv_empty(mh_kv_cache *cache, mh_kv_sequence *sequence);

// Frees all blocks.
void mh_kv_free_slabs(mh_kv_cache *cache);

#endif
