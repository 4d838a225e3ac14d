// SPDX-License-Identifier: MIT
// Dequantisation of GGUF's blocks; see gguf_blocks.h. The loops over the values of a block have
// fixed counts and no branches, so that compilers vectorise them.
#include "io/gguf_blocks.h"

#include <stdint.h>

#include "base/half.h"

enum { SMALL = 32, LARGE = 256 }; // values of a block

static float half_at(const unsigned char *b)
{
    return mh_f16_to_float((uint16_t)(b[0] | b[1] << 8));
}

// ---- blocks of 32: low nibbles are values 0 to 15, high ones 16 to 31 ---------------------------

static void q4_0(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 18, to += SMALL) {
        const float d = half_at(b);
        for (int i = 0; i < 16; i++) {
            to[i] = d * (float)((b[2 + i] & 15) - 8);
            to[16 + i] = d * (float)((b[2 + i] >> 4) - 8);
        }
    }
}

static void q4_1(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 20, to += SMALL) {
        const float d = half_at(b), m = half_at(b + 2);
        for (int i = 0; i < 16; i++) {
            to[i] = d * (float)(b[4 + i] & 15) + m;
            to[16 + i] = d * (float)(b[4 + i] >> 4) + m;
        }
    }
}

// Bit i of the 32 at `high` is the fifth bit of value i.
static void five_bits(const unsigned char *high, const unsigned char *low, int q[SMALL])
{
    const uint32_t bits = (uint32_t)high[0] | (uint32_t)high[1] << 8 | (uint32_t)high[2] << 16 |
                          (uint32_t)high[3] << 24;
    for (int i = 0; i < 16; i++) {
        q[i] = (low[i] & 15) | (int)(bits >> i & 1) << 4;
        q[16 + i] = low[i] >> 4 | (int)(bits >> (16 + i) & 1) << 4;
    }
}

static void q5_0(const unsigned char *b, size_t count, float *to)
{
    int q[SMALL];
    for (; count; count--, b += 22, to += SMALL) {
        const float d = half_at(b);
        five_bits(b + 2, b + 6, q);
        for (int i = 0; i < SMALL; i++)
            to[i] = d * (float)(q[i] - 16);
    }
}

static void q5_1(const unsigned char *b, size_t count, float *to)
{
    int q[SMALL];
    for (; count; count--, b += 24, to += SMALL) {
        const float d = half_at(b), m = half_at(b + 2);
        five_bits(b + 4, b + 8, q);
        for (int i = 0; i < SMALL; i++)
            to[i] = d * (float)q[i] + m;
    }
}

static void q8_0(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 34, to += SMALL) {
        const float d = half_at(b);
        for (int i = 0; i < SMALL; i++)
            to[i] = (float)(int8_t)b[2 + i] * d;
    }
}

// ---- blocks of 256: scales of their own for groups of 16 or 32 ----------------------------------

// 16 groups of 16: [scale 4 bits, min 4 bits] x 16, 2 bits x 256, d, dmin. 128 values share 32
// bytes, two bits of each.
static void q2_k(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 84, to += LARGE) {
        const float d = half_at(b + 80), dmin = half_at(b + 82);
        for (int group = 0; group < 16; group++) {
            const float scale = d * (float)(b[group] & 15), min = dmin * (float)(b[group] >> 4);
            const unsigned char *q = b + 16 + group / 8 * 32 + group % 2 * 16;
            const int shift = group / 2 % 4 * 2;
            for (int i = 0; i < 16; i++)
                to[group * 16 + i] = scale * (float)(q[i] >> shift & 3) - min;
        }
    }
}

// The 6-bit scale of one of Q3_K's 16 groups: 4 bits in 8 bytes, 2 bits in 4 more.
static int q3_scale(const unsigned char *s, int group)
{
    const int low = group < 8 ? s[group] & 15 : s[group - 8] >> 4;
    const int high = s[8 + group % 4] >> group / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

// 16 groups of 16: a third bit x 256 (which, if it is 0, subtracts 4), 2 bits x 256, scales, d.
static void q3_k(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 110, to += LARGE) {
        const float d = half_at(b + 108);
        for (int group = 0; group < 16; group++) {
            const float scale = d * (float)q3_scale(b + 96, group);
            const unsigned char *high = b + group % 2 * 16;
            const unsigned char *q = b + 32 + group / 8 * 32 + group % 2 * 16;
            const int shift = group / 2 % 4 * 2, bit = group / 2;
            for (int i = 0; i < 16; i++)
                to[group * 16 + i] =
                    scale * (float)((q[i] >> shift & 3) - (high[i] >> bit & 1 ? 0 : 4));
        }
    }
}

