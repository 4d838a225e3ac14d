// SPDX-License-Identifier: MIT
// Argument checks shared by the forward and backward passes of the norms.
#ifndef MH_OPS_NORM_H
#define MH_OPS_NORM_H

#include "kernels/kernels.h"
#include "ops/rows.h"
#include <multihead/layers.h>

// Rows of a block, over which weight gradients are summed first; also the rows per task.
enum { MH_NORM_ROWS = 64 };

// The address of a row's mean or rstd; rows count in C order.
static inline float *mh_norm_statistic(const mh_tensor *t, size_t row)
{
    ptrdiff_t steps = 0;
    for (int d = t->rank - 1; d > 0; d--) {
        steps += (ptrdiff_t)(row % t->shape[d]) * t->stride[d];
        row /= t->shape[d];
    }
    return (float *)t->data + steps + (t->rank ? (ptrdiff_t)row * t->stride[0] : 0);
}

// Checks x, and that `statistic` (NULL is fine) is f32 of x's shape without the last dimension;
// that `vector` (NULL is fine) has D elements.
mh_status mh_norm_check_x(mh_context *context, const mh_tensor *x);
mh_status mh_norm_check_statistic(mh_context *context, const char *name, const mh_tensor *statistic,
                                  const mh_tensor *x);
mh_status mh_norm_check_vector(mh_context *context, const char *name, const mh_tensor *vector,
                               const mh_tensor *x);

#endif
