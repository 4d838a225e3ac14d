// SPDX-License-Identifier: MIT
// An open file of tensors, and the interface of the readers of each format.
//
//     mh_tensor_file_parse_in              the one way in
//       -> mh_npy_read | mh_npz_read | mh_safetensors_read | mh_torch_zip_read |
//          mh_torch_legacy_read | mh_gguf_read
//                                          bytes -> entries in the order of the file, metadata,
//                                          text
//          mh_shards_read                  an index -> the entries of other files
//       -> mh_tensor_file_place            where they are read
//       -> index by name
//
//     entries   [w1][b1][w2]...            in the order of the file
//     by_name   [->b1][->w1][->w2]...      the same, sorted for bsearch
//     text      "w1\0b1\0w2\0..."          all strings
#ifndef MH_IO_TENSOR_FILE_H
#define MH_IO_TENSOR_FILE_H

#include <multihead/io.h>

#include "support/file.h"
#include "support/source.h"

typedef struct mh_file_entry {
    const char *name;
    const unsigned char *bytes; // in the file
    size_t size;                // of these bytes: checked to be what the shape needs
    bool big_endian;            // .tensor.data is then a byte-swapped copy
    const unsigned char *whole; // the storage that the bytes are a part of, and maybe other
    size_t whole_size;          // tensors, too; NULL: it has one of its own
    struct mh_file_copy *copy;  // to be made before .tensor.data is read; NULL: none
    const struct mh_block_format *blocks; // of quantised elements, which .tensor has as f32
                                          // without data; NULL: they are not
    mh_tensor tensor;                     // .data is set last
} mh_file_entry;

typedef struct mh_gguf_pair mh_gguf_pair;

struct mh_tensor_file {
    mh_allocator allocator;
    mh_mapping mapping; // .data NULL: the bytes are borrowed

    size_t count;
    mh_file_entry *entries;        // (count)
    const mh_file_entry **by_name; // (count)

    size_t metadata_count;
    mh_metadata *metadata; // (metadata_count), sorted by key
    const char *checksum;  // a metadata value, or NULL; see checksum.h
    bool header_changed;   // since the checksum was made

    mh_gguf_pair *pairs; // (pair_count), sorted by key: GGUF's metadata with their types
    size_t pair_count;

    char *text;
    size_t text_size;

    struct mh_file_copies *copies; // of tensors that cannot be read in place, or NULL

    unsigned char *inflated; // compressed members of ZIP archives
    size_t inflated_size;

    mh_tensor_file **shards; // (shard_count), the files of an index: they own the tensors
    size_t shard_count;
};

// Room for `count` entries, `metadata_count` pairs and `text_size` bytes of strings, none of
// which may exceed what the file's own bytes justify. mh_tensor_file_free releases it, also after a
// partial failure.
mh_status mh_tensor_file_reserve(mh_context *context, mh_tensor_file *file, size_t count,
                                 size_t metadata_count, size_t text_size);

// The readers: validate everything and fill entries (but not .tensor.data), metadata and text of a
// file that is otherwise zero. On failure the caller frees the file.
mh_status mh_npy_read(const mh_source *source, mh_tensor_file *file);
mh_status mh_npz_read(const mh_source *source, mh_tensor_file *file);
mh_status mh_safetensors_read(const mh_source *source, mh_tensor_file *file);
mh_status mh_gguf_read(const mh_source *source, mh_tensor_file *file);

// Opens a source whose shards, if it is an index, are in `directory` ("" or ending in a slash);
// NULL: an index is rejected. Takes the mapping, also on failure.
mh_status mh_tensor_file_parse_in(const mh_source *source, const char *directory,
                                  mh_mapping mapping, mh_tensor_file **file);

// Whether a view of tensor i is of the file itself, rather than of a copy that is made for it.
bool mh_tensor_file_in_place(const mh_tensor_file *file, size_t i);

// The bytes of all tensors in the file; those of tensors with several names count once.
size_t mh_tensor_file_bytes(const mh_tensor_file *file);

// mh_tensor_file_open() for a file that must not be an index itself.
mh_status mh_tensor_file_open_shard(mh_context *context, const char *path, mh_tensor_file **file);

// Format detection by the first bytes.
bool mh_is_npy(const mh_source *source);
bool mh_is_zip(const mh_source *source);

// All of a .npy file, except .tensor.data.
mh_status mh_npy_entry(const mh_source *source, mh_file_entry *entry);

#endif
