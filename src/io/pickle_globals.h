// SPDX-License-Identifier: MIT
// The globals that a pickle may refer to: those of tensors and of plain containers.
#ifndef MH_IO_PICKLE_GLOBALS_H
#define MH_IO_PICKLE_GLOBALS_H

#include <multihead/tensor.h>

typedef enum mh_global_kind {
    MH_GLOBAL_ORDERED_DICT,
    MH_GLOBAL_SIZE,              // torch.Size(tuple)
    MH_GLOBAL_REBUILD_TENSOR,    // (storage, offset, size, stride)
    MH_GLOBAL_REBUILD_TENSOR_V2, // and (requires_grad, hooks[, metadata])
    MH_GLOBAL_REBUILD_TENSOR_V3, // and (requires_grad, hooks, dtype[, metadata])
    MH_GLOBAL_REBUILD_PARAMETER, // (tensor, requires_grad, hooks[, state])
    MH_GLOBAL_STORAGE,           // a class of storages, of elements of .dtype
    MH_GLOBAL_UNTYPED_STORAGE,
    MH_GLOBAL_DTYPE,
} mh_global_kind;

typedef struct mh_pickle_global_entry {
    const char *module, *name;
    mh_global_kind kind;
    mh_dtype dtype; // of MH_GLOBAL_STORAGE and MH_GLOBAL_DTYPE
} mh_pickle_global_entry;

extern const mh_pickle_global_entry mh_pickle_globals[];

// An index of the table, or -1.
int mh_pickle_find_global(const char *module, size_t module_size, const char *name,
                          size_t name_size);

#endif
