// SPDX-License-Identifier: MIT
// The KV blocks of a cache; see kv_blocks.h.
#include "base/size_math.h"
#include "ops/cache/kv_internal.h"
#include <string.h>

void *mh_kv_allocate(const mh_kv_cache *cache, size_t bytes)
{
    return cache->allocator.alloc(cache->allocator.user, bytes, 64);
}

void mh_kv_release(const mh_kv_cache *cache, void *memory, size_t bytes)
{
    if (memory)
        cache->allocator.release(cache->allocator.user, memory, bytes);
}

static size_t header_bytes(const mh_kv_cache *cache)
{
    size_t bytes = sizeof(mh_kv_block) + cache->options.heads * sizeof(bool);
    return (bytes + 63) / 64 * 64;
}

static size_t kv_blocks_block_bytes(const mh_kv_cache *cache, size_t slots)
{
    return header_bytes(cache) + cache->options.heads * mh_kv_layout_bytes(&cache->layout, slots);
}

static mh_kv_block **spare_of(mh_kv_cache *cache, size_t slots)
{
    return &cache->spare[slots == MH_KV_BLOCK ? 2 : slots == MH_KV_BLOCK / 2];
}

void *mh_kv_tile_at(const mh_kv_cache *cache, const mh_kv_block *block, size_t slots, size_t head)
{
    return (char *)block + header_bytes(cache) + head * mh_kv_layout_bytes(&cache->layout, slots);
}

static void make_spare(mh_kv_cache *cache, mh_kv_block *block)
{
    mh_kv_block **spare = spare_of(cache, block->slots);
    block->next = *spare;
    *spare = block;
}

// Adds spare blocks, which are taken in address order; false if out of memory.
static bool add_slab(mh_kv_cache *cache, size_t slots)
{
    enum { HEADER = 64, MOST_BYTES = 4 << 20 };
    const size_t block = kv_blocks_block_bytes(cache, slots);
    const size_t wanted = mh_smaller(cache->slab_bytes / 4, MOST_BYTES);
    const size_t count = mh_larger(wanted / block, 1), bytes = HEADER + count * block;
    mh_kv_slab *slab = mh_kv_allocate(cache, bytes);
    if (!slab)
        return false;
    *slab = (mh_kv_slab){cache->slabs, bytes};
    cache->slabs = slab;
    cache->slab_bytes += bytes;
    for (size_t i = count; i-- > 0;) {
        mh_kv_block *spare = (mh_kv_block *)((char *)slab + HEADER + i * block);
        spare->slots = slots;
        make_spare(cache, spare);
    }
    return true;
}

static mh_kv_block *take_block(mh_kv_cache *cache, size_t slots)
{
    mh_kv_block **spare = spare_of(cache, slots), *block;
    if (!*spare && !add_slab(cache, slots))
        return NULL;
    block = *spare;
    *spare = block->next;
    return block;
}

// A new block: a copy of `like`, or empty if it is NULL.
static mh_kv_block *make_block(mh_kv_cache *cache, size_t slots, const mh_kv_block *like)
{
    mh_kv_block *block = take_block(cache, slots);
    if (!block)
        return NULL;
    *block = (mh_kv_block){.references = 1,
                           .slots = slots,
                           .used = like ? like->used : 0,
                           .finite = (bool *)(block + 1)};
    for (size_t head = 0; head < cache->options.heads; head++) {
        block->finite[head] = like ? like->finite[head] : true;
        if (like)
            mh_kv_layout_copy(&cache->layout, like->used, like->slots,
                              mh_kv_tile_at(cache, like, like->slots, head), slots,
                              mh_kv_tile_at(cache, block, slots, head));
    }
    cache->held += kv_blocks_block_bytes(cache, slots);
    return block;
}

static void leave(mh_kv_cache *cache, mh_kv_block *block)
{
    if (!block || --block->references > 0)
        return;
    make_spare(cache, block);
    cache->held -= kv_blocks_block_bytes(cache, block->slots);
}

