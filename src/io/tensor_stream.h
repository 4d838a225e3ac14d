// SPDX-License-Identifier: MIT
// Shared by both writers: validates a tensor, and writes its elements in C order.
#ifndef MH_IO_TENSOR_STREAM_H
#define MH_IO_TENSOR_STREAM_H

#include <multihead/tensor.h>

#include "support/file.h"
#include "support/source.h"

// MH_ERROR_ARGUMENT if the tensor is invalid, with a message that names the target's path and the
// tensor. Sets its size in bytes.
mh_status mh_stream_check(const mh_source *target, const char *name, const mh_tensor *tensor,
                          size_t *bytes);

// Size of the scratch buffer of mh_stream_tensor.
enum { MH_STREAM_BYTES = 1 << 18 };

// Writes the elements of any strides in C order, bit-exact. Booleans become 0 or 1. `buffer` has
// MH_STREAM_BYTES.
mh_status mh_stream_tensor(mh_context *context, mh_file_writer *writer, const mh_tensor *tensor,
                           void *buffer);

#endif
