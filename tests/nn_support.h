// SPDX-License-Identifier: MIT
// What tests of modules share: parameters none of which is 0 or 1, tensors in and out of double,
// and how far a tensor is from what it should be.
#ifndef MH_TESTS_NN_SUPPORT_H
#define MH_TESTS_NN_SUPPORT_H

#include "support.h"

// The default but for these.
mh_mha_config nn_mha_config(size_t embed_dim, size_t num_heads);
mh_transformer_config nn_transformer_config(mh_transformer_kind kind, size_t d_model, size_t nhead,
                                            size_t dim_feedforward, size_t layers);

// A module with parameters of nn_randomise.
mh_mha *nn_mha(mh_context *context, const mh_mha_config *config, uint64_t seed);
mh_transformer *nn_transformer(mh_context *context, const mh_transformer_config *config,
                               uint64_t seed);

// Initial values, and random numbers instead of zeros and ones.
void nn_randomise(const mh_parameters *parameters, uint64_t seed);

// n random numbers; the caller frees them.
float *nn_floats(uint64_t seed, size_t n);

// A random (B, T, D) tensor as a module takes it: (T, B, D) unless batch_first, (T, D) if
// unbatched.
test_tensor nn_tensor(test_rng *rng, mh_dtype dtype, bool batch_first, bool unbatched, size_t B,
                      size_t T, size_t D, bool plain);

// Its view as (B, T, D).
mh_tensor nn_batch_view(const mh_tensor *t, bool batch_first);

// A new (B, T, D) copy in double, in C order.
double *nn_load(const mh_tensor *t, bool batch_first);

// The largest |found - expected| that rounding to t's dtype does not explain, over the largest
// |expected| plus 0.1, as a gradient may be 0 in truth and rounding errors in practice. `expected`
// (B, T, D) in C order.
double nn_distance(const mh_tensor *t, bool batch_first, const double *expected);
double nn_distance_floats(size_t n, const float *found, const double *expected);

// Fails the test unless all bits are equal. `what` is for the message.
void nn_same_bits(const char *what, size_t n, const float *a, const float *b);

#endif
