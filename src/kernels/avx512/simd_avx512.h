// SPDX-License-Identifier: MIT
// Vectors of sixteen floats: AVX-512 F, BW, DQ and VL.
#ifndef MH_SIMD_AVX512_H
#define MH_SIMD_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VL = 16 };
typedef __m512 vf;

static inline __mmask16 vf_tail(size_t n) { return (__mmask16)((1u << n) - 1); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_iota(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vf vf_load_n(const float *p, size_t n, float fill)
{
    return _mm512_mask_loadu_ps(vf_set1(fill), vf_tail(n), p);
}
static inline void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
static inline void vf_store_n(float *p, size_t n, vf v) { _mm512_mask_storeu_ps(p, vf_tail(n), v); }
static inline vf vf_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
// Even and odd elements of 2 VL; and the inverse for f32.
static inline void vf_load_bf16_pair(const uint16_t *p, vf pair[2])
{
    const __m512i both = _mm512_loadu_si512(p);
    pair[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    pair[1] = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xFFFF0000)));
}
static inline void vf_store_pair(float *p, vf even, vf odd)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(p + VL, _mm512_permutex2var_ps(even, second, odd));
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline void vf_store_f16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); } // b if either is NaN
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); } // b if either is NaN
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// One operation for the fraction and one subtraction; rounding alone would take two.
static inline vf vf_split(vf a, vf *n)
{
    vf f = _mm512_reduce_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    *n = _mm512_sub_ps(a, f);
    return f;
}
static inline vf vf_scale_normal(vf p, vf n) { return _mm512_scalef_ps(p, n); } // p * 2^n
static inline vf vf_scale_any(vf p, vf n) { return _mm512_scalef_ps(p, n); }
static inline vf vf_split_exponent(vf a, vf *exponent) // a = m * 2^e, sqrt(1/2) <= m < sqrt(2)
{
    const __m512i root = _mm512_set1_epi32(0x3F3504F3);
    __m512i bits = _mm512_add_epi32(_mm512_castps_si512(a),
                                    _mm512_sub_epi32(_mm512_set1_epi32(0x3F800000), root));
    __m512i e = _mm512_sub_epi32(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(127));
    *exponent = _mm512_cvtepi32_ps(e);
    bits = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFF));
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, root));
}

static inline vf vf_zero_if_less(vf v, vf a, vf b)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), v);
}
static inline vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), yes);
}
static inline bool vf_any_greater(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
static inline unsigned vf_not_equal_bits(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}
static inline vf vf_blend(unsigned bits, vf yes, vf no)
{
    return _mm512_mask_mov_ps(no, (__mmask16)bits, yes);
}

// Halves, then as AVX2 does: the order of the compilers' own reductions may differ.
static inline __m256 vf_high(vf a) { return _mm512_extractf32x8_ps(a, 1); }
static inline float vf_hmax(vf a)
{
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), vf_high(a));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
static inline float vf_hsum(vf a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), vf_high(a));
    __m128 m = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    m = _mm_add_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
}

// Transposes 4 x 4 elements in each 128-bit lane: pairs, then quads.
static inline void vf_transpose_quads(const vf r[4], vf column[4])
{
    const vf low01 = _mm512_unpacklo_ps(r[0], r[1]), high01 = _mm512_unpackhi_ps(r[0], r[1]);
    const vf low23 = _mm512_unpacklo_ps(r[2], r[3]), high23 = _mm512_unpackhi_ps(r[2], r[3]);
    column[0] = _mm512_shuffle_ps(low01, low23, _MM_SHUFFLE(1, 0, 1, 0));
    column[1] = _mm512_shuffle_ps(low01, low23, _MM_SHUFFLE(3, 2, 3, 2));
    column[2] = _mm512_shuffle_ps(high01, high23, _MM_SHUFFLE(1, 0, 1, 0));
    column[3] = _mm512_shuffle_ps(high01, high23, _MM_SHUFFLE(3, 2, 3, 2));
}

// Four columns of sixteen rows, from column c on. Rows 4 apart are combined by the loads, which
// saves half the shuffles of a transpose in registers. Rows from `most` (8, 12 or 16) on count as
// 0.
static inline void vf_load_columns(const size_t most, const float *const row[VL], size_t c,
                                   vf column[4])
{
    vf r[4];
    for (size_t i = 0; i < 4; i++) {
        r[i] = _mm512_zextps128_ps512(_mm_loadu_ps(row[i] + c));
        r[i] = _mm512_insertf32x4(r[i], _mm_loadu_ps(row[i + 4] + c), 1);
        if (most > 8)
            r[i] = _mm512_insertf32x4(r[i], _mm_loadu_ps(row[i + 8] + c), 2);
        if (most > 12)
            r[i] = _mm512_insertf32x4(r[i], _mm_loadu_ps(row[i + 12] + c), 3);
    }
    vf_transpose_quads(r, column);
}

// Transposes 16 x 16 elements: quads, then 128-bit lanes in two rounds.
static inline void vf_transpose(vf r[VL])
{
    vf quad[VL], half[VL];
    for (size_t i = 0; i < VL; i += 4)
        vf_transpose_quads(r + i, quad + i);
    for (size_t i = 0; i < VL; i += 8) {
        for (size_t j = i; j < i + 4; j++) {
            half[j] = _mm512_shuffle_f32x4(quad[j], quad[j + 4], 0x88);
            half[j + 4] = _mm512_shuffle_f32x4(quad[j], quad[j + 4], 0xDD);
        }
    }
    for (size_t i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(half[i], half[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(half[i], half[i + 8], 0xDD);
    }
}

static inline uint64_t vb_nonzero_bits(size_t n, const uint8_t *x)
{
    __mmask64 wanted = n == 64 ? ~0ull : (1ull << n) - 1;
    __m512i bytes = _mm512_maskz_loadu_epi8(wanted, x);
    return _mm512_test_epi8_mask(bytes, bytes);
}

#endif
