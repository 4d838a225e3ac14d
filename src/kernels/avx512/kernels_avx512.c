// SPDX-License-Identifier: MIT
#include "kernels/avx512/simd_avx512.h"
#include "kernels/kernels.h"
#include "kernels/levels.h"
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) ||                   \
    !defined(__AVX512VL__)
#error kernels_avx512.c is compiled without its instruction-set flags
#endif

#define MH_NAME(f) f##_avx512
enum { MR = 6, NV = 4 }; // 24 sums, 4 vectors of B and a broadcast: 29 of 32 registers
enum { QUERY_ROWS = 6, ROW_GROUP = 24 }; // for caches of 48 KiB and 2 MiB
enum { PANEL = MH_WHOLE_ROWS };
enum { OUTPUT_ROWS = 12 };
#include "kernels/generic/table.inc"

// As the generic version, with one instruction per 32 x 32-bit product. Compilers use 64-bit
// products, which take three, and reach 0.5 instead of 3 Gelem/s.
static uint64_t dropout_mask_words(uint16_t threshold, const uint32_t key[2],
                                   const uint32_t counter[4])
{
    const __m512i count = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    __m512i x0 = _mm512_add_epi32(_mm512_set1_epi64(counter[0]), count);
    __m512i x1 = _mm512_set1_epi64(counter[1]), x2 = _mm512_set1_epi64(counter[2]);
    __m512i x3 = _mm512_set1_epi64(counter[3]);
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const __m512i a = _mm512_mul_epu32(x0, m0), b = _mm512_mul_epu32(x2, m1);
        x0 =
            _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(b, 32), x1), _mm512_set1_epi64(k0));
        x2 =
            _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(a, 32), x3), _mm512_set1_epi64(k1));
        x1 = b, x3 = a;
    }
    // Words 0 and 1 of a counter next to each other, words 2 and 3, then all four, in the order of
    // counters.
    const __m512i low = _mm512_mask_shuffle_epi32(x0, 0xAAAA, x1, _MM_PERM_CCAA);
    const __m512i high = _mm512_mask_shuffle_epi32(x2, 0xAAAA, x3, _MM_PERM_CCAA);
    const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    const __m512i least = _mm512_set1_epi16((short)threshold);
    const uint64_t kept =
        _mm512_cmpge_epu16_mask(_mm512_permutex2var_epi64(low, first, high), least);
    return kept |
           (uint64_t)_mm512_cmpge_epu16_mask(_mm512_permutex2var_epi64(low, second, high), least)
               << 32;
}

void mh_kernels_fill_avx512(mh_kernels *table)
{
    fill_avx512(table);
    table->elementwise.dropout_mask = dropout_mask_words;
}
