// SPDX-License-Identifier: MIT
// c_mn = sum_k a_mk b_kn; see ref_matmul.h.
#include "ref/ref_matmul.h"

#include "ref/ref_tensor.h"

#include <math.h>
#include <stdlib.h>

void ref_matmul(const mh_tensor *a, const mh_tensor *b, double *c, double *error)
{
    size_t M = a->shape[0], K = a->shape[1], N = b->shape[1];
    double *left = ref_load(a), *right = ref_load(b); // (M, K), (K, N)
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            double sum = 0, squares = 0, terms = 0;
            for (size_t k = 0; k < K; k++) {
                double term = left[m * K + k] * right[k * N + n];
                sum += term;
                squares += sum * sum;
                terms += term * term;
            }
            c[m * N + n] = sum;
            error[m * N + n] = 0x1p-24 * 6 * sqrt(squares);
            if (b->dtype == MH_BF16 && a->dtype != MH_BF16)
                error[m * N + n] += 0x1p-8 * 3 * sqrt(terms);
        }
    free(left);
    free(right);
}
