// SPDX-License-Identifier: MIT
// Kernels of one row that reduce it or combine its elements: softmax, norms, RoPE.
#ifndef MH_ROWWISE_KERNELS_H
#define MH_ROWWISE_KERNELS_H

#include "kernels/kernel_types.h"

typedef struct mh_softmax_norm {
    float max, log_sum;
} mh_softmax_norm;

// y = (x - mean) * rstd * weight + bias for one row, weight 1 and bias 0 where NULL.
typedef struct mh_norm_map {
    float mean, rstd; // mean 0: RMS norm
    const float *weight, *bias;
} mh_norm_map;

typedef struct mh_rowwise_kernels {
    // y = softmax(x) over n entries; y may be x. A -inf entry gets 0, and a row of only -inf
    // becomes all zeros. Returns max x and log(sum exp(x - max)), which is -inf for such a row. If
    // y is NULL, these alone are computed, with the same bits.
    mh_softmax_norm (*softmax_row)(size_t n, const float *x, float *y);

    // Sum of n elements; each is read once. And a dot product in one fixed order.
    float (*sum)(size_t n, const float *x);
    float (*dot)(size_t n, const float *x, const float *y);

    // Mean and variance (mean squared deviation) of n > 0 elements, in two passes.
    void (*moments)(size_t n, const float *x, float *mean, float *variance);
    float (*mean_square)(size_t n, const float *x);                               // n > 0
    void (*norm_row)(const mh_norm_map *map, size_t n, const float *x, float *y); // y may be x
    // With g = dy weight and h = (x - mean) rstd: sum = sum of g, product = sum of g h.
    void (*norm_grad_sums)(const mh_norm_map *map, size_t n, const float *x, const float *dy,
                           float *sum, float *product);
    // dx = rstd (g - a - b h); dx may be dy or x.
    void (*norm_grad_row)(const mh_norm_map *map, size_t n, const float *x, const float *dy,
                          float a, float b, float *dx);
    // dweight += dy h, and dbias += dy unless it is NULL.
    void (*norm_grad_weight)(const mh_norm_map *map, size_t n, const float *x, const float *dy,
                             float *dweight, float *dbias);

    // sine_i = sin(position * frequency_i), cosine_i likewise, in double and rounded once, for
    // |position * frequency| < 2^31; exact to 1e-9 up to 1e6. The same bits at every level.
    void (*sin_cos)(size_t n, double position, const double *frequency, float *sine, float *cosine);

    // Rotates n pairs (a, b) to (a c - b s, b c + a s) with c = cosine_i, s = sign * sine_i.
    // Pair i is (x_i, x_{i+n}) or, interleaved, (x_2i, x_{2i+1}). y may be x.
    void (*rope_half)(size_t n, const float *cosine, const float *sine, float sign, const float *x,
                      float *y);
    void (*rope_interleaved)(size_t n, const float *cosine, const float *sine, float sign,
                             const float *x, float *y);
} mh_rowwise_kernels;

#endif
