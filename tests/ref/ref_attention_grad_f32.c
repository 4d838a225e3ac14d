// SPDX-License-Identifier: MIT
// The straightforward f32 loops for the gradients: softmax and output of a row, then one pass
// over its pairs that adds to dq, dk and dv where they stand. Errors of the library's gradients
// are quoted as a ratio to this one's.
#include "ref/ref_attention_grad.h"

#include "ref/ref_tensor.h"

#include <stdlib.h>

static float dot(size_t n, const float *a, const float *b)
{
    float sum = 0;
    for (size_t e = 0; e < n; e++)
        sum += a[e] * b[e];
    return sum;
}

static void softmax_row(size_t S, size_t E, float scale, const float *q, const float *k, float *p)
{
    float max = -INFINITY, sum = 0;
    for (size_t j = 0; j < S; j++) {
        p[j] = dot(E, q, k + j * E) * scale;
        max = fmaxf(max, p[j]);
    }
    for (size_t j = 0; j < S; j++) {
        p[j] = expf(p[j] - max);
        sum += p[j];
    }
    for (size_t j = 0; j < S; j++)
        p[j] /= sum;
}

// sum_e dout_e o_e, with o the row's output in f32
static float row_gemm(size_t S, size_t Ev, const float *p, const float *v, const float *dout)
{
    float product = 0;
    for (size_t e = 0; e < Ev; e++) {
        float o = 0;
        for (size_t j = 0; j < S; j++)
            o += p[j] * v[j * Ev + e];
        product += dout[e] * o;
    }
    return product;
}

void ref_attention_backward_f32(size_t T, size_t S, size_t E, size_t Ev, float scale,
                                const float *q, const float *k, const float *v, const float *dout,
                                float *dq, float *dk, float *dv)
{
    float *p = ref_alloc(S, sizeof *p); // (S)
    for (size_t n = 0; n < T * E; n++)
        dq[n] = 0;
    for (size_t n = 0; n < S * E; n++)
        dk[n] = 0;
    for (size_t n = 0; n < S * Ev; n++)
        dv[n] = 0;
    for (size_t i = 0; i < T; i++, q += E, dq += E, dout += Ev) {
        softmax_row(S, E, scale, q, k, p);
        float D = row_gemm(S, Ev, p, v, dout);
        for (size_t j = 0; j < S; j++) {
            float ds = p[j] * (dot(Ev, dout, v + j * Ev) - D) * scale;
            for (size_t e = 0; e < E; e++) {
                dq[e] += ds * k[j * E + e];
                dk[j * E + e] += ds * q[e];
            }
            for (size_t e = 0; e < Ev; e++)
                dv[j * Ev + e] += p[j] * dout[e];
        }
    }
    free(p);
}
