// SPDX-License-Identifier: MIT
// What the forward and the backward pass of the norms share: their tensors, checked.
#ifndef MH_OPS_NORM_H
#define MH_OPS_NORM_H

#include "kernels/kernels.h"
#include "ops/rows.h"
#include <multihead/layers.h>

// Rows of a block, over which weight gradients are summed first; also the rows of a task.
enum { MH_NORM_ROWS = 64 };

// A statistic (...) of rows (..., D) as a view whose rows have one number: (..., 1).
mh_tensor mh_norm_statistic(const mh_tensor *t);

// Checks x, and that `statistic` (NULL is fine) is f32 of x's shape without the last dimension;
// that `vector` (NULL is fine) has D elements.
mh_status mh_norm_check_x(mh_context *context, const mh_tensor *x);
mh_status mh_norm_check_statistic(mh_context *context, const char *name, const mh_tensor *statistic,
                                  const mh_tensor *x);
mh_status mh_norm_check_vector(mh_context *context, const char *name, const mh_tensor *vector,
                               const mh_tensor *x);

#endif
