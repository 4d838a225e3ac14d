// SPDX-License-Identifier: MIT
// Opening a file of tensors and looking one up. The readers have validated the file's contents;
// common to all formats and done here are format detection, the index and freeing.
//
// Tensors are used in place in the mapping, so opening costs no memory. Only unaligned and
// big-endian ones are copied, when they are read (tensor_place.c).
#include "io/tensor_file.h"
#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument_check.h"
#include "base/overflow.h"
#include "base/release.h"
#include "io/gguf.h"
#include "io/gguf_blocks.h"
#include "io/shards.h"
#include "io/tensor_place.h"
#include "io/torch.h"

// ---- building -----------------------------------------------------------------------------------

static void *tensor_file_take(mh_context *context, size_t count, size_t size)
{
    size_t bytes;
    if (mh_multiply_sizes(count, size, &bytes))
        return mh_alloc(context, bytes);
    mh_fail(context, MH_ERROR_MEMORY, "out of memory for %zu items of %zu bytes", count, size);
    return NULL;
}

mh_status mh_tensor_file_reserve(mh_context *context, mh_tensor_file *file, size_t count,
                                 size_t metadata_count, size_t text_size)
{
    file->count = count;
    file->metadata_count = metadata_count;
    file->text_size = text_size;
    bool done = (file->entries = tensor_file_take(context, count, sizeof *file->entries)) != NULL &&
                (file->by_name = tensor_file_take(context, count, sizeof *file->by_name)) != NULL &&
                (file->metadata =
                     tensor_file_take(context, metadata_count, sizeof *file->metadata)) != NULL &&
                (file->text = tensor_file_take(context, text_size, 1)) != NULL;
    return done ? MH_OK : MH_ERROR_MEMORY;
}

