// SPDX-License-Identifier: MIT
// PyTorch checkpoints as torch.save wrote them before version 1.6, and still does with
// _use_new_zipfile_serialization=False:
//
//     pickle 1   0x1950a86a20f9469cfc6c
//     pickle 2   1001, the version of the format
//     pickle 3   {"protocol_version": 1001, "little_endian": True, "type_sizes": {...}}
//     pickle 4   the object: its tensors refer to storages by key
//     pickle 5   ["key", ...]
//     then for each key of that list, in its order, not aligned:
//                int64 number of elements, the elements
//
// The tensors stay in the file. As nothing is aligned, a storage is copied when it is first read
// (tensor_place.c).
#include "base/compiler.h"
#include "io/torch.h"

#include <string.h>

enum { MAGIC_SIZE = 10, VERSION = 1001, COUNT_SIZE = 8, PICKLES = 5 };

static const unsigned char magic[MAGIC_SIZE] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9,
                                                0x20, 0x6A, 0xA8, 0x50, 0x19};

// PROTO n, from protocol 4 on a frame, then LONG1 with the magic number.
bool mh_is_torch_legacy(const mh_source *source)
{
    const unsigned char *b = source->bytes;
    const size_t at = source->size > 2 && b[2] == 0x95 ? 2 + 9 : 2;
    return source->size >= at + 2 + MAGIC_SIZE && b[0] == 0x80 && b[at] == 0x8A &&
           b[at + 1] == MAGIC_SIZE && memcmp(b + at + 2, magic, MAGIC_SIZE) == 0;
}

// ---- the pickles --------------------------------------------------------------------------------

typedef struct pickles {
    mh_pickle_value values[PICKLES];
    size_t size; // of all: where the storages begin
} pickles;

static mh_status run_pickles(mh_torch *t, pickles *all)
{
    static const char *const labels[PICKLES] = {"pickle 1", "pickle 2", "pickle 3", "pickle 4",
                                                "pickle 5"};
    mh_status status = MH_OK;
    for (int i = 0; i < PICKLES && !status; i++) {
        size_t used = 0;
        t->pickle.label = labels[i];
        status = mh_pickle_run(&t->pickle, t->source->bytes + all->size,
                               t->source->size - all->size, &all->values[i], &used);
        all->size += used;
    }
    t->pickle_size = all->size;
    return status;
}

static const mh_pickle_value *member_of(const mh_torch *t, const mh_pickle_value *dictionary,
                                        const char *key)
{
    const mh_pickle_node *nodes = t->pickle.nodes;
    if (dictionary->kind != MH_PICKLE_DICT)
        return NULL;
    for (uint32_t i = mh_pickle_of(&t->pickle, dictionary)->first; i;) {
        const uint32_t item = nodes[i].next;
        if (mh_pickle_is_text(&nodes[i].value, key))
            return &nodes[item].value;
        i = nodes[item].next;
    }
    return NULL;
}

static mh_status check_system(const mh_torch *t, const pickles *all)
{
    const mh_pickle_value *version = &all->values[1];
    const mh_pickle_value *little = member_of(t, &all->values[2], "little_endian");
    if (version->kind != MH_PICKLE_INT || version->as.number != VERSION)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "pickle 2: found %s, expected the version %d of PyTorch's format",
                              mh_pickle_kind_name(version->kind), VERSION);
    if (!little || little->kind != MH_PICKLE_BOOL)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "pickle 3: found %s, expected a dictionary with little_endian",
                              mh_pickle_kind_name(all->values[2].kind));
    if (!little->as.number)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "is a PyTorch file from a big-endian machine, which is not read; "
                              "save it with safetensors.torch.save_file");
    return MH_OK;
}

// ---- the storages -------------------------------------------------------------------------------

static mh_status read_keys(mh_torch *t, const mh_pickle_value *keys)
{
    if (keys->kind != MH_PICKLE_LIST)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "pickle 5: found %s, expected the list of the storages' keys",
                              mh_pickle_kind_name(keys->kind));
    const mh_pickle_container *list = mh_pickle_of(&t->pickle, keys);
    MH_TRY(mh_torch_reserve(t, list->count));
    size_t n = 0;
    for (uint32_t i = list->first; i; i = t->pickle.nodes[i].next, n++) {
        const mh_pickle_value *key = &t->pickle.nodes[i].value;
        if (key->kind != MH_PICKLE_TEXT)
            return mh_source_fail(t->source, MH_ERROR_FORMAT,
                                  "pickle 5: found %s among the storages' keys, expected text",
                                  mh_pickle_kind_name(key->kind));
        t->storages[n] = (mh_torch_storage){
            .key = (const char *)key->as.bytes, .key_size = key->size, .order = n};
    }
    return mh_torch_sort(t);
}

static mh_status locate(const mh_torch *t, mh_torch_storage *s, size_t *at)
{
    const mh_source *source = t->source;
    const size_t left = source->size - *at;
    uint64_t count = 0;
    if (!s->used)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "storage %s: no tensor uses it, so that its size is not known",
                              mh_quote(s->key, s->key_size).text);
    if (left < COUNT_SIZE)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "storage %s: the file ends before it, and may be cut off",
                              mh_quote(s->key, s->key_size).text);
    for (int i = 0; i < COUNT_SIZE; i++)
        count |= (uint64_t)source->bytes[*at + (size_t)i] << (8 * i);
    if (count != s->count)
        return mh_source_fail(
            source, MH_ERROR_FORMAT, "storage %s: found %llu elements, but its tensors expect %zu",
            mh_quote(s->key, s->key_size).text, (unsigned long long)count, s->count);
    if (!mh_torch_storage_bytes(s, &s->size) || s->size > left - COUNT_SIZE)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "storage %s: %zu elements do not fit in the %zu bytes left: the file "
                              "may be cut off",
                              mh_quote(s->key, s->key_size).text, s->count, left - COUNT_SIZE);
    s->bytes = source->bytes + *at + COUNT_SIZE;
    *at += COUNT_SIZE + s->size;
    return MH_OK;
}

// In the order of the list; `order` is a permutation of the sorted storages.
static mh_status torch_legacy_locate_all(mh_torch *t, size_t at)
{
    const size_t count = t->storage_count, bytes = count * sizeof(size_t); // less than storages
    size_t *sorted = mh_alloc(t->source->context, bytes);
    if (!sorted)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        sorted[t->storages[i].order] = i;
    mh_status status = MH_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = locate(t, &t->storages[sorted[i]], &at);
    mh_free(t->source->context, sorted, bytes);
    if (!status && at != t->source->size)
        status = mh_source_fail(t->source, MH_ERROR_FORMAT,
                                "the storages end at byte %zu, but the file has %zu bytes", at,
                                t->source->size);
    return status;
}

mh_status mh_torch_legacy_read(const mh_source *source, mh_tensor_file *file)
{
    mh_torch t = {.source = source, .pickle = {.source = source}};
    pickles all = {0};
    mh_status status = run_pickles(&t, &all);
    if (!status)
        status = check_system(&t, &all);
    if (!status)
        status = read_keys(&t, &all.values[4]);
    if (!status)
        status = mh_torch_count(&t, &all.values[3]);
    if (!status)
        status = torch_legacy_locate_all(&t, all.size);
    if (!status)
        status = mh_torch_fill(&t, &all.values[3], file);
    mh_torch_free(&t);
    return status;
}
