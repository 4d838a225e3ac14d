// SPDX-License-Identifier: MIT
// Tensors of integers as indices: token ids, targets, positions.
#ifndef MH_OPS_INDICES_H
#define MH_OPS_INDICES_H

#include <multihead/tensor.h>

// A view of i32 or i64 of `rank` dimensions (-1: any), or an error that names it.
mh_status mh_check_indices(mh_context *context, const char *name, const mh_tensor *t, int rank);

// Element i in C order.
int64_t mh_index_get(const mh_tensor *t, size_t i);

// Checks that all are low <= index < high or equal *except (or NULL); otherwise MH_ERROR_ARGUMENT
// with the position and value of the first that is not.
mh_status mh_check_index_range(mh_context *context, const char *name, const mh_tensor *t,
                               int64_t low, int64_t high, const int64_t *except);

#endif
