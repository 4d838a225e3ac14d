// SPDX-License-Identifier: MIT
// Elementwise kernels: arithmetic, functions, conversions, dropout, and predicates as bit masks.
#ifndef MH_ELEMENTWISE_KERNELS_H
#define MH_ELEMENTWISE_KERNELS_H

#include "kernels/kernel_types.h"

typedef struct mh_elementwise_kernels {
    void (*add_row)(size_t n, const float *x, float *y);                  // y += x
    void (*mul_row)(size_t n, const float *x, float *y);                  // y *= x
    void (*add_rows)(size_t n, const float *a, const float *b, float *y); // y = a + b
    void (*axpy)(size_t n, float factor, const float *x, float *y);       // y += factor x

    // y = x * factor + 0, so that every zero is +0. y may be x.
    void (*scale_row)(size_t n, const float *x, float factor, float *y);

    void (*exp)(size_t n, const float *x, float *y);  // within 1 ulp for every float
    void (*log)(size_t n, const float *x, float *y);  // x = 0, normal > 0, inf or NaN
    void (*tanh)(size_t n, const float *x, float *y); // that of the softcap, exposed for its test
    void (*widen_bf16)(size_t n, const uint16_t *x, float *y);
    void (*widen_f16)(size_t n, const uint16_t *x, float *y);
    void (*narrow_bf16)(size_t n, const float *x, uint16_t *y); // round to nearest even
    void (*narrow_f16)(size_t n, const float *x, uint16_t *y);
    // Whether none of n bf16 or f16 elements is inf or NaN (has all bits of `exponent` set).
    bool (*all_finite_16bit)(size_t n, uint16_t exponent, const uint16_t *x);

    // Dropout mask of 64 elements. Bit j is set (keep) if u_j >= threshold, where u_j is 16 bits of
    // philox(counter + j / 8, key), from bit 16 (j % 8) on of its four words read as one integer,
    // first word lowest; j / 8 is added to counter[0].
    uint64_t (*dropout_mask)(uint16_t threshold, const uint32_t key[2], const uint32_t counter[4]);

    // y = x * scale where keep has a 1, else 0; n <= 64. y may be x.
    void (*dropout_row)(uint64_t keep, float scale, size_t n, const float *x, float *y);

    uint64_t (*nonzero_bits)(size_t n, const uint8_t *x);        // n <= 64: bit j = x[j] != 0
    uint64_t (*unequal_bits)(size_t n, const float *x, float y); // n <= 64: bit j = x[j] != y
} mh_elementwise_kernels;

#endif
