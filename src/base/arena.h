// SPDX-License-Identifier: MIT
// Scratch memory that is measured first and carved afterwards:
//
//     size pass                      work pass
//     mh_arena a = {0};              mh_arena a = {base, size, 0};
//     layout(&a);  a.used is         layout(&a);  the same calls now
//     the size that is needed        return real addresses
//
// One function (the caller's `layout`) describes the memory once and serves both passes, so
// the two cannot disagree. Blocks are aligned to 64 bytes: a cache line, an AVX-512 vector. They
// lie one after the other, each rounded up to whole cache lines, which avoids false sharing:
//
//     base |  block 0  |pad|   block 1   |pad|  ...  | used        size |
//
// `base` is expected to be aligned already: the size pass cannot know where the memory will be,
// so aligning here would make the two passes disagree.
#ifndef MH_BASE_ARENA_H
#define MH_BASE_ARENA_H

#include "base/overflow.h"

enum { MH_ARENA_ALIGNMENT = 64 };

typedef struct mh_arena {
    char *base;    // NULL in the size pass
    size_t size;   // bytes behind base
    size_t used;   // bytes allocated so far
    bool overflow; // a size did not fit in size_t (or, in the work pass, in the memory)
} mh_arena;

// The next count * element_size bytes; NULL in the size pass and after an overflow.
static inline void *mh_arena_take(mh_arena *arena, size_t count, size_t element_size)
{
    size_t bytes, end;
    if (arena->overflow || !mh_multiply_sizes(count, element_size, &bytes) ||
        !mh_round_up_size(bytes, MH_ARENA_ALIGNMENT, &bytes) ||
        !mh_add_sizes(arena->used, bytes, &end) || (arena->base && end > arena->size)) {
        arena->overflow = true;
        return NULL;
    }
    char *block = arena->base ? arena->base + arena->used : NULL;
    arena->used = end;
    return block;
}

#endif
