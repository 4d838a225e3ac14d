// SPDX-License-Identifier: MIT
// Optimiser steps. All are bound by memory: each element is read and written once.
#ifndef MH_OPTIMISER_KERNELS_H
#define MH_OPTIMISER_KERNELS_H

#include "kernels/kernel_types.h"

// With g = gradient_scale * gradient:
//     p = p * decay;  m = m + (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
//     p = p - step * m / (sqrt(v) * root + epsilon)
typedef struct mh_adamw_map {
    float gradient_scale;
    float decay;      // 1 - learning rate * weight decay
    float beta1_rest; // 1 - beta1
    float beta2, beta2_rest;
    float step; // learning rate / (1 - beta1^t)
    float root; // 1 / sqrt(1 - beta2^t)
    float epsilon;
} mh_adamw_map;

// With g = gradient_scale * gradient + weight_decay * p:
//     velocity = momentum * velocity + g;  p = p - rate * (nesterov: g + momentum * velocity,
//     else velocity; without velocity g)
typedef struct mh_sgd_map {
    float gradient_scale, rate, weight_decay, momentum;
    bool nesterov;
} mh_sgd_map;

typedef struct mh_optimiser_kernels {
    // Sum of squares in double, in the same order at all levels.
    double (*sum_squares)(size_t n, const float *x);

    // One step for n parameters; see mh_adamw_map and mh_sgd_map. m, v and velocity are updated.
    void (*adamw)(const mh_adamw_map *map, size_t n, const float *gradient, float *parameter,
                  float *m, float *v);
    void (*sgd)(const mh_sgd_map *map, size_t n, const float *gradient, float *parameter,
                float *velocity); // velocity NULL: no momentum
} mh_optimiser_kernels;

#endif
