// SPDX-License-Identifier: MIT
// The KV blocks of a cache: allocation, sharing, copy on write, growth and release, as decided by
// kv_cache.c; kv_tiles.h draws them.
//
// A block is one tile of each head, and is copied when beams diverge. Sentences have few keys, so a
// sequence's first block starts with 16 slots and is replaced by one of 32, then of 64: 64 at once
// took 7 times the memory in use, and more time for address translation than for reading.
//
// Memory comes in slabs of several blocks, each a quarter of the total so far: those of 2 MB and
// more lie on huge pages, without which TLB misses take up to half the time of decoding.
#ifndef MH_OPS_KV_BLOCKS_H
#define MH_OPS_KV_BLOCKS_H

#include "ops/kv_layout.h"

enum { MH_KV_BLOCK = MH_KEY_TILE, MH_KV_BLOCK_SIZES = 3 };

typedef struct mh_kv_block {
    size_t references;
    struct mh_kv_block *next; // in the list of spare blocks
    size_t slots;             // capacity
    size_t used;              // slots that were ever written
    bool *finite;             // (heads); followed by the tiles of all heads
} mh_kv_block;

typedef struct mh_kv_slab {
    struct mh_kv_slab *next;
    size_t bytes;
} mh_kv_slab;

typedef struct mh_kv_sequence {
    mh_kv_block **blocks; // NULL where forgotten
    size_t count, capacity;
    size_t forgotten; // number of leading blocks that were released
} mh_kv_sequence;

struct mh_kv_cache {
    mh_kv_cache_options options;
    mh_allocator allocator;
    mh_kv_layout layout;
    size_t held;                           // bytes of all blocks in use
    mh_kv_block *spare[MH_KV_BLOCK_SIZES]; // released, for reuse: beams diverge and end at every
                                           // step
    mh_kv_slab *slabs;
    size_t slab_bytes; // total
    mh_kv_sequence *sequences;
    int64_t *lengths;
};

// Memory from the cache's own allocator, independent of the calling context.
void *mh_kv_allocate(const mh_kv_cache *cache, size_t bytes);
void mh_kv_release(const mh_kv_cache *cache, void *memory, size_t bytes); // NULL is fine

// The address of a head's tile in a block of `slots` slots; does not read the block.
void *mh_kv_tile_at(const mh_kv_cache *cache, const mh_kv_block *block, size_t slots, size_t head);

// Makes room for the next `count` tokens of sequence b in blocks that it does not share (copy on
// write). False if out of memory; the contents are unchanged then.
bool mh_kv_make_room(mh_kv_cache *cache, size_t b, size_t count);

// Releases the blocks of sequence b that lie before the window.
void mh_kv_forget(mh_kv_cache *cache, size_t b);

// Releases the blocks of a sequence from number `kept` on.
void mh_kv_cut(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t kept);

// Makes `to` a list of the same blocks, with one more reference each; false if out of memory.
bool mh_kv_share(mh_kv_cache *cache, const mh_kv_sequence *from, mh_kv_sequence *to);

// Releases all blocks and the list.
void mh_kv_empty(mh_kv_cache *cache, mh_kv_sequence *sequence);

// Frees the memory of all blocks.
void mh_kv_free_slabs(mh_kv_cache *cache);

#endif
