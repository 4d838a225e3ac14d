// SPDX-License-Identifier: MIT
// One element of a tensor at a time, as a double, whatever its dtype and strides. Slow and
// obvious on purpose: the references must not share a line with the code that they check.
#ifndef MH_TESTS_REF_TENSOR_H
#define MH_TESTS_REF_TENSOR_H

#include <multihead/tensor.h>

// Element (index[0], index[1], ...) of t. Integers beyond 2^53 are not exact.
double ref_get(const mh_tensor *t, const size_t *index);
void ref_set(const mh_tensor *t, const size_t *index, double value);

// Element `index` of the `rank`-dimensional array that t is broadcast to as NumPy does it.
double ref_get_broadcast(const mh_tensor *t, int rank, const size_t *index);

// Steps `index` to the next element in C order; false after the last. Start with all zeros, and
// only if ref_count() is not 0.
bool ref_next(const mh_tensor *t, size_t *index);
size_t ref_count(const mh_tensor *t);

// A new dense copy in C order; the caller frees it. Never NULL.
double *ref_load(const mh_tensor *t);

// `count` zeroed elements of `size` bytes; ends the program if there is no memory, so that
// references need no error paths.
void *ref_alloc(size_t count, size_t size);

#endif
