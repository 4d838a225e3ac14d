// SPDX-License-Identifier: MIT
// The matrix product, naively and in double.
#ifndef MH_TESTS_REF_MATMUL_H
#define MH_TESTS_REF_MATMUL_H

#include <multihead/tensor.h>

// a (M, K), b (K, N); c and error (M, N) dense. `error` is the estimate of what rounding in f32
// may do: each of the K rounding errors is up to 2^-24 of the sum so far, and they walk at random;
// six times the root of their sum of squares is about twice the largest error seen. If b is bf16, a
// may be rounded to it too, which adds three times the root of the squares of 2^-8 a b.
void ref_matmul(const mh_tensor *a, const mh_tensor *b, double *c, double *error);

#endif
