// SPDX-License-Identifier: MIT
// The arena allocates blocks one after the other, each rounded up to whole cache lines, which
// avoids false sharing between neighbouring blocks:
//
//     base |  block 0  |pad|   block 1   |pad|  ...  | used        size |
//
// `base` is expected to be aligned already: the size pass cannot know where the memory will be,
// so aligning here would make the two passes disagree.
#include "base/arena.h"

#include "base/overflow.h"

void *mh_arena_take(mh_arena *arena, size_t count, size_t element_size)
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
