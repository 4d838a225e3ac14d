// SPDX-License-Identifier: MIT
// y = residual + f(x W^T + bias); see ref_linear.h.
#include "ref/ref_linear.h"

#include "ref/ref_layers.h"
#include "ref/ref_matmul.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <stdlib.h>

void ref_gemm(const mh_tensor *a, const mh_tensor *b, bool rounded, double *c, double *error)
{
    const size_t M = a->shape[0], K = a->shape[1], N = b->shape[1];
    double *left = ref_load(a), *right = ref_load(b); // (M, K), (K, N)
    const mh_tensor wide_a = mh_tensor_2d(left, MH_F64, M, K);
    const mh_tensor wide_b = mh_tensor_2d(right, MH_F64, K, N);
    ref_matmul(&wide_a, &wide_b, c, error);
    for (size_t i = 0; i < M * N && rounded; i++) {
        double terms = c[i] * c[i];
        for (size_t k = 0; k < K; k++) {
            double term = left[i / N * K + k] * right[k * N + i % N];
            terms += term * term;
        }
        error[i] += 0x1p-8 * 4 * sqrt(terms);
    }
    free(left);
    free(right);
}

void ref_linear(const mh_linear_options *options, const mh_tensor *relu_output, bool rounded,
                bool own_residual, const mh_tensor *x, const mh_tensor *weight, ref_layer *layer)
{
    const mh_tensor transposed = mh_tensor_swap(*weight, 0, 1);
    const size_t N = weight->shape[0], count = x->shape[0] * N;
    ref_gemm(x, &transposed, rounded, layer->before, layer->before_error);
    for (size_t i = 0; i < count; i++) {
        const size_t at[2] = {i / N, i % N};
        double sum = layer->before[i], error = layer->before_error[i], held = layer->y[i];
        sum += options->bias ? ref_get(options->bias, &at[1]) : 0;
        error += 0x1p-23 * fabs(sum);
        layer->before[i] = sum;
        layer->before_error[i] = error;
        if (options->activation) { // no slope is above 1.13
            error = 1.2 * error + ref_activation_error(*options->activation, sum);
            sum = ref_activation(*options->activation, sum);
        }
        if (relu_output && ref_get(relu_output, at) == 0)
            sum = error = 0;
        const double residual = options->residual ? ref_get(options->residual, at)
                                : own_residual    ? held
                                                  : 0;
        const double added = options->accumulate ? held : 0;
        layer->y[i] = sum + residual + added;
        layer->y_error[i] = error + 0x1p-23 * (fabs(sum) + fabs(residual) + fabs(added));
    }
}
