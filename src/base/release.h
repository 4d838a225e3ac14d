// SPDX-License-Identifier: MIT
#ifndef MH_BASE_RELEASE_H
#define MH_BASE_RELEASE_H

#include <multihead/base.h>

// Returns memory of mh_alloc() to the allocator it came from; NULL is fine. Objects keep a copy of
// their context's allocator for this, because the context may be freed before them.
static inline void mh_release(const mh_allocator *allocator, void *memory, size_t size)
{
    if (memory)
        allocator->release(allocator->user, memory, size ? size : 1); // the size of mh_alloc()
}

#endif
