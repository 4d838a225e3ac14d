// SPDX-License-Identifier: MIT
// Activations and their derivatives. y may be x, dx may be dy or x. NaN stays NaN; infinities give
// the limits, so -inf gives +-0.
#ifndef MH_ACTIVATION_KERNELS_H
#define MH_ACTIVATION_KERNELS_H

#include "kernels/kernel_types.h"

typedef struct mh_activation_kernels {
    void (*relu)(size_t n, const float *x, float *y); // max(x, 0)
    // x Phi(x), Phi the normal CDF: within 6 ulp, in the negative tail too.
    void (*gelu)(size_t n, const float *x, float *y);
    // x / (1 + exp(-2u)) = x (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)
    void (*gelu_tanh)(size_t n, const float *x, float *y);
    void (*silu)(size_t n, const float *x, float *y); // x / (1 + exp(-x)), within 3 ulp

    // dx = dy f'(x); ReLU'(0) = 0.
    void (*relu_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*gelu_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*gelu_tanh_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*silu_grad)(size_t n, const float *x, const float *dy, float *dx);

    // y = silu(gate) up;  dgate = dy up silu'(gate), dup = dy silu(gate). Outputs may be inputs.
    void (*swiglu)(size_t n, const float *gate, const float *up, float *y);
    void (*swiglu_grad)(size_t n, const float *gate, const float *up, const float *dy, float *dgate,
                        float *dup);
} mh_activation_kernels;

#endif
