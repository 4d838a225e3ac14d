// SPDX-License-Identifier: MIT
#include "kernels/avx2/simd_avx2.h"
#include "kernels/kernels.h"
#include "kernels/levels.h"
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error kernels_avx2.c is compiled without its instruction-set flags
#endif

#define MH_NAME(f) f##_avx2
enum { MR = 6, NV = 2 }; // 12 sums, 2 vectors of B and a broadcast: 15 of 16 registers
// for caches of 32 KiB and 512 KiB: docs/tuning/tuning-log.md
enum { QUERY_ROWS = 24, ROW_GROUP = 96 };
enum { PANEL = NV * VL }; // of the KV cache: read in memory order for any number of rows
enum { OUTPUT_ROWS = 2 }; // of a tile of short.inc: 8 sums
#include "kernels/generic/table.inc"

// Ten rounds of Philox on four counters, from counter[0] + first on: the mask of their 32 elements.
// One instruction per 32 x 32-bit product; the generic version uses 64-bit ones, which take three.
static uint32_t dropout_mask_half(uint16_t threshold, const uint32_t key[2],
                                  const uint32_t counter[4], int first)
{
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    const __m256i count = _mm256_setr_epi64x(first, first + 1, first + 2, first + 3);
    __m256i x0 = _mm256_add_epi32(_mm256_set1_epi64x(counter[0]), count);
    __m256i x1 = _mm256_set1_epi64x(counter[1]), x2 = _mm256_set1_epi64x(counter[2]);
    __m256i x3 = _mm256_set1_epi64x(counter[3]);
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const __m256i a = _mm256_mul_epu32(x0, m0), b = _mm256_mul_epu32(x2, m1);
        const __m256i high_a = _mm256_srli_epi64(a, 32), high_b = _mm256_srli_epi64(b, 32);
        x0 = _mm256_xor_si256(_mm256_xor_si256(high_b, x1), _mm256_set1_epi64x(k0));
        x2 = _mm256_xor_si256(_mm256_xor_si256(high_a, x3), _mm256_set1_epi64x(k1));
        x1 = b, x3 = a;
    }
    // Words 0 and 1 of a counter next to each other, words 2 and 3, then all four of counters 0 and
    // 2, and of 1 and 3; packs_epi16 joins these in order.
    const __m256i low = _mm256_blend_epi32(x0, _mm256_slli_epi64(x1, 32), 0xAA);
    const __m256i high = _mm256_blend_epi32(x2, _mm256_slli_epi64(x3, 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    const __m256i least = _mm256_set1_epi16((short)threshold);
    const __m256i kept_even = _mm256_cmpeq_epi16(_mm256_max_epu16(even, least), even);
    const __m256i kept_odd = _mm256_cmpeq_epi16(_mm256_max_epu16(odd, least), odd);
    return (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(kept_even, kept_odd));
}

static uint64_t dropout_mask_packed(uint16_t threshold, const uint32_t key[2],
                                    const uint32_t counter[4])
{
    return dropout_mask_half(threshold, key, counter, 0) |
           (uint64_t)dropout_mask_half(threshold, key, counter, 4) << 32;
}

// Eight elements rounded as mh_float_to_bf16 does, in the low halves of 32-bit words.
static __m256i round_bf16(__m256 x)
{
    const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 chosen =
        _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_add_epi32(bits, half)),
                         _mm256_castsi256_ps(quiet), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
}

// As the generic version, which compiles to twice as many instructions.
static void narrow_bf16_pairs(size_t n, const float *x, uint16_t *y)
{
    size_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        const __m256i both =
            _mm256_packus_epi32(round_bf16(vf_load(x + j)), round_bf16(vf_load(x + j + VL)));
        _mm256_storeu_si256((__m256i *)(void *)(y + j), _mm256_permute4x64_epi64(both, 0xD8));
    }
    for (; j < n; j++)
        y[j] = mh_float_to_bf16(x[j]);
}

void mh_kernels_fill_avx2(mh_kernels *table)
{
    fill_avx2(table);
    table->elementwise.dropout_mask = dropout_mask_packed;
    table->elementwise.narrow_bf16 = narrow_bf16_pairs;
}
