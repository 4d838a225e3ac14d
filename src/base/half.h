// SPDX-License-Identifier: MIT
// bf16 and f16 to f32 and back, one value at a time, exact and rounding to nearest even. The
// kernels have vector versions that are bit-exact with these.
#ifndef MH_BASE_HALF_H
#define MH_BASE_HALF_H

#include <stdint.h>
#include <string.h>

// All ones in inf and NaN only.
enum { MH_BF16_EXPONENT = 0x7F80, MH_F16_EXPONENT = 0x7C00 };

static inline float mh_bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t mh_float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float mh_bf16_to_float(uint16_t half)
{
    return mh_bits_to_float((uint32_t)half << 16);
}

static inline uint16_t mh_float_to_bf16(float value)
{
    uint32_t bits = mh_float_to_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)((bits >> 16) | 0x40u); // a NaN stays one, made quiet
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// f16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
static inline float mh_f16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1Fu, mantissa = half & 0x3FFu;
    if (exponent == 31) // inf, NaN (made quiet, as the hardware does)
        return mh_bits_to_float(sign | 0x7F800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
    if (exponent == 0) { // zero, denormal: mantissa * 2^-24, exact in f32
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return mh_bits_to_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

static inline uint16_t mh_float_to_f16(float value)
{
    uint32_t bits = mh_float_to_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
    if (magnitude >= 0x47800000u) // 65536 and more
        return (uint16_t)(sign | 0x7C00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a denormal, in units of 2^-24
        if (magnitude < 0x33000000u)
            return (uint16_t)sign;
        uint32_t shift = 126 - (magnitude >> 23); // 14..24
        uint32_t full = (magnitude & 0x7FFFFFu) | 0x800000u;
        uint32_t units = full >> shift, rest = full & ((1u << shift) - 1), half = 1u << (shift - 1);
        units += rest > half || (rest == half && (units & 1u));
        return (uint16_t)(sign | units);
    }
    uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13)); // may carry into inf, as it should
}

#endif
