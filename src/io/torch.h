// SPDX-License-Identifier: MIT
// PyTorch checkpoints: a pickle that describes tensors, and storages that hold their elements.
//
//     torch_zip.c      ZIP archives, PyTorch 1.6 and later
//     torch_legacy.c   five pickles and raw storages, before that
//     torch_tree.c     the pickle's value -> names, depth first
//     torch_tensor.c   a tensor's arguments -> a checked view of a storage
//
// Both readers go over the value twice: first to find which storages are used, and how (the type
// of the elements is in the pickle, not beside the storage), then, with the storages located, to
// fill the entries.
#ifndef MH_IO_TORCH_H
#define MH_IO_TORCH_H

#include "io/pickle.h"
#include "io/tensor_file.h"
#include "io/zip.h"

enum {
    MH_TORCH_TENSORS_MAX = 1000000,
    MH_TORCH_NAME_MAX = 4096,
    MH_TORCH_NESTING_MAX = 64,
};

typedef struct mh_torch_storage {
    const char *key; // in the file, not terminated
    size_t key_size;
    const unsigned char *bytes; // NULL until it is located
    size_t size;                // in bytes

    bool used; // by a tensor: the following is then set
    mh_dtype dtype;
    bool untyped; // tensors have a dtype of their own
    size_t count; // elements, as the pickle says

    mh_zip_member member; // of a ZIP archive
    size_t order;         // of a legacy file: its place in the list of keys
} mh_torch_storage;

typedef struct mh_torch {
    const mh_source *source;
    mh_pickle pickle;
    size_t pickle_size;         // bytes, which bound the names
    mh_torch_storage *storages; // (storage_count), sorted by key
    size_t storage_count;
    size_t tensors, text_size; // counted by mh_torch_count
} mh_torch;

// Storages from `count` keys, in the context's memory; freed by mh_torch_free.
mh_status mh_torch_reserve(mh_torch *t, size_t count);
mh_status mh_torch_sort(mh_torch *t); // MH_ERROR_FORMAT if two have the same key
mh_torch_storage *mh_torch_find(const mh_torch *t, const char *key, size_t key_size);
void mh_torch_free(mh_torch *t);

// Bytes of a used storage's elements; false if they do not fit in memory.
bool mh_torch_storage_bytes(const mh_torch_storage *s, size_t *bytes);

// First pass: counts tensors and their names, and marks the storages that they use.
mh_status mh_torch_count(mh_torch *t, const mh_pickle_value *root);
// Second pass, after every used storage was located: reserves and fills the entries.
mh_status mh_torch_fill(mh_torch *t, const mh_pickle_value *root, mh_tensor_file *file);

// Marks a storage as used; fails if its key is unknown or it is used in two ways.
mh_status mh_torch_use(mh_torch *t, const char *name, const mh_pickle_value *storage,
                       mh_torch_storage **result);
// Checks a tensor's arguments: rank, shape and strides of *tensor, and where it begins in the
// storage, in elements.
mh_status mh_torch_tensor(mh_torch *t, const char *name, const mh_pickle_value *value,
                          mh_torch_storage **storage, size_t *offset, mh_tensor *tensor);

bool mh_is_torch_legacy(const mh_source *source);
// Whether a ZIP archive has a data.pkl, as torch.save writes it; fails if it is damaged.
mh_status mh_torch_zip_find(const mh_source *source, bool *found);

// The readers, as those of tensor_file.h.
mh_status mh_torch_legacy_read(const mh_source *source, mh_tensor_file *file);
mh_status mh_torch_zip_read(const mh_source *source, mh_tensor_file *file);

#endif
