// SPDX-License-Identifier: MIT
// y = x W^T + b with W and b among a module's parameters: all projections and feed-forward layers.
#ifndef MH_NN_AFFINE_H
#define MH_NN_AFFINE_H

#include "nn/pass.h"
#include <multihead/ops.h>

// Offsets of the parameters, bias MH_NO_PARAMETER if there is none, and where the packed W is. W's
// shape follows from x and y.
typedef struct mh_affine {
    ptrdiff_t weight, bias;
    size_t slot; // in mh_pass.packed; MH_NO_SLOT: never packed
    mh_precision precision;
} mh_affine;

// x (rows, inputs), y (rows, outputs). `options` (or NULL) is the epilogue; its precision, bias and
// packed W are set here.
mh_status mh_affine_forward(mh_context *context, const mh_affine *affine, const mh_pass *pass,
                            const mh_linear_options *options, const mh_tensor *x, mh_tensor *y);

// Adds the parameters' gradients to pass->gradients, or writes them there; and writes dx (data
// NULL: not wanted), with `options` as the epilogue of its product, and through ReLU and dropout
// if their output is given.
mh_status mh_affine_backward(mh_context *context, const mh_affine *affine, const mh_pass *pass,
                             const mh_linear_options *options, const mh_tensor *relu_output,
                             const mh_tensor *x, const mh_tensor *dy, mh_tensor *dx);

#endif
