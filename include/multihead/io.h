// SPDX-License-Identifier: MIT
// multihead/io.h: tensors in files. Reads .npy, .npz, .safetensors, PyTorch checkpoints, GGUF and
// sharded models, writes .npy and .safetensors.
//
// Files are untrusted input: everything is validated, no allocation exceeds what the file's own
// size justifies, and every error names the file, the tensor, what was found and what was expected.
// Files are written atomically.
//
// Part of libmultihead-model.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_IO_H
#define MULTIHEAD_IO_H

#include <multihead/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- reading ------------------------------------------------------------------------------------

// An open file of named tensors, mapped read-only. Immutable: any thread may read it. If the file
// is truncated while mapped, reading raises SIGBUS, as with every mapping; if it is replaced, as
// all our writers do, the mapping keeps the old contents.
typedef struct mh_tensor_file mh_tensor_file;

// Opens a file; the format is detected from the content:
//
//     .npy                     one tensor, named ""
//     .npz, .safetensors       compressed arrays of an .npz are all inflated
//     PyTorch checkpoints      torch.save, as a ZIP archive (.pt, .pth, .bin) or in the format
//                              before version 1.6. Names of nested dictionaries, lists and tuples
//                              are joined by dots ("model.encoder.weight"), a tensor by itself is
//                              named "", and whatever is not a tensor is ignored
//     .gguf                    versions 2 and 3, little-endian. Elements may be quantised in blocks
//                              (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K): such tensors are
//                              described as f32, and dequantised when they are read
//     *.index.json             tensors in several files next to it (weight_map), opened as one;
//                              those that the index does not list are ignored
//
// A PyTorch checkpoint contains a Python pickle. It is read by an interpreter that has only what
// tensors and plain containers need, and calls nothing; other pickles are rejected by the name of
// the opcode or global. Tensors may have strides and may share memory there.
// Errors: MH_ERROR_FILE (cannot be read), MH_ERROR_FORMAT (rejected), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tensor_file_open(mh_context *context, const char *path,
                                                   mh_tensor_file **file);

// The same for bytes in memory; `name` (or NULL) replaces the path in messages. Borrows the bytes.
// An index is rejected: it has no directory.
MH_API MH_MUST_CHECK mh_status mh_tensor_file_parse(mh_context *context, const char *name,
                                                    const void *bytes, size_t size,
                                                    mh_tensor_file **file);

// Unmaps the file; views of its tensors are no longer valid. NULL is allowed.
MH_API void mh_tensor_file_free(mh_tensor_file *file);

MH_API size_t mh_tensor_file_count(const mh_tensor_file *file);

// The name of tensor i (in the order of the file), borrowed; NULL if there is no such tensor.
MH_API const char *mh_tensor_file_name(const mh_tensor_file *file, size_t i);

// The index of the tensor called `name`; false if there is none.
MH_API bool mh_tensor_file_index(const mh_tensor_file *file, const char *name, size_t *i);

// dtype, shape and strides of tensor i, without data (NULL); false if there is none.
MH_API bool mh_tensor_file_describe(const mh_tensor_file *file, size_t i, mh_tensor *tensor);

// A view of tensor i or of the tensor called `name`; false if there is none, or if its elements are
// quantised in blocks, which only mh_tensor_file_read and _read_rows convert. The view is
// read-only: its memory is the file. Elements that are not aligned in the file, or have another
// byte order, are copied once, when the first view of them is made; the memory is part of the file.
MH_API bool mh_tensor_file_at(const mh_tensor_file *file, size_t i, mh_tensor *tensor);
MH_API bool mh_tensor_file_find(const mh_tensor_file *file, const char *name, mh_tensor *tensor);

// mh_tensor_copy() of tensor i to `to`, of the same shape and any dtype, without that copy. Blocks
// are dequantised on the context's threads, exactly as the `gguf` package does, in f32, and then
// converted; `to` is then of a float dtype.
MH_API MH_MUST_CHECK mh_status mh_tensor_file_read(mh_context *context, const mh_tensor_file *file,
                                                   size_t i, mh_tensor *to);

// The same for some rows: to[r] = row rows[r] of tensor i, a matrix (any number of rows, columns);
// `to` is (count, columns). This is how a table of embeddings is used without a copy of it.
// Errors: MH_ERROR_ARGUMENT (a row that is not there, by its index in `rows`),
// MH_ERROR_UNSUPPORTED.
MH_API MH_MUST_CHECK mh_status mh_tensor_file_read_rows(mh_context *context,
                                                        const mh_tensor_file *file, size_t i,
                                                        const int32_t *rows, size_t count,
                                                        mh_tensor *to);

// How tensor i is stored, for programs that multiply blocks as they are. Borrowed from the file.
typedef struct mh_stored_tensor {
    const char *type; // "Q4_1", or the dtype's name, such as "f32"
    const void *bytes;
    size_t size;         // of all bytes; of strided tensors of a PyTorch checkpoint: those that
                         // they span
    size_t block_values; // 1 unless quantised: the values of a block, of a row's
    size_t block_bytes;
} mh_stored_tensor;

// False if there is no such tensor.
MH_API bool mh_tensor_file_stored(const mh_tensor_file *file, size_t i, mh_stored_tensor *stored);

// Metadata of safetensors (__metadata__) and GGUF: the value for a key, borrowed, or NULL. GGUF's
// numbers are given as text, arrays of more than three elements as their number and type
// ("49152 strings").
MH_API const char *mh_tensor_file_metadata(const mh_tensor_file *file, const char *key);

// Pair i of the metadata, sorted by key, borrowed; false if there is none.
typedef struct mh_metadata {
    const char *key, *value;
} mh_metadata;
MH_API bool mh_tensor_file_metadata_at(const mh_tensor_file *file, size_t i, mh_metadata *metadata);

// ---- writing ------------------------------------------------------------------------------------

// Writes a tensor of any strides as .npy, version 1.0, C order. Errors: MH_ERROR_ARGUMENT;
// MH_ERROR_UNSUPPORTED (bf16, which has no .npy type); MH_ERROR_FILE, MH_ERROR_MEMORY. After an
// error an existing file is unchanged.
MH_API MH_MUST_CHECK mh_status mh_npy_write(mh_context *context, const char *path,
                                            const mh_tensor *tensor);

typedef struct mh_named_tensor {
    const char *name;
    mh_tensor tensor;
} mh_named_tensor;

// Writes tensors of any strides as safetensors, in the given order within each element size
// (widest first, so that all are aligned). Deterministic: the same input gives the same bytes.
// Names, keys and values are UTF-8; names are unique, and so are keys. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_FILE, MH_ERROR_MEMORY. After an error an existing file is unchanged.
MH_API MH_MUST_CHECK mh_status mh_safetensors_write(mh_context *context, const char *path,
                                                    const mh_named_tensor *tensors,
                                                    size_t tensor_count,
                                                    const mh_metadata *metadata,
                                                    size_t metadata_count);

// Writes bytes, such as text. Errors: MH_ERROR_FILE, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_bytes_write(mh_context *context, const char *path,
                                              const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
