// SPDX-License-Identifier: MIT
// Scratch memory that is measured first and carved afterwards:
//
//     size pass                      work pass
//     mh_arena a = {0};              mh_arena a = {base, size, 0};
//     layout(&a);  a.used is         layout(&a);  the same calls now
//     the size that is needed        return real addresses
//
// One function (the caller's `layout`) describes the memory once and serves both passes, so
// the two cannot disagree. Blocks are aligned to 64 bytes: a cache line, an AVX-512 vector.
// Exported for libmultihead-model, but not part of the public API.
#ifndef MH_BASE_ARENA_H
#define MH_BASE_ARENA_H

#include <multihead/base.h>

enum { MH_ARENA_ALIGNMENT = 64 };

typedef struct mh_arena {
    char *base;    // NULL in the size pass
    size_t size;   // bytes behind base
    size_t used;   // bytes allocated so far
    bool overflow; // a size did not fit in size_t (or, in the work pass, in the memory)
} mh_arena;

// The next count * element_size bytes; NULL in the size pass and after an overflow.
MH_API void *mh_arena_take(mh_arena *arena, size_t count, size_t element_size);

#endif
