// SPDX-License-Identifier: MIT
// Vectors of one float in plain C, for any machine. Without hardware FMA, vf_fma rounds twice; the
// kernels are written so that this does not cost accuracy where it matters.
#ifndef MH_SIMD_SCALAR_H
#define MH_SIMD_SCALAR_H

#include "base/half.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VL = 1 };
typedef float vf;

static inline vf vf_set1(float x) { return x; }
static inline vf vf_iota(void) { return 0; }
static inline vf vf_load(const float *p) { return *p; }
static inline vf vf_load_n(const float *p, size_t n, float fill) { return n ? *p : fill; }
static inline void vf_store(float *p, vf v) { *p = v; }
static inline void vf_store_n(float *p, size_t n, vf v)
{
    if (n)
        *p = v;
}
static inline vf vf_load_bf16(const uint16_t *p) { return mh_bf16_to_float(*p); }
// Even and odd elements of 2 VL; and the inverse for f32.
static inline void vf_load_bf16_pair(const uint16_t *p, vf pair[2])
{
    pair[0] = mh_bf16_to_float(p[0]);
    pair[1] = mh_bf16_to_float(p[1]);
}
static inline void vf_store_pair(float *p, vf even, vf odd)
{
    p[0] = even;
    p[1] = odd;
}
static inline vf vf_load_f16(const uint16_t *p) { return mh_f16_to_float(*p); }
static inline void vf_store_f16(uint16_t *p, vf v) { *p = mh_float_to_f16(v); }

static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_div(vf a, vf b) { return a / b; }
static inline vf vf_sqrt(vf a) { return sqrtf(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf vf_max(vf a, vf b) { return a > b ? a : b; } // b if either is NaN
static inline vf vf_min(vf a, vf b) { return a < b ? a : b; } // b if either is NaN
static inline vf vf_abs(vf a) { return mh_bits_to_float(mh_float_to_bits(a) & 0x7FFFFFFFu); }

// To the nearest integer for |a| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
static inline vf vf_round(vf a) { return (a + 0x1.8p23f) - 0x1.8p23f; }
static inline uint32_t vf_integer(vf a) // the same integer, two's complement
{
    return mh_float_to_bits(a + 0x1.8p23f) - mh_float_to_bits(0x1.8p23f);
}
static inline vf vf_split(vf a, vf *n)
{
    *n = vf_round(a);
    return a - *n;
}
static inline vf vf_scale_normal(vf p, vf n) // p * 2^n, n in -126..127
{
    return p * mh_bits_to_float((vf_integer(n) + 127) << 23);
}
static inline vf vf_scale_any(vf p, vf n) // p * 2^n, rounded once, n in -252..254
{
    vf half = vf_round(n * 0.5f);
    return vf_scale_normal(vf_scale_normal(p, half), n - half);
}
static inline vf vf_split_exponent(vf a, vf *exponent) // a = m * 2^e, sqrt(1/2) <= m < sqrt(2)
{
    uint32_t bits = mh_float_to_bits(a) + (0x3F800000u - 0x3F3504F3u);
    *exponent = (float)((int32_t)(bits >> 23) - 127);
    return mh_bits_to_float((bits & 0x7FFFFFu) + 0x3F3504F3u);
}

static inline vf vf_zero_if_less(vf v, vf a, vf b) { return a < b ? 0 : v; }
static inline vf vf_select_less(vf a, vf b, vf yes, vf no) { return a < b ? yes : no; }
static inline bool vf_any_greater(vf a, vf b) { return a > b; }
static inline unsigned vf_not_equal_bits(vf a, vf b) { return a != b; }
static inline vf vf_blend(unsigned bits, vf yes, vf no) { return bits & 1u ? yes : no; }

static inline float vf_hmax(vf a) { return a; }
static inline float vf_hsum(vf a) { return a; }
static inline void vf_load_columns(size_t most, const float *const row[VL], size_t c, vf column[4])
{
    (void)most;
    for (size_t j = 0; j < 4; j++)
        column[j] = row[0][c + j];
}

static inline uint64_t vb_nonzero_bits(size_t n, const uint8_t *x)
{
    uint64_t bits = 0;
    for (size_t j = 0; j < n; j++)
        bits |= (uint64_t)(x[j] != 0) << j;
    return bits;
}

#endif
