// SPDX-License-Identifier: MIT
// Sharded files as one; see shards.h. The index is untrusted: a file's name is a plain name, so
// that nothing outside the index's directory is opened, and a file that is itself an index is
// rejected.
#include "io/shards.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/overflow.h"
#include "support/json_load.h"

enum { NESTING_MAX = 8, TENSOR_NAME_MAX = 4096 };

// A tensor of the index: where it is.
typedef struct listed {
    const char *name, *shard; // in the JSON tree
} listed;

typedef struct shard_index {
    const mh_source *source;
    const char *directory;
    json_t *root;
    listed *tensors; // (count), sorted by shard, then name
    size_t count;
} shard_index;

// ---- the index ----------------------------------------------------------------------------------

// JSON with "weight_map". The first 8 bytes of a safetensors file with such a text are a length,
// and have zeros.
bool mh_is_shard_index(const mh_source *source)
{
    static const char key[] = "\"weight_map\"";
    const size_t size = sizeof key - 1;
    size_t at = 0;
    while (at < source->size && strchr(" \t\r\n", source->bytes[at]) && source->bytes[at])
        at++;
    if (at >= source->size || source->bytes[at] != '{' || source->size < 8 ||
        memchr(source->bytes, 0, 8) || source->size > MH_HEADER_BYTES_MAX)
        return false;
    for (; source->size - at >= size; at++) {
        const unsigned char *quote = memchr(source->bytes + at, '"', source->size - at);
        if (!quote)
            return false;
        at = (size_t)(quote - source->bytes);
        if (source->size - at >= size && memcmp(quote, key, size) == 0)
            return true;
    }
    return false;
}

static bool is_plain_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && !strchr(name, '\\') &&
           strlen(name) <= MH_SHARD_NAME_MAX;
}

static mh_status load_json(shard_index *x)
{
    mh_json_scan scan = {0};
    const char *text = (const char *)x->source->bytes;
    mh_status status =
        mh_json_scan_text(x->source, "index ", text, x->source->size, NESTING_MAX, &scan);
    if (status)
        return status;
    if (scan.values > 2 * MH_SHARDS_TENSORS_MAX)
        return mh_source_fail(x->source, MH_ERROR_FORMAT,
                              "index of %zu values, expected at most %d tensors", scan.values,
                              MH_SHARDS_TENSORS_MAX);
    return mh_json_load(x->source, "index ", text, x->source->size, &scan, &x->root);
}

static int compare_listed(const void *a, const void *b)
{
    const listed *left = a, *right = b;
    const int order = strcmp(left->shard, right->shard);
    return order ? order : strcmp(left->name, right->name);
}

static mh_status read_map(shard_index *x)
{
    const char *name;
    json_t *value, *map = json_object_get(x->root, "weight_map");
    const size_t count = json_object_size(map);
    if (count == 0 || count > MH_SHARDS_TENSORS_MAX)
        return mh_source_fail(x->source, MH_ERROR_FORMAT,
                              "expected an object \"weight_map\" with 1 to %d names",
                              MH_SHARDS_TENSORS_MAX);
    x->tensors = mh_alloc(x->source->context, count * sizeof *x->tensors); // bounded above
    if (!x->tensors)
        return MH_ERROR_MEMORY;
    x->count = count;
    size_t n = 0;
    json_object_foreach(map, name, value)
    {
        const char *shard = json_string_value(value);
        if (!is_plain_name(shard) || strlen(name) > TENSOR_NAME_MAX)
            return mh_source_fail(x->source, MH_ERROR_FORMAT,
                                  "weight_map, %s: found %s, expected the name of a file next to "
                                  "the index",
                                  mh_quote_string(name).text,
                                  shard ? mh_quote_string(shard).text : "no text");
        x->tensors[n++] = (listed){name, shard};
    }
    qsort(x->tensors, x->count, sizeof *x->tensors, compare_listed);
    return MH_OK;
}

// ---- the files ----------------------------------------------------------------------------------

static bool begins_shard(const shard_index *x, size_t i)
{
    return i == 0 || strcmp(x->tensors[i - 1].shard, x->tensors[i].shard) != 0;
}

static mh_status shards_reserve(const shard_index *x, mh_tensor_file *file)
{
    size_t shards = 0, text = 0;
    for (size_t i = 0; i < x->count; i++) {
        shards += begins_shard(x, i);
        text += strlen(x->tensors[i].name) + 1;
    }
    file->shards = mh_alloc(x->source->context, shards * sizeof *file->shards);
    if (!file->shards)
        return MH_ERROR_MEMORY;
    memset(file->shards, 0, shards * sizeof *file->shards);
    file->shard_count = shards;
    return mh_tensor_file_reserve(x->source->context, file, x->count, 0, text);
}

static mh_status open_shard(const shard_index *x, const char *name, mh_tensor_file **shard)
{
    mh_context *context = x->source->context;
    const size_t directory = strlen(x->directory), size = strlen(name) + 1;
    char *path = mh_alloc(context, directory + size);
    if (!path)
        return MH_ERROR_MEMORY;
    memcpy(path, x->directory, directory);
    memcpy(path + directory, name, size);
    mh_status status = mh_tensor_file_open_shard(context, path, shard);
    mh_free(context, path, directory + size);
    return status;
}

static mh_status shards_fill_entry(const shard_index *x, size_t i, const mh_tensor_file *shard,
                                   mh_file_entry *entry, char **text)
{
    const char *name = x->tensors[i].name;
    const size_t size = strlen(name) + 1;
    size_t found;
    if (!mh_tensor_file_index(shard, name, &found))
        return mh_source_fail(
            x->source, MH_ERROR_FORMAT, "weight_map, %s: there is no such tensor in %s",
            mh_quote_string(name).text, mh_quote_string(x->tensors[i].shard).text);
    *entry = shard->entries[found];
    entry->name = memcpy(*text, name, size);
    *text += size;
    return MH_OK;
}

// In the order of a shard's data. The tensors of all shards follow each other.
static int compare_entries(const void *a, const void *b)
{
    const mh_file_entry *left = a, *right = b;
    const uintptr_t l = (uintptr_t)left->bytes, r = (uintptr_t)right->bytes;
    return l != r ? (l > r) - (l < r) : strcmp(left->name, right->name);
}

static mh_status read_shards(const shard_index *x, mh_tensor_file *file)
{
    char *text = file->text;
    size_t shard = 0, first = 0;
    mh_status status = MH_OK;
    for (size_t i = 0; i < x->count && !status; i++) {
        if (begins_shard(x, i)) {
            status = open_shard(x, x->tensors[i].shard, &file->shards[shard++]);
            first = i;
        }
        if (!status)
            status = shards_fill_entry(x, i, file->shards[shard - 1], &file->entries[i], &text);
        if (!status && (i + 1 == x->count || begins_shard(x, i + 1)))
            qsort(file->entries + first, i + 1 - first, sizeof *file->entries, compare_entries);
    }
    return status;
}

mh_status mh_shards_read(const mh_source *source, const char *directory, mh_tensor_file *file)
{
    shard_index x = {.source = source, .directory = directory};
    if (!directory)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "is an index of other files (weight_map), which are found only if it "
                              "is opened by its path, and not from another index");
    mh_status status = load_json(&x);
    if (!status)
        status = read_map(&x);
    if (!status)
        status = shards_reserve(&x, file);
    if (!status)
        status = read_shards(&x, file);
    mh_free(source->context, x.tensors, x.count * sizeof *x.tensors);
    json_decref(x.root);
    return status;
}
