// SPDX-License-Identifier: MIT
// Argument checks shared by all operations.
#ifndef MH_OPS_TENSOR_CHECK_H
#define MH_OPS_TENSOR_CHECK_H

#include <multihead/tensor.h>

// A valid view of `rank` dimensions (-1: any): not NULL, no more elements than memory can hold, no
// strides that reach further, data that is not NULL (unless empty) and aligned to its dtype. `name`
// is for the message. Error: MH_ERROR_ARGUMENT.
mh_status mh_check_tensor(mh_context *context, const char *name, const mh_tensor *t, int rank);

// The same, and a floating-point dtype: f32, bf16, f16. Error: MH_ERROR_UNSUPPORTED too.
mh_status mh_check_float(mh_context *context, const char *name, const mh_tensor *t, int rank);

// The same for f32 alone.
mh_status mh_check_f32(mh_context *context, const char *name, const mh_tensor *t, int rank);

// A float tensor of the shape of `like`; the message names both.
mh_status mh_check_like(mh_context *context, const char *name, const mh_tensor *x,
                        const char *like_name, const mh_tensor *like);

#endif
