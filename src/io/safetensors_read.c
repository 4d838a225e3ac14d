// SPDX-License-Identifier: MIT
// safetensors to validated entries. Layout: safetensors.h. Steps in order, each relying only on the
// ones before it:
//
//     prefix    the header's length is within the file and the limit
//     header    valid JSON (safetensors_json.c)
//     tensors   each one's range is in the file and has the size its shape needs
//     together  sorted by position they follow each other without hole, overlap or rest
//
// The last rule keeps a file from hiding bytes, and two tensors from sharing them.
#include <stdlib.h>
#include <string.h>

#include "io/checksum.h"
#include "io/file_kind.h"
#include "io/safetensors.h"
#include "io/safetensors_json.h"
#include "io/tensor_file.h"

static mh_status safetensors_find_header(const mh_source *source, size_t *size)
{
    uint64_t length = 0;
    const bool prefixed = source->size >= MH_SAFETENSORS_PREFIX;
    for (int i = 0; prefixed && i < MH_SAFETENSORS_PREFIX; i++)
        length |= (uint64_t)source->bytes[i] << (8 * i);
    const size_t left = prefixed ? source->size - MH_SAFETENSORS_PREFIX : 0;
    const bool opened = left > 0 && source->bytes[MH_SAFETENSORS_PREFIX] == '{';
    mh_status status = MH_OK;
    if (length > MH_HEADER_BYTES_MAX || !opened)
        status = mh_refuse_known_kind(source);
    if (status)
        return status;
    if (!prefixed)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "file of %zu bytes is neither .npy nor .npz nor .safetensors",
                              source->size);
    if (length > MH_HEADER_BYTES_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %llu bytes, expected at most %zu (or this is neither .npy "
                              "nor .npz nor .safetensors)",
                              (unsigned long long)length, MH_HEADER_BYTES_MAX);
    if (length > left)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %llu bytes, but the file has only %zu bytes left",
                              (unsigned long long)length, left);
    if (length == 0 || !opened)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header does not start with '{': neither .npy nor .npz nor "
                              ".safetensors");
    *size = (size_t)length;
    return MH_OK;
}

// ---- metadata -----------------------------------------------------------------------------------

static mh_status check_metadata(const mh_source *source, const json_t *metadata, size_t *text_size)
{
    const char *key;
    const json_t *value;
    if (!json_is_object(metadata))
        return mh_source_fail(source, MH_ERROR_FORMAT, "__metadata__ is not an object of strings");
    if (json_object_size(metadata) > MH_SAFETENSORS_METADATA_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "__metadata__ has %zu members, expected at most %d",
                              json_object_size(metadata), MH_SAFETENSORS_METADATA_MAX);
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (!json_is_string(value))
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "__metadata__: the value of %s is not a string",
                                  mh_quote_string(key).text);
        *text_size += strlen(key) + 1 + json_string_length(value) + 1;
    }
    return MH_OK;
}

// Appends a string to the file's text buffer, in which it is known to fit.
static const char *entry_list_keep(mh_tensor_file *file, size_t *used, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = memcpy(file->text + *used, string, size);
    *used += size;
    return copy;
}

// ---- tensors ------------------------------------------------------------------------------------

static bool is_metadata(const char *key) { return strcmp(key, MH_SAFETENSORS_METADATA) == 0; }

// Counts the header's members and allocates for them.
static mh_status entry_list_reserve(const mh_source *source, json_t *root, mh_tensor_file *file)
{
    const char *key;
    json_t *value, *metadata = json_object_get(root, MH_SAFETENSORS_METADATA);
    size_t count = json_object_size(root) - (metadata != NULL), text_size = 0;
    if (count > MH_SAFETENSORS_TENSORS_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT, "%zu tensors, expected at most %d", count,
                              MH_SAFETENSORS_TENSORS_MAX);
    if (metadata != NULL) {
        mh_status status = check_metadata(source, metadata, &text_size);
        if (status != MH_OK)
            return status;
    }
    json_object_foreach(root, key, value)
    {
        if (!is_metadata(key))
            text_size += strlen(key) + 1;
    }
    return mh_tensor_file_reserve(source->context, file, count,
                                  metadata ? json_object_size(metadata) : 0, text_size);
}

static mh_status entry_list_fill(const mh_source *source, json_t *root, size_t data_start,
                                 mh_tensor_file *file)
{
    const char *key;
    json_t *value;
    size_t used = 0;
    mh_file_entry *entry = file->entries;
    mh_metadata *pair = file->metadata;
    json_object_foreach(json_object_get(root, MH_SAFETENSORS_METADATA), key, value)
    {
        pair->key = entry_list_keep(file, &used, key);
        pair++->value = entry_list_keep(file, &used, json_string_value(value));
    }
    json_object_foreach(root, key, value)
    {
        mh_data_range range;
        if (is_metadata(key))
            continue;
        *entry = (mh_file_entry){0};
        mh_status status = mh_safetensors_entry(source, key, value, source->size - data_start,
                                                &entry->tensor, &range);
        if (status != MH_OK)
            return status;
        entry->name = entry_list_keep(file, &used, key);
        entry->bytes = source->bytes + data_start + range.begin;
        entry->size = range.end - range.begin;
        entry++;
    }
    return MH_OK;
}

// By position; an empty tensor before the one that begins at the same byte; then by name, so that
// the order does not depend on the header's.
static int compare_positions(const void *a, const void *b)
{
    const mh_file_entry *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    return strcmp(left->name, right->name);
}

static mh_status check_together(const mh_source *source, const unsigned char *data,
                                mh_tensor_file *file)
{
    const unsigned char *end = data, *file_end = source->bytes + source->size;
    if (file->count > 1)
        qsort(file->entries, file->count, sizeof *file->entries, compare_positions);
    for (size_t i = 0; i < file->count; i++) {
        const mh_file_entry *entry = &file->entries[i];
        if (entry->bytes != end)
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "tensor %s: data begins at byte %zu, but the data before it ends "
                                  "at byte %zu: %s",
                                  mh_quote_string(entry->name).text, (size_t)(entry->bytes - data),
                                  (size_t)(end - data),
                                  entry->bytes > end ? "a hole" : "an overlap");
        end = entry->bytes + entry->size;
    }
    if (end != file_end)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "the tensors end at byte %zu, but the file has %zu data bytes",
                              (size_t)(end - data), (size_t)(file_end - data));
    return MH_OK;
}

mh_status mh_safetensors_read(const mh_source *source, mh_tensor_file *file)
{
    size_t header_size = 0;
    json_t *root;
    mh_status status = safetensors_find_header(source, &header_size);
    if (status != MH_OK)
        return status;
    const unsigned char *header = source->bytes + MH_SAFETENSORS_PREFIX;
    status = mh_safetensors_load(source, (const char *)header, header_size, &root);
    if (status != MH_OK)
        return status;
    status = entry_list_reserve(source, root, file);
    if (status == MH_OK)
        status = entry_list_fill(source, root, MH_SAFETENSORS_PREFIX + header_size, file);
    if (status == MH_OK)
        status = check_together(source, header + header_size, file);
    if (status == MH_OK)
        mh_checksum_open(file, (const char *)source->bytes, MH_SAFETENSORS_PREFIX + header_size);
    json_decref(root);
    return status;
}
