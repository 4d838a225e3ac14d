// SPDX-License-Identifier: MIT
// The layers besides attention, naively and in double: activations, norms, rotation, the loss.
// Forward and gradient of each; that they belong together is shown by central differences in
// test_layers_gradcheck.
#ifndef MH_TESTS_REF_LAYERS_H
#define MH_TESTS_REF_LAYERS_H

#include <multihead/layers.h>

// f(x) and f'(x), and what f32 may lose in computing them.
double ref_activation(mh_activation kind, double x);
double ref_activation_slope(mh_activation kind, double x);
double ref_activation_error(mh_activation kind, double x);
double ref_activation_slope_error(mh_activation kind, double x);

// One row of layer norm (rms: of RMS norm). weight and bias (n) may be NULL.
void ref_norm(bool rms, size_t n, const double *x, const double *weight, const double *bias,
              double epsilon, double *y, double *mean, double *rstd);

// dx = the row's, dweight and dbias are added to; dbias may be NULL.
void ref_norm_backward(bool rms, size_t n, const double *x, const double *weight, double epsilon,
                       const double *dy, double *dx, double *dweight, double *dbias);

// One row of RoPE: `width` of n numbers are rotated by position / base^(2i/width).
void ref_rope(bool interleaved, size_t n, size_t width, double position, double base,
              const double *x, double *y);

// sin or cos of position / 10000^(2i/D) for column `column` of D
double ref_sinusoid(size_t D, size_t column, double position);

// The loss over N rows of V logits, and its gradient (N, V) unless that is NULL. Returns the
// number of rows that count.
size_t ref_cross_entropy(const mh_cross_entropy_options *options, size_t N, size_t V,
                         const double *logits, const int64_t *targets, double *loss,
                         double *dlogits);

#endif