// The size of block number `index`, for `needed` slots.
static size_t choose_slots(const mh_kv_cache *cache, size_t index, size_t needed)
{
    size_t slots = mh_kv_layout_min_slots(&cache->layout);
    while (slots < MH_KV_BLOCK && (index || slots < needed))
        slots *= 2;
    return slots;
}

// Grows the list to hold block number `index`.
static bool kv_blocks_reserve(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t index)
{
    if (index < sequence->capacity)
        return true;
    size_t capacity = 2 * index + 8;
    mh_kv_block **blocks = mh_kv_allocate(cache, capacity * sizeof *blocks);
    if (!blocks)
        return false;
    if (sequence->count)
        memcpy(blocks, sequence->blocks, sequence->count * sizeof *blocks);
    mh_kv_release(cache, sequence->blocks, sequence->capacity * sizeof *blocks);
    sequence->blocks = blocks;
    sequence->capacity = capacity;
    return true;
}

bool mh_kv_make_room(mh_kv_cache *cache, size_t b, size_t count)
{
    mh_kv_sequence *sequence = &cache->sequences[b];
    const size_t length = (size_t)cache->lengths[b];
    for (size_t i = length / MH_KV_BLOCK; count > 0 && i <= (length + count - 1) / MH_KV_BLOCK;
         i++) {
        if (!kv_blocks_reserve(cache, sequence, i))
            return false;
        mh_kv_block *old = i < sequence->count ? sequence->blocks[i] : NULL;
        const size_t used = mh_larger(old ? old->used : 0,
                                      mh_smaller(MH_KV_BLOCK, length + count - i * MH_KV_BLOCK));
        const bool alone = old && old->references == 1 && used <= old->slots;
        mh_kv_block *own = alone ? old : make_block(cache, choose_slots(cache, i, used), old);
        if (!own)
            return false;
        if (!alone)
            leave(cache, old);
        sequence->blocks[i] = own;
        sequence->count = i < sequence->count ? sequence->count : i + 1;
        own->used = used;
    }
    return true;
}

// Keys further back than the window before the next token are no longer needed.
void mh_kv_forget(mh_kv_cache *cache, size_t b)
{
    mh_kv_sequence *sequence = &cache->sequences[b];
    const int64_t needed = cache->lengths[b] - cache->options.window;
    size_t *i = &sequence->forgotten;
    for (; cache->options.window >= 0 && *i < sequence->count &&
           (int64_t)((*i + 1) * MH_KV_BLOCK) <= needed;
         ++*i) {
        leave(cache, sequence->blocks[*i]);
        sequence->blocks[*i] = NULL;
    }
}

bool mh_kv_share(mh_kv_cache *cache, const mh_kv_sequence *from, mh_kv_sequence *to)
{
    *to = (mh_kv_sequence){0};
    if (from->count == 0)
        return true;
    to->blocks = mh_kv_allocate(cache, from->count * sizeof *to->blocks);
    if (!to->blocks)
        return false;
    to->count = to->capacity = from->count;
    to->forgotten = from->forgotten;
    for (size_t i = 0; i < from->count; i++) {
        to->blocks[i] = from->blocks[i];
        if (to->blocks[i])
            to->blocks[i]->references++;
    }
    return true;
}

void mh_kv_cut(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t kept)
{
    for (size_t i = kept; i < sequence->count; i++)
        leave(cache, sequence->blocks[i]);
    sequence->count = mh_smaller(kept, sequence->count);
    sequence->forgotten = mh_smaller(kept, sequence->forgotten);
}

void mh_kv_empty(mh_kv_cache *cache, mh_kv_sequence *sequence)
{
    mh_kv_cut(cache, sequence, 0);
    mh_kv_release(cache, sequence->blocks, sequence->capacity * sizeof *sequence->blocks);
    *sequence = (mh_kv_sequence){0};
}

void mh_kv_free_slabs(mh_kv_cache *cache)
{
    for (mh_kv_slab *slab = cache->slabs, *next; slab; slab = next) {
        next = slab->next;
        mh_kv_release(cache, slab, slab->bytes);
    }
}
