// SPDX-License-Identifier: MIT
// Checksums in the safetensors files we write: models and checkpoints. Metadata has
//
//     "multihead.checksum": "multihead-xxh64:HHHHHHHHHHHHHHHH0000000000000000111111111111111..."
//
// 16 hexadecimal digits for the header, then 16 for each tensor in the order of the data: the XXH64
// of its bytes, so that each tensor is verified as it is read, in any order, independently of the
// others. The header's covers all bytes before the data except its own digits: xxh64(seed =
// xxh64(before them), after them). If the key or the value is damaged, the other still identifies
// it.
#ifndef MH_IO_CHECKSUM_H
#define MH_IO_CHECKSUM_H

#include "io/tensor_file.h"

#define MH_CHECKSUM_KEY  "multihead.checksum"
#define MH_CHECKSUM_MARK "multihead-xxh64:"

enum { MH_CHECKSUM_DIGITS = 16 };

// Whether a metadata pair is a checksum, possibly damaged.
bool mh_is_checksum(const char *key, const char *value);

// ---- writing ------------------------------------------------------------------------------------

// mh_safetensors_write() with checksums; every tensor must be contiguous and not boolean.
mh_status mh_safetensors_write_checked(mh_context *context, const char *path,
                                       const mh_named_tensor *tensors, size_t tensor_count,
                                       const mh_metadata *metadata, size_t metadata_count);

// The value for `tensor_count` tensors, all digits 0, in *size bytes to be freed with mh_free.
char *mh_checksum_value(mh_context *context, size_t tensor_count, size_t *size);

// The position of the digits in the bytes before the data: prefix and header. NULL if absent.
char *mh_checksum_find(const char *header, size_t size);

void mh_checksum_print(uint64_t checksum, char *digits);

// Of the header, with the tensors' digits in place.
uint64_t mh_checksum_of_header(const char *header, size_t size, const char *digits);

// ---- reading ------------------------------------------------------------------------------------

// Sets file->checksum and file->header_changed from the metadata; `header` includes the prefix.
void mh_checksum_open(mh_tensor_file *file, const char *header, size_t size);

// A file whose checksums are verified.
typedef struct mh_verified {
    const mh_source *source;    // for messages
    const mh_tensor_file *file; // without checksums, verification succeeds
    const char *advice;         // ends the messages: what to do about a changed file
} mh_verified;

// MH_ERROR_FORMAT if the header is not as it was saved.
mh_status mh_verify_header(const mh_verified *v);

// mh_tensor_copy() of `from`, a view of all of tensor `index`, that verifies the checksum: *to is
// complete, but corrupt, if the result is MH_ERROR_FORMAT.
mh_status mh_verify_copy(const mh_verified *v, size_t index, const mh_tensor *from, mh_tensor *to);

// Header and all tensors, where they are mapped: MH_ERROR_FORMAT for the first that was changed.
mh_status mh_verify_all(const mh_verified *v);

#endif
