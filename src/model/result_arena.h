// SPDX-License-Identifier: MIT
// An arena for results: many small arrays that never move and are freed all at once.
#ifndef MH_MODEL_RESULT_ARENA_H
#define MH_MODEL_RESULT_ARENA_H

#include <multihead/base.h>

typedef struct mh_result_block mh_result_block;

// All zeros but the allocator is empty.
typedef struct mh_result_arena {
    mh_allocator allocator;
    mh_result_block *last;
} mh_result_arena;

// count * element bytes, aligned to 16, not initialised; NULL with a message if out of memory.
void *mh_result_take(mh_context *context, mh_result_arena *store, size_t count, size_t element);
void *mh_result_copy(mh_context *context, mh_result_arena *store, const void *from, size_t count,
                     size_t element);
void mh_result_free(mh_result_arena *store);

// Moves all of `from` to `to`, which has the same allocator; `from` is then empty.
void mh_result_join(mh_result_arena *to, mh_result_arena *from);

#endif