// Scale and min, 6 bits each, of one of the 8 groups of Q4_K and Q5_K, in 12 bytes.
static void group_scales(const unsigned char *s, int group, int *scale, int *min)
{
    if (group < 4) {
        *scale = s[group] & 63;
        *min = s[4 + group] & 63;
        return;
    }
    *scale = (s[4 + group] & 15) | (s[group - 4] >> 6) << 4;
    *min = s[4 + group] >> 4 | (s[group] >> 6) << 4;
}

// 8 groups of 32: d, dmin, scales, 4 bits x 256; two groups share 32 bytes.
static void q4_k(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 144, to += LARGE) {
        const float d = half_at(b), dmin = half_at(b + 2);
        for (int group = 0; group < 8; group++) {
            int scale, min;
            group_scales(b + 4, group, &scale, &min);
            const float ds = d * (float)scale, dm = dmin * (float)min;
            const unsigned char *q = b + 16 + group / 2 * 32;
            const int shift = group % 2 * 4;
            for (int i = 0; i < 32; i++)
                to[group * 32 + i] = ds * (float)(q[i] >> shift & 15) - dm;
        }
    }
}

// The same with a fifth bit: bit `group` of 32 bytes.
static void q5_k(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 176, to += LARGE) {
        const float d = half_at(b), dmin = half_at(b + 2);
        const unsigned char *high = b + 16;
        for (int group = 0; group < 8; group++) {
            int scale, min;
            group_scales(b + 4, group, &scale, &min);
            const float ds = d * (float)scale, dm = dmin * (float)min;
            const unsigned char *q = b + 48 + group / 2 * 32;
            const int shift = group % 2 * 4;
            for (int i = 0; i < 32; i++)
                to[group * 32 + i] =
                    ds * (float)((q[i] >> shift & 15) | (high[i] >> group & 1) << 4) - dm;
        }
    }
}

// 16 groups of 16: 4 bits x 256, 2 bits x 256, int8 scales, d. Of each 128 values, the first 64
// are the low nibbles of 64 bytes, the others the high ones; 32 bytes have two more bits of all.
static void q6_k(const unsigned char *b, size_t count, float *to)
{
    for (; count; count--, b += 210, to += LARGE) {
        const float d = half_at(b + 208);
        for (int group = 0; group < 16; group++) {
            const float scale = d * (float)(int8_t)b[192 + group];
            const int half = group / 8, within = group % 8; // of 128 values, of 8 groups
            const unsigned char *low = b + half * 64 + within % 4 * 16;
            const unsigned char *high = b + 128 + half * 32 + within % 2 * 16;
            const int shift = within / 4 * 4, high_shift = within / 2 * 2;
            for (int i = 0; i < 16; i++)
                to[group * 16 + i] =
                    scale *
                    (float)(((low[i] >> shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
        }
    }
}

// ---- formats ------------------------------------------------------------------------------------

const mh_block_format *mh_block_format_of(unsigned type)
{
    static const mh_block_format formats[] = {
        [2] = {"Q4_0", SMALL, 18, q4_0},   [3] = {"Q4_1", SMALL, 20, q4_1},
        [6] = {"Q5_0", SMALL, 22, q5_0},   [7] = {"Q5_1", SMALL, 24, q5_1},
        [8] = {"Q8_0", SMALL, 34, q8_0},   [10] = {"Q2_K", LARGE, 84, q2_k},
        [11] = {"Q3_K", LARGE, 110, q3_k}, [12] = {"Q4_K", LARGE, 144, q4_k},
        [13] = {"Q5_K", LARGE, 176, q5_k}, [14] = {"Q6_K", LARGE, 210, q6_k},
    };
    return type < sizeof formats / sizeof *formats && formats[type].name ? &formats[type] : NULL;
}
