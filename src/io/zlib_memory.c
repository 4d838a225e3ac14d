// SPDX-License-Identifier: MIT
// zlib passes no size when it frees, mh_free needs one: it is stored before each block.
#include "io/zlib_memory.h"

#include "base/overflow.h"

enum { SIZE_ROOM = 64 }; // keeps the alignment

static void *zlib_allocate(void *user, unsigned count, unsigned width)
{
    size_t size;
    if (!mh_multiply_sizes(count, width, &size) || !mh_add_sizes(size, SIZE_ROOM, &size))
        return NULL;
    char *block = mh_alloc(user, size);
    if (block == NULL)
        return NULL;
    *(size_t *)(void *)block = size;
    return block + SIZE_ROOM;
}

static void zlib_release(void *user, void *memory)
{
    char *block = (char *)memory - SIZE_ROOM;
    mh_free(user, block, *(size_t *)(void *)block);
}

z_stream mh_zlib_stream(mh_context *context)
{
    return (z_stream){.zalloc = zlib_allocate, .zfree = zlib_release, .opaque = context};
}
