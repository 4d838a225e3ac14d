// SPDX-License-Identifier: MIT
// softmax and log(softmax) over one axis, naively and in double.
#ifndef MH_TESTS_REF_SOFTMAX_H
#define MH_TESTS_REF_SOFTMAX_H

#include <multihead/tensor.h>

// y and error are dense in C order, one value for each element of x; `error` is the estimate of
// what rounding in f32 may do. axis is 0..rank-1.
void ref_softmax(const mh_tensor *x, int axis, bool logarithm, double *y, double *error);

#endif
