// SPDX-License-Identifier: MIT
// Vectors of four floats: NEON, which every 64-bit ARM has.
#ifndef MH_SIMD_NEON_H
#define MH_SIMD_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VL = 4 };
typedef float32x4_t vf;

static inline vf vf_set1(float x) { return vdupq_n_f32(x); }
static inline vf vf_iota(void)
{
    static const float numbers[4] = {0, 1, 2, 3};
    return vld1q_f32(numbers);
}
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline vf vf_load_n(const float *p, size_t n, float fill)
{
    float t[4] = {fill, fill, fill, fill};
    memcpy(t, p, n * sizeof *p);
    return vld1q_f32(t);
}
static inline void vf_store(float *p, vf v) { vst1q_f32(p, v); }
static inline void vf_store_n(float *p, size_t n, vf v)
{
    float t[4];
    vst1q_f32(t, v);
    memcpy(p, t, n * sizeof *p);
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
// Even and odd elements of 2 VL; and the inverse for f32.
static inline void vf_load_bf16_pair(const uint16_t *p, vf pair[2])
{
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(p));
    pair[0] = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    pair[1] = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xFFFF0000u)));
}
static inline void vf_store_pair(float *p, vf even, vf odd)
{
    vst2q_f32(p, (float32x4x2_t){{even, odd}});
}
static inline vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void vf_store_f16(uint16_t *p, vf v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_max(vf a, vf b) { return vmaxq_f32(a, b); } // NaN if either is NaN
static inline vf vf_min(vf a, vf b) { return vminq_f32(a, b); } // NaN if either is NaN
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); }
static inline vf vf_split(vf a, vf *n)
{
    *n = vf_round(a);
    return vsubq_f32(a, *n);
}
static inline vf vf_scale_normal(vf p, vf n) // p * 2^n, n in -126..127
{
    int32x4_t e = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(p, vreinterpretq_f32_s32(e));
}
static inline vf vf_scale_any(vf p, vf n) // p * 2^n, rounded once, n in -252..254
{
    vf half = vf_round(vf_mul(n, vf_set1(0.5f)));
    return vf_scale_normal(vf_scale_normal(p, half), vf_sub(n, half));
}
static inline vf vf_split_exponent(vf a, vf *exponent) // a = m * 2^e, sqrt(1/2) <= m < sqrt(2)
{
    const uint32x4_t root = vdupq_n_u32(0x3F3504F3u);
    uint32x4_t bits = vaddq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(0x3F800000u - 0x3F3504F3u));
    int32x4_t e = vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(bits, 23)), vdupq_n_s32(127));
    *exponent = vcvtq_f32_s32(e);
    return vreinterpretq_f32_u32(vaddq_u32(vandq_u32(bits, vdupq_n_u32(0x7FFFFFu)), root));
}

static inline vf vf_zero_if_less(vf v, vf a, vf b)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(a, b)));
}
static inline vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return vbslq_f32(vcltq_f32(a, b), yes, no);
}
static inline bool vf_any_greater(vf a, vf b) { return vmaxvq_u32(vcgtq_f32(a, b)) != 0; }
static inline uint32x4_t vf_lane_bit(void)
{
    static const uint32_t bits[4] = {1, 2, 4, 8};
    return vld1q_u32(bits);
}
static inline unsigned vf_not_equal_bits(vf a, vf b)
{
    return vaddvq_u32(vbicq_u32(vf_lane_bit(), vceqq_f32(a, b)));
}
static inline vf vf_blend(unsigned bits, vf yes, vf no)
{
    return vbslq_f32(vtstq_u32(vdupq_n_u32(bits), vf_lane_bit()), yes, no);
}

static inline float vf_hmax(vf a) { return vmaxvq_f32(a); }
static inline float vf_hsum(vf a)
{
    float32x2_t pairs = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(pairs, 0) + vget_lane_f32(pairs, 1);
}
// Four columns of four rows, from column c on.
static inline void vf_load_columns(size_t most, const float *const row[VL], size_t c, vf column[4])
{
    (void)most; // there are only four rows
    const float32x4x2_t a = vtrnq_f32(vld1q_f32(row[0] + c), vld1q_f32(row[1] + c));
    const float32x4x2_t b = vtrnq_f32(vld1q_f32(row[2] + c), vld1q_f32(row[3] + c));
    column[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    column[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    column[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    column[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

static inline uint64_t vb_nonzero_bits(size_t n, const uint8_t *x)
{
    uint64_t bits = 0;
    for (size_t j = 0; j < n; j++)
        bits |= (uint64_t)(x[j] != 0) << j;
    return bits;
}

#endif
