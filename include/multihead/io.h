// SPDX-License-Identifier: MIT
// multihead/io.h: tensors in files. Reads .npy, .npz and .safetensors, writes .npy and
// .safetensors.
//
// Files are hostile until they are checked: nothing is trusted, nothing is allocated that the
// file's own size does not justify, and every refusal names the file, the tensor, what was
// found and what was expected. Files that are written appear whole or not at all.
//
// Part of libmultihead-model.
#ifndef MULTIHEAD_IO_H
#define MULTIHEAD_IO_H

#include <multihead/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- reading ------------------------------------------------------------------------

// An open file of named tensors, mapped read-only. Immutable: any thread may read it. A file that
// somebody cuts off meanwhile raises SIGBUS, as with every mapping; one that is replaced, as all
// our writers do it, stays what it was.
typedef struct mh_tensor_file mh_tensor_file;

// Opens a .npy, .npz or .safetensors file; which one it is is decided by its content. A .npy file
// holds one tensor, named "". Arrays that are compressed in .npz are all inflated.
// Errors: MH_ERROR_FILE (cannot be read), MH_ERROR_FORMAT (refused), MH_ERROR_MEMORY.
MH_API mh_status mh_tensor_file_open(mh_context *context, const char *path, mh_tensor_file **file);

// The same for bytes in memory; `name` (or NULL) stands for the path in messages. Borrows the
// bytes.
MH_API mh_status mh_tensor_file_parse(mh_context *context, const char *name, const void *bytes,
                                      size_t size, mh_tensor_file **file);

// Unmaps the file; views of its tensors are no longer valid. NULL is fine.
MH_API void mh_tensor_file_free(mh_tensor_file *file);

MH_API size_t mh_tensor_file_count(const mh_tensor_file *file);

// The name of tensor i (in the order of the data), borrowed; NULL if there is no such tensor.
MH_API const char *mh_tensor_file_name(const mh_tensor_file *file, size_t i);

// A view of tensor i or of the tensor called `name`; false if there is none. The view is
// read-only: its memory is the file.
MH_API bool mh_tensor_file_at(const mh_tensor_file *file, size_t i, mh_tensor *tensor);
MH_API bool mh_tensor_file_find(const mh_tensor_file *file, const char *name, mh_tensor *tensor);

// safetensors' __metadata__: the value for a key, borrowed, or NULL.
MH_API const char *mh_tensor_file_metadata(const mh_tensor_file *file, const char *key);

// ---- writing ------------------------------------------------------------------------

// Writes a tensor of any strides as .npy, version 1.0, C order. Errors: MH_ERROR_ARGUMENT;
// MH_ERROR_UNSUPPORTED, because bf16 has no .npy type; MH_ERROR_FILE, MH_ERROR_MEMORY. After an
// error the old file is still there.
MH_API mh_status mh_npy_write(mh_context *context, const char *path, const mh_tensor *tensor);

typedef struct mh_named_tensor {
    const char *name;
    mh_tensor tensor;
} mh_named_tensor;

typedef struct mh_metadata {
    const char *key, *value;
} mh_metadata;

// Writes tensors of any strides as safetensors, in the given order within each element size
// (widest first, so that all are aligned). The same input gives the same bytes. Names, keys and
// values are UTF-8, and no two names or keys are the same. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_FILE, MH_ERROR_MEMORY. After an error the old file is still there.
MH_API mh_status mh_safetensors_write(mh_context *context, const char *path,
                                      const mh_named_tensor *tensors, size_t tensor_count,
                                      const mh_metadata *metadata, size_t metadata_count);

// Writes bytes, such as a text. Errors: MH_ERROR_FILE, MH_ERROR_MEMORY.
MH_API mh_status mh_bytes_write(mh_context *context, const char *path, const void *bytes,
                                size_t size);

#ifdef __cplusplus
}
#endif
#endif
