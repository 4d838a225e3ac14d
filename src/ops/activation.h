// SPDX-License-Identifier: MIT
// The kernel of an activation, for callers that apply it to values outside of tensors.
#ifndef MH_OPS_ACTIVATION_H
#define MH_OPS_ACTIVATION_H

#include "kernels/kernels.h"
#include <multihead/layers.h>

typedef void (*mh_activation_fn)(size_t n, const float *x, float *y); // y may be x

// Error: MH_ERROR_ARGUMENT if kind is no activation.
mh_status mh_check_activation(mh_context *context, mh_activation kind);

mh_activation_fn mh_activation_kernel(const mh_kernels *kernels, mh_activation kind);

#endif
