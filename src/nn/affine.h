// SPDX-License-Identifier: MIT
// y = x W^T + b with W and b among a module's parameters: all projections and feed-forward layers.
#ifndef MH_NN_AFFINE_H
#define MH_NN_AFFINE_H

#include "nn/parameter_list.h"
#include <multihead/ops.h>

// Offsets of the parameters; bias may be MH_NO_PARAMETER. W's shape follows from x and y.
typedef struct mh_affine {
    ptrdiff_t weight, bias;
    mh_precision precision;
} mh_affine;

// x (rows, inputs), y (rows, outputs). `options` (or NULL) is the epilogue, and may have W packed;
// its precision and bias are set here.
mh_status mh_affine_forward(mh_context *context, const mh_affine *affine, const float *parameters,
                            const mh_linear_options *options, const mh_tensor *x, mh_tensor *y);

// Adds the parameters' gradients to `gradients` (NULL: not wanted), or if `fresh` writes them
// there; and writes dx (data NULL: not wanted), with `options` as the epilogue of its product.
mh_status mh_affine_backward(mh_context *context, const mh_affine *affine, const float *parameters,
                             const mh_linear_options *options, const mh_tensor *x,
                             const mh_tensor *dy, float *gradients, bool fresh, mh_tensor *dx);

#endif
