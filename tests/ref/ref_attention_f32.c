// SPDX-License-Identifier: MIT
// The straightforward f32 loop: three passes over a row of scores, no FMA (the build forbids
// contraction), libm's expf. Errors of the library are quoted as a ratio to this one's.
#include "ref/ref_attention.h"
#include "ref/ref_tensor.h"

#include <stdlib.h>

static void attend_row(size_t S, size_t E, size_t Ev, float scale, const float *q, const float *k,
                       const float *v, float *p, float *out)
{
    float max = -INFINITY, sum = 0;
    for (size_t j = 0; j < S; j++) {
        float s = 0;
        for (size_t e = 0; e < E; e++)
            s += q[e] * k[j * E + e];
        p[j] = s * scale;
        max = fmaxf(max, p[j]);
    }
    for (size_t j = 0; j < S; j++) {
        p[j] = expf(p[j] - max);
        sum += p[j];
    }
    for (size_t e = 0; e < Ev; e++) {
        float o = 0;
        for (size_t j = 0; j < S; j++)
            o += p[j] / sum * v[j * Ev + e];
        out[e] = o;
    }
}

void ref_attention_f32(size_t T, size_t S, size_t E, size_t Ev, float scale, const float *q,
                       const float *k, const float *v, float *out)
{
    float *p = ref_alloc(S, sizeof *p); // (S)
    for (size_t i = 0; i < T; i++)
        attend_row(S, E, Ev, scale, q + i * E, k, v, p, out + i * Ev);
    free(p);
}
