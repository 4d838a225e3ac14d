// SPDX-License-Identifier: MIT
// Linear layers and their gradients, naively and in double, with what f32 may lose in them.
#ifndef MH_TESTS_REF_LINEAR_H
#define MH_TESTS_REF_LINEAR_H

#include <multihead/ops.h>

// c = a b with a (M, K), b (K, N), and the error as ref_matmul estimates it; with `rounded` both
// operands may also have been rounded to bf16, whose errors, up to 2^-8 a b each, walk at random:
// 4 times the root of the sum of their squares is more than 6 standard deviations.
void ref_gemm(const mh_tensor *a, const mh_tensor *b, bool rounded, double *c, double *error);

// What mh_linear writes, all (M, N) dense: before the activation, and y, whose values before the
// call are in y already (they count if they are the residual or accumulated to), each with its
// error. options->residual NULL and own_residual: y itself is the residual.
typedef struct ref_layer {
    double *before, *before_error, *y, *y_error;
} ref_layer;
void ref_linear(const mh_linear_options *options, const mh_tensor *relu_output, bool rounded,
                bool own_residual, const mh_tensor *x, const mh_tensor *weight, ref_layer *layer);

#endif
