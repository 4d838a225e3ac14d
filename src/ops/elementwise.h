// SPDX-License-Identifier: MIT
// The loop of elementwise operations on tensors of one shape.
#ifndef MH_OPS_ELEMENTWISE_H
#define MH_OPS_ELEMENTWISE_H

#include "kernels/kernels.h"
#include <multihead/tensor.h>

enum { MH_MOST_OPERANDS = 5, MH_ELEMENTWISE_PART = 1024 };

// Processes n <= MH_ELEMENTWISE_PART consecutive elements, the first of which has index `first` in
// C order: operands in the order of the call, inputs first. Operands that were not contiguous f32
// are copies; out[i] may be in[j] if the caller's tensors are the same.
typedef void (*mh_elementwise_fn)(const mh_kernels *kernels, const void *arg, size_t first,
                                  size_t n, float *const *operands);

// Calls `part` for all elements of `inputs` + `outputs` tensors of equal shape, which the caller
// has checked (f32, bf16 or f16). Inputs are widened, outputs rounded. No memory is allocated.
void mh_elementwise(mh_context *context, mh_elementwise_fn part, const void *arg, int inputs,
                    int outputs, const mh_tensor *const *operands);

#endif