static int compare_names(const void *a, const void *b)
{
    const mh_file_entry *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int tensor_file_compare_keys(const void *a, const void *b)
{
    const mh_metadata *left = a, *right = b;
    return strcmp(left->key, right->key);
}

static mh_status build_index(const mh_source *source, mh_tensor_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->entries[i];
    if (file->count > 1)
        qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    if (file->metadata_count > 1)
        qsort(file->metadata, file->metadata_count, sizeof *file->metadata,
              tensor_file_compare_keys);
    for (size_t i = 1; i < file->count; i++)
        if (compare_names(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return mh_source_fail(source, MH_ERROR_FORMAT, "two tensors are called %s",
                                  mh_quote_string(file->by_name[i]->name).text);
    return MH_OK;
}

// ---- opening ------------------------------------------------------------------------------------

static mh_status read_zip(const mh_source *source, mh_tensor_file *file)
{
    bool torch;
    MH_TRY(mh_torch_zip_find(source, &torch));
    return torch ? mh_torch_zip_read(source, file) : mh_npz_read(source, file);
}

// `directory` is where the shards of an index are, or NULL.
static mh_status read_source(const mh_source *source, const char *directory, mh_tensor_file *file)
{
    mh_status status;
    if (source->size == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "the file is empty, expected .npy, .npz, .safetensors or .gguf");
    if (mh_is_shard_index(source))
        return mh_shards_read(source, directory, file); // the tensors are those of other files
    if (mh_is_npy(source))
        status = mh_npy_read(source, file);
    else if (mh_is_zip(source))
        status = read_zip(source, file);
    else if (mh_is_torch_legacy(source))
        status = mh_torch_legacy_read(source, file);
    else if (mh_is_gguf(source))
        status = mh_gguf_read(source, file);
    else
        status = mh_safetensors_read(source, file);
    return status == MH_OK ? mh_tensor_file_place(source, file) : status;
}

mh_status mh_tensor_file_parse_in(const mh_source *source, const char *directory,
                                  mh_mapping mapping, mh_tensor_file **result)
{
    mh_tensor_file *file = mh_alloc(source->context, sizeof *file);
    if (file == NULL) {
        mh_file_unmap(&mapping);
        return MH_ERROR_MEMORY;
    }
    *file =
        (mh_tensor_file){.allocator = mh_context_allocator(source->context), .mapping = mapping};
    mh_status status = read_source(source, directory, file);
    if (status == MH_OK)
        status = build_index(source, file);
    if (status != MH_OK) {
        mh_tensor_file_free(file);
        return status;
    }
    *result = file;
    return MH_OK;
}

mh_status mh_tensor_file_open_shard(mh_context *context, const char *path, mh_tensor_file **file)
{
    mh_mapping mapping = {0};
    mh_status status = mh_file_map(context, path, &mapping);
    if (status != MH_OK)
        return status;
    mh_source source = {context, path, mapping.data, mapping.size};
    return mh_tensor_file_parse_in(&source, NULL, mapping, file);
}

mh_status mh_tensor_file_open(mh_context *context, const char *path, mh_tensor_file **file)
{
    if (mh_need(context, file, "file"))
        return MH_ERROR_ARGUMENT;
    *file = NULL;
    if (mh_need(context, path, "path"))
        return MH_ERROR_ARGUMENT;
    mh_mapping mapping = {0};
    mh_status status = mh_file_map(context, path, &mapping);
    if (status != MH_OK)
        return status;
    const char *slash = strrchr(path, '/');
    const size_t size = slash ? (size_t)(slash - path) + 1 : 0; // with the slash
    char *directory = mh_alloc(context, size + 1);
    if (!directory) {
        mh_file_unmap(&mapping);
        return MH_ERROR_MEMORY;
    }
    memcpy(directory, path, size);
    directory[size] = '\0';
    mh_source source = {context, path, mapping.data, mapping.size};
    status = mh_tensor_file_parse_in(&source, directory, mapping, file);
    mh_free(context, directory, size + 1);
    return status;
}

mh_status mh_tensor_file_parse(mh_context *context, const char *name, const void *bytes,
                               size_t size, mh_tensor_file **file)
{
    if (mh_need(context, file, "file"))
        return MH_ERROR_ARGUMENT;
    *file = NULL;
    if (mh_need(context, mh_array(bytes, size), "bytes"))
        return MH_ERROR_ARGUMENT;
    mh_source source = {context, name ? name : "(memory)", bytes, size};
    return mh_tensor_file_parse_in(&source, NULL, (mh_mapping){0}, file);
}

void mh_tensor_file_free(mh_tensor_file *file)
{
    if (file == NULL)
        return;
    const mh_allocator allocator = file->allocator;
    mh_release(&allocator, file->entries, file->count * sizeof *file->entries);
    mh_release(&allocator, file->by_name, file->count * sizeof *file->by_name);
    mh_release(&allocator, file->metadata, file->metadata_count * sizeof *file->metadata);
    mh_release(&allocator, file->pairs, file->pair_count * sizeof *file->pairs);
    mh_release(&allocator, file->text, file->text_size);
    mh_file_copies_free(&allocator, file->copies);
    mh_release(&allocator, file->inflated, file->inflated_size);
    for (size_t i = 0; i < file->shard_count; i++)
        mh_tensor_file_free(file->shards[i]);
    mh_release(&allocator, file->shards, file->shard_count * sizeof *file->shards);
    if (file->mapping.data != NULL)
        mh_file_unmap(&file->mapping);
    mh_release(&allocator, file, sizeof *file);
}

// ---- lookup -------------------------------------------------------------------------------------

size_t mh_tensor_file_count(const mh_tensor_file *file) { return file ? file->count : 0; }

const char *mh_tensor_file_name(const mh_tensor_file *file, size_t i)
{
    return i < mh_tensor_file_count(file) ? file->entries[i].name : NULL;
}

bool mh_tensor_file_in_place(const mh_tensor_file *file, size_t i)
{
    return i < mh_tensor_file_count(file) && !file->entries[i].copy;
}

size_t mh_tensor_file_bytes(const mh_tensor_file *file)
{
    size_t bytes = 0;
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        bool again = false;
        for (size_t j = 0; j < i && !again; j++)
            again = file->entries[j].bytes == file->entries[i].bytes;
        bytes += again ? 0 : file->entries[i].size;
    }
    return bytes;
}

bool mh_tensor_file_at(const mh_tensor_file *file, size_t i, mh_tensor *tensor)
{
    if (i >= mh_tensor_file_count(file) || tensor == NULL || file->entries[i].blocks)
        return false;
    if (file->entries[i].copy)
        mh_file_copy_make(file->entries[i].copy);
    *tensor = file->entries[i].tensor;
    return true;
}

bool mh_tensor_file_describe(const mh_tensor_file *file, size_t i, mh_tensor *tensor)
{
    if (i >= mh_tensor_file_count(file) || tensor == NULL)
        return false;
    *tensor = file->entries[i].tensor;
    tensor->data = NULL;
    return true;
}

bool mh_tensor_file_index(const mh_tensor_file *file, const char *name, size_t *index)
{
    if (mh_tensor_file_count(file) == 0 || name == NULL || index == NULL)
        return false;
    mh_file_entry wanted = {.name = name};
    const mh_file_entry *key = &wanted;
    const mh_file_entry **found =
        bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
    if (found == NULL)
        return false;
    *index = (size_t)(*found - file->entries);
    return true;
}

bool mh_tensor_file_find(const mh_tensor_file *file, const char *name, mh_tensor *tensor)
{
    size_t i;
    return mh_tensor_file_index(file, name, &i) && mh_tensor_file_at(file, i, tensor);
}

bool mh_tensor_file_stored(const mh_tensor_file *file, size_t i, mh_stored_tensor *stored)
{
    if (i >= mh_tensor_file_count(file) || stored == NULL)
        return false;
    const mh_file_entry *entry = &file->entries[i];
    const mh_block_format *blocks = entry->blocks;
    const mh_dtype dtype = entry->tensor.dtype;
    *stored = (mh_stored_tensor){
        .type = blocks ? blocks->name : mh_dtype_name(dtype),
        .bytes = entry->bytes,
        .size = entry->size,
        .block_values = blocks ? blocks->values : 1,
        .block_bytes = blocks ? blocks->bytes : mh_dtype_size(dtype),
    };
    return true;
}

bool mh_tensor_file_metadata_at(const mh_tensor_file *file, size_t i, mh_metadata *metadata)
{
    if (file == NULL || i >= file->metadata_count || metadata == NULL)
        return false;
    *metadata = file->metadata[i];
    return true;
}

const char *mh_tensor_file_metadata(const mh_tensor_file *file, const char *key)
{
    if (file == NULL || file->metadata_count == 0 || key == NULL)
        return NULL;
    mh_metadata wanted = {.key = key};
    const mh_metadata *found = bsearch(&wanted, file->metadata, file->metadata_count,
                                       sizeof *file->metadata, tensor_file_compare_keys);
    return found ? found->value : NULL;
}
