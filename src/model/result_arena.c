// SPDX-License-Identifier: MIT
// A bump allocator over blocks; see result_arena.h.
#include "model/result_arena.h"
#include "base/overflow.h"
#include "base/size_math.h"

enum { BLOCK = 1 << 16, ALIGNMENT = 16 };

struct mh_result_block {
    mh_result_block *before;
    size_t size, used; // bytes, this header included
};

static mh_result_block *result_arena_add_block(mh_context *context, mh_result_arena *store,
                                               size_t bytes)
{
    const size_t header = mh_round_up(sizeof(mh_result_block), ALIGNMENT);
    const size_t size = mh_larger(BLOCK, bytes + header);
    mh_result_block *block = store->allocator.alloc(store->allocator.user, size, 64);
    if (!block) {
        mh_fail(context, MH_ERROR_MEMORY, "out of memory: %zu bytes of results", size);
        return NULL;
    }
    *block = (mh_result_block){store->last, size, header};
    store->last = block;
    return block;
}

void *mh_result_take(mh_context *context, mh_result_arena *store, size_t count, size_t element)
{
    size_t bytes;
    if (!mh_multiply_sizes(count, element, &bytes) || bytes > SIZE_MAX / 2) {
        mh_fail(context, MH_ERROR_MEMORY, "out of memory: %zu elements of %zu bytes", count,
                element);
        return NULL;
    }
    bytes = mh_round_up(bytes, ALIGNMENT);
    mh_result_block *block = store->last;
    if (!block || block->size - block->used < bytes)
        block = result_arena_add_block(context, store, bytes);
    if (!block)
        return NULL;
    void *memory = (char *)block + block->used;
    block->used += bytes;
    return memory;
}

void *mh_result_copy(mh_context *context, mh_result_arena *store, const void *from, size_t count,
                     size_t element)
{
    void *to = mh_result_take(context, store, count, element);
    if (to && count > 0)
        memcpy(to, from, count * element);
    return to;
}

void mh_result_free(mh_result_arena *store)
{
    while (store->last) {
        mh_result_block *block = store->last;
        store->last = block->before;
        store->allocator.release(store->allocator.user, block, block->size);
    }
}

void mh_result_join(mh_result_arena *to, mh_result_arena *from)
{
    mh_result_block *first = from->last;
    while (first && first->before)
        first = first->before;
    if (!first)
        return;
    first->before = to->last;
    to->last = from->last;
    from->last = NULL;
}
