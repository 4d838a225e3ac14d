// SPDX-License-Identifier: MIT
// The storages of a PyTorch checkpoint by key; see torch.h.
#include "io/torch.h"

#include <stdlib.h>
#include <string.h>

#include "base/overflow.h"

mh_status mh_torch_reserve(mh_torch *t, size_t count)
{
    size_t bytes;
    if (!mh_multiply_sizes(count, sizeof *t->storages, &bytes))
        return mh_source_fail(t->source, MH_ERROR_MEMORY, "no memory for %zu storages", count);
    t->storages = mh_alloc(t->source->context, bytes);
    if (!t->storages)
        return MH_ERROR_MEMORY;
    t->storage_count = count;
    memset(t->storages, 0, bytes);
    return MH_OK;
}

static int torch_storages_compare_keys(const void *a, const void *b)
{
    const mh_torch_storage *left = a, *right = b;
    const size_t common = left->key_size < right->key_size ? left->key_size : right->key_size;
    const int order = common ? memcmp(left->key, right->key, common) : 0;
    return order ? order : (left->key_size > right->key_size) - (left->key_size < right->key_size);
}

mh_status mh_torch_sort(mh_torch *t)
{
    if (t->storage_count > 1)
        qsort(t->storages, t->storage_count, sizeof *t->storages, torch_storages_compare_keys);
    for (size_t i = 1; i < t->storage_count; i++)
        if (torch_storages_compare_keys(&t->storages[i - 1], &t->storages[i]) == 0)
            return mh_source_fail(t->source, MH_ERROR_FORMAT, "two storages have the key %s",
                                  mh_quote(t->storages[i].key, t->storages[i].key_size).text);
    return MH_OK;
}

mh_torch_storage *mh_torch_find(const mh_torch *t, const char *key, size_t key_size)
{
    const mh_torch_storage wanted = {.key = key, .key_size = key_size};
    return t->storage_count ? bsearch(&wanted, t->storages, t->storage_count, sizeof wanted,
                                      torch_storages_compare_keys)
                            : NULL;
}

void mh_torch_free(mh_torch *t)
{
    mh_free(t->source->context, t->storages, t->storage_count * sizeof *t->storages);
    mh_pickle_free(&t->pickle);
}
