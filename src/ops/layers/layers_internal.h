// SPDX-License-Identifier: MIT
// What layers offer to other operations and to modules.
#ifndef MH_OPS_LAYERS_INTERNAL_H
#define MH_OPS_LAYERS_INTERNAL_H

#include "kernels/kernels.h"
#include "ops/row_io.h"
#include <multihead/layers.h>
#include <multihead/tensor.h>
#include <stddef.h>

// ---- activations --------------------------------------------------------------------------------

// The kernel of an activation, for callers that apply it to values outside of tensors.

typedef void (*mh_activation_fn)(size_t n, const float *x, float *y); // y may be x

// Error: MH_ERROR_ARGUMENT if kind is no activation.
mh_status mh_check_activation(mh_context *context, mh_activation kind);

mh_activation_fn mh_activation_kernel(const mh_kernels *kernels, mh_activation kind);

// ---- dropout ------------------------------------------------------------------------------------

// Dropout masks of consecutive elements, for mh_dropout and the epilogue of a linear layer.

// Checks the options and fills `own` from them, with the defaults where the caller's are shorter.
mh_status mh_check_dropout(mh_context *context, const mh_dropout_options *options,
                           mh_dropout_options *own);

// The dropout mask of n <= 64 elements, the first of which has index `first` in C order, counted
// from options->first_index: bit j is set if element j is kept. And the factor of kept elements.
uint64_t mh_dropout_mask(const mh_kernels *kernels, const mh_dropout_options *options,
                         uint64_t first, size_t n);
static inline float mh_keep_scale(const mh_dropout_options *options)
{
    return 1 / (1 - options->probability);
}

// ---- elementwise --------------------------------------------------------------------------------

// The loop of elementwise operations on tensors of one shape.

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

// ---- frequencies --------------------------------------------------------------------------------

// The frequencies of sinusoidal and rotary position embeddings.

// frequency[i] = base^(-2i/width) for i < n, base >= 1; relative error below 1e-14.
void mh_frequencies(double base, size_t width, size_t n, double *frequency);

// ---- norms --------------------------------------------------------------------------------------

// Argument checks shared by the forward and backward passes of the norms.

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
