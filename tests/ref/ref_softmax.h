// SPDX-License-Identifier: MIT
// softmax and log(softmax) over one axis, and the largest of a row, naively and in double.
#ifndef MH_TESTS_REF_SOFTMAX_H
#define MH_TESTS_REF_SOFTMAX_H

#include <multihead/tensor.h>

// y and error are dense in C order, one value for each element of x; `error` is the estimate of
// what rounding in f32 may do. axis is 0..rank-1.
void ref_softmax(const mh_tensor *x, int axis, bool logarithm, double *y, double *error);

// The ids of the K largest of x (V), the largest first and equal ones by ascending id; not those
// that are excluded (V), nor NaN and -inf. -1 behind the last.
void ref_topk(size_t V, const double *x, const bool *excluded, size_t K, int32_t *ids);

#endif
