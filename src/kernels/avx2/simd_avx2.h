// SPDX-License-Identifier: MIT
// Vectors of eight floats: AVX2, FMA and F16C.
#ifndef MH_SIMD_AVX2_H
#define MH_SIMD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VL = 8 };
typedef __m256 vf;

static inline __m256i vf_tail(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vf vf_iota(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
// Whole vectors are the common case, and masked stores take 20 cycles on AMD CPUs.
static inline vf vf_load_n(const float *p, size_t n, float fill)
{
    if (n >= VL)
        return vf_load(p);
    __m256i m = vf_tail(n);
    return _mm256_blendv_ps(vf_set1(fill), _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m));
}
static inline void vf_store_n(float *p, size_t n, vf v)
{
    if (n >= VL)
        vf_store(p, v);
    else
        _mm256_maskstore_ps(p, vf_tail(n), v);
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
// Even and odd elements of 2 VL; and the inverse for f32.
static inline void vf_load_bf16_pair(const uint16_t *p, vf pair[2])
{
    const __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)p);
    pair[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    pair[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xFFFF0000)));
}
static inline void vf_store_pair(float *p, vf even, vf odd)
{
    const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(p + VL, _mm256_permute2f128_ps(low, high, 0x31));
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void vf_store_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); } // b if either is NaN
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); } // b if either is NaN
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(vf_set1(-0.0f), a); }
static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_split(vf a, vf *n)
{
    *n = vf_round(a);
    return _mm256_sub_ps(a, *n);
}
// p * 2^n where both are normal; NaN stays NaN, as a NaN n becomes 0 here.
static inline vf vf_scale_normal(vf p, vf n)
{
    __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), e));
}
static inline vf vf_scale_any(vf p, vf n) // p * 2^n, rounded once, n in -252..254
{
    vf half = vf_round(vf_mul(n, vf_set1(0.5f)));
    vf power = vf_scale_normal(vf_set1(1), half),
       rest = vf_scale_normal(vf_set1(1), vf_sub(n, half));
    return vf_mul(vf_mul(p, power), rest);
}
static inline vf vf_split_exponent(vf a, vf *exponent) // a = m * 2^e, sqrt(1/2) <= m < sqrt(2)
{
    const __m256i root = _mm256_set1_epi32(0x3F3504F3);
    __m256i bits = _mm256_add_epi32(_mm256_castps_si256(a),
                                    _mm256_sub_epi32(_mm256_set1_epi32(0x3F800000), root));
    __m256i e = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127));
    *exponent = _mm256_cvtepi32_ps(e);
    bits = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFF));
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, root));
}

static inline vf vf_zero_if_less(vf v, vf a, vf b)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), v);
}
static inline vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline bool vf_any_greater(vf a, vf b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0;
}
static inline unsigned vf_not_equal_bits(vf a, vf b)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ));
}
static inline vf vf_blend(unsigned bits, vf yes, vf no)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i chosen = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_cmpeq_epi32(chosen, lane)));
}

static inline float vf_hmax(vf a)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
static inline float vf_hsum(vf a)
{
    __m128 m = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_add_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
}

// Four columns of eight rows, from column c on. Rows 4 apart are combined by the loads, so that
// only pairs and quads remain to be shuffled. Rows from `most` (4 or 8) on count as 0.
static inline void vf_load_columns(const size_t most, const float *const row[VL], size_t c,
                                   vf column[4])
{
    vf r[4];
    for (size_t i = 0; i < 4; i++)
        r[i] = _mm256_set_m128(most > 4 ? _mm_loadu_ps(row[i + 4] + c) : _mm_setzero_ps(),
                               _mm_loadu_ps(row[i] + c));
    const vf low01 = _mm256_unpacklo_ps(r[0], r[1]), high01 = _mm256_unpackhi_ps(r[0], r[1]);
    const vf low23 = _mm256_unpacklo_ps(r[2], r[3]), high23 = _mm256_unpackhi_ps(r[2], r[3]);
    column[0] = _mm256_shuffle_ps(low01, low23, _MM_SHUFFLE(1, 0, 1, 0));
    column[1] = _mm256_shuffle_ps(low01, low23, _MM_SHUFFLE(3, 2, 3, 2));
    column[2] = _mm256_shuffle_ps(high01, high23, _MM_SHUFFLE(1, 0, 1, 0));
    column[3] = _mm256_shuffle_ps(high01, high23, _MM_SHUFFLE(3, 2, 3, 2));
}

static inline uint64_t vb_nonzero_bits(size_t n, const uint8_t *x)
{
    uint8_t padded[64];
    if (n < 64) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, x, n);
        x = padded;
    }
    uint64_t bits = 0;
    for (int j = 0; j < 64; j += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(x + j));
        __m256i zero = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
        bits |= (uint64_t)(uint32_t)~_mm256_movemask_epi8(zero) << j;
    }
    return bits;
}

#endif
