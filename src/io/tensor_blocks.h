// SPDX-License-Identifier: MIT
// Quantised tensors of a file to memory of the caller.
#ifndef MH_IO_TENSOR_BLOCKS_H
#define MH_IO_TENSOR_BLOCKS_H

#include "io/tensor_file.h"

// Dequantises an entry that has blocks: all of it to `to`, of the same shape; or, of a matrix, rows
// that were checked, one for each of to's. Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (`to` is
// not of a float dtype).
mh_status mh_blocks_read(mh_context *context, const mh_file_entry *entry, const int32_t *rows,
                         mh_tensor *to);

#endif
