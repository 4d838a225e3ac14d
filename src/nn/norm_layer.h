// SPDX-License-Identifier: MIT
// A norm over rows of D values, with its weight and bias among a module's parameters.
#ifndef MH_NN_NORM_LAYER_H
#define MH_NN_NORM_LAYER_H

#include "nn/pass.h"
#include <multihead/block.h>

typedef struct mh_norm_layer {
    mh_norm_kind kind;
    float eps;
    ptrdiff_t weight, bias; // MH_NO_PARAMETER: none
} mh_norm_layer;

// Declares prefix + name + ".weight" and, for a layer norm with bias, ".bias".
mh_norm_layer mh_norm_layer_declare(mh_parameter_list *list, const mh_block_config *config,
                                    const char *prefix, const char *name);

// y = norm(x); mean and rstd (rows) are saved for backward. An RMS norm has no mean.
mh_status mh_norm_layer_forward(mh_context *context, const mh_norm_layer *norm, const mh_pass *pass,
                                const mh_tensor *x, mh_tensor *y, float *mean, float *rstd);
mh_status mh_norm_layer_backward(mh_context *context, const mh_norm_layer *norm,
                                 const mh_pass *pass, const mh_tensor *x, const float *mean,
                                 const float *rstd, const mh_tensor *dy, mh_tensor *dx);

#endif
