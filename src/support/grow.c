// SPDX-License-Identifier: MIT
// Arrays that grow by doubling; see grow.h. Pointers are copied as bytes, since a T ** is no
// void **.
#include "support/grow.h"

enum { LEAST = 16 };

bool mh_grow(mh_context *context, void *pointer, size_t *capacity, size_t needed, size_t element)
{
    if (needed <= *capacity)
        return true;
    size_t wanted = *capacity < LEAST ? LEAST : *capacity, size;
    while (wanted < needed && mh_multiply_sizes(wanted, 2, &wanted))
        ;
    if (wanted < needed || !mh_multiply_sizes(wanted, element, &size)) {
        mh_fail(context, MH_ERROR_MEMORY, "out of memory: %zu elements", needed);
        return false;
    }
    void *bigger = mh_alloc(context, size), *old;
    if (!bigger)
        return false;
    memcpy(&old, pointer, sizeof old);
    if (old)
        memcpy(bigger, old, *capacity * element);
    mh_free(context, old, *capacity * element);
    memcpy(pointer, &bigger, sizeof bigger);
    *capacity = wanted;
    return true;
}

void mh_shrink(mh_context *context, void *pointer, size_t *capacity, size_t element)
{
    void *old, *none = NULL;
    memcpy(&old, pointer, sizeof old);
    mh_free(context, old, *capacity * element);
    memcpy(pointer, &none, sizeof none);
    *capacity = 0;
}
