// SPDX-License-Identifier: MIT
// Tensors in place or in copies; see tensor_place.h.
#include "io/tensor_place.h"

#include <stdlib.h>
#include <string.h>

#include "base/overflow.h"
#include "base/release.h"

enum { ALIGNMENT = 8 }; // of the widest element

// ---- copying ------------------------------------------------------------------------------------

void mh_file_copy_piece(const mh_file_copy *copy, const unsigned char *from, size_t size,
                        unsigned char *to)
{
    const size_t width = copy->swap;
    if (width == 0) {
        memcpy(to, from, size);
        return;
    }
    for (size_t i = 0; i < size; i += width)
        for (size_t j = 0; j < width; j++)
            to[i + j] = from[i + width - 1 - j];
}

void mh_file_copy_make(mh_file_copy *copy)
{
    mh_lock_enter(&copy->all->lock);
    if (!copy->made)
        mh_file_copy_piece(copy, copy->bytes, copy->size, copy->copy);
    copy->made = true;
    mh_lock_leave(&copy->all->lock);
}

bool mh_file_copy_is_made(mh_file_copy *copy)
{
    mh_lock_enter(&copy->all->lock);
    const bool made = copy->made;
    mh_lock_leave(&copy->all->lock);
    return made;
}

// ---- what is copied -----------------------------------------------------------------------------

static bool is_usable(const mh_file_entry *entry)
{
    return entry->size == 0 || (!entry->big_endian &&
                                (uintptr_t)entry->bytes % mh_dtype_size(entry->tensor.dtype) == 0);
}

// A tensor without a storage of its own is one.
static void set_whole(mh_file_entry *entry)
{
    if (entry->whole != NULL)
        return;
    entry->whole = entry->bytes;
    entry->whole_size = entry->size;
}

static int compare_storages(const void *a, const void *b)
{
    const mh_file_entry *const *left = a, *const *right = b;
    const uintptr_t l = (uintptr_t)(*left)->whole, r = (uintptr_t)(*right)->whole;
    if (l != r)
        return l < r ? -1 : 1;
    return ((*left)->whole_size > (*right)->whole_size) -
           ((*left)->whole_size < (*right)->whole_size);
}

// The entries to be copied, in file->by_name, those of a storage one after the other.
static size_t list_copied(mh_tensor_file *file)
{
    static const uint64_t nothing;
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        mh_file_entry *entry = &file->entries[i];
        const void *data = entry->size == 0 ? (const void *)&nothing : entry->bytes;
        if (entry->blocks)
            continue;
        set_whole(entry);
        entry->tensor.data = (void *)(uintptr_t)data;
        if (!is_usable(entry))
            file->by_name[count++] = entry;
    }
    if (count > 1)
        qsort(file->by_name, count, sizeof *file->by_name, compare_storages);
    return count;
}

// Assigns `listed` entries to copies; returns their number. With `copies` NULL, only counts.
static size_t assign(mh_tensor_file *file, size_t listed, mh_file_copies *copies, size_t *size)
{
    size_t count = 0;
    *size = 0;
    for (size_t i = 0; i < listed; i++) {
        mh_file_entry *entry = (mh_file_entry *)(uintptr_t)file->by_name[i];
        if (i == 0 || compare_storages(&file->by_name[i - 1], &file->by_name[i]) != 0) {
            if (copies)
                copies->items[count] = (mh_file_copy){
                    .all = copies,
                    .bytes = entry->whole,
                    .size = entry->whole_size,
                    .swap = entry->big_endian ? mh_dtype_size(entry->tensor.dtype) : 0,
                    .copy = copies->memory + *size};
            count++;
            *size += entry->whole_size + (ALIGNMENT - entry->whole_size % ALIGNMENT) % ALIGNMENT;
        }
        if (copies) {
            entry->copy = &copies->items[count - 1];
            entry->tensor.data = entry->copy->copy + (entry->bytes - entry->whole);
        }
    }
    return count;
}

void mh_file_copies_free(const mh_allocator *allocator, mh_file_copies *copies)
{
    if (!copies)
        return;
    mh_release(allocator, copies->items, copies->count * sizeof *copies->items);
    mh_release(allocator, copies->memory, copies->size);
    mh_lock_destroy(&copies->lock);
    mh_release(allocator, copies, sizeof *copies);
}

static mh_file_copies *reserve_copies(mh_context *context, size_t count, size_t size)
{
    mh_file_copies *copies = mh_alloc(context, sizeof *copies);
    if (!copies)
        return NULL;
    *copies = (mh_file_copies){.count = count, .size = size};
    if (!mh_lock_init(&copies->lock)) {
        mh_fail(context, MH_ERROR_MEMORY, "no memory for a lock");
        mh_free(context, copies, sizeof *copies);
        return NULL;
    }
    copies->items = mh_alloc(context, count * sizeof *copies->items); // fewer than entries
    copies->memory = copies->items ? mh_alloc(context, size) : NULL;
    if (copies->memory)
        return copies;
    const mh_allocator allocator = mh_context_allocator(context);
    mh_file_copies_free(&allocator, copies);
    return NULL;
}

mh_status mh_tensor_file_place(const mh_source *source, mh_tensor_file *file)
{
    size_t size;
    const size_t listed = list_copied(file), count = assign(file, listed, NULL, &size);
    if (listed == 0)
        return MH_OK;
    file->copies = reserve_copies(source->context, count, size);
    if (!file->copies)
        return MH_ERROR_MEMORY;
    assign(file, listed, file->copies, &size);
    return MH_OK;
}
