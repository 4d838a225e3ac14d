// SPDX-License-Identifier: MIT
// An arena for results: many small arrays that never move and are freed all at once.
#ifndef MH_MODEL_STORE_H
#define MH_MODEL_STORE_H

#include <multihead/base.h>

typedef struct mh_store_block mh_store_block;

// All zeros but the allocator is empty.
typedef struct mh_store {
    mh_allocator allocator;
    mh_store_block *last;
} mh_store;

// count * element bytes, aligned to 16, not initialised; NULL with a message if out of memory.
void *mh_store_take(mh_context *context, mh_store *store, size_t count, size_t element);
void *mh_store_copy(mh_context *context, mh_store *store, const void *from, size_t count,
                    size_t element);
void mh_store_free(mh_store *store);

// Moves all of `from` to `to`, which has the same allocator; `from` is then empty.
void mh_store_join(mh_store *to, mh_store *from);

#endif
