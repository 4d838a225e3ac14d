// SPDX-License-Identifier: MIT
// GEMV: up to three rows times an unpacked bf16 matrix, bitwise identical to tile products. For
// each sum TDPBF16PS computes
//
//     even = a0 b0 + a2 b2 + .. + a30 b30      odd = a1 b1 + a3 b3 + .. + a31 b31
//     sum += even + odd
//
// each a chain in that order, from 0, rounded to nearest; denormal inputs and results are 0.
// Products of bf16 are exact in f32, so vector FMAs give the same bits. With one row they keep up
// with memory, and packing, which takes several times as long, is avoided: 4096 x 4096 took 250
// cycles per tile with packing, takes 92 without, and 87 just to read.
#include "kernels/amx/tiles_amx.h"
#include <string.h>

enum { LINE = 2 * SIDE }; // columns of a cache line

// Sums of 32 columns over even or odd k: columns 0 2 .. 30, and 1 3 .. 31.
typedef struct line_sums {
    __m512 even, odd;
} line_sums;

MH_ALWAYS_INLINE void add_row(line_sums *sums, float a, __mmask32 columns, const uint16_t *b)
{
    const __m512i row = _mm512_maskz_loadu_epi16(columns, b);
    const __m512i upper = _mm512_and_si512(row, _mm512_set1_epi32((int)0xFFFF0000));
    const __m512 lower = _mm512_castsi512_ps(_mm512_slli_epi32(row, 16)),
                 factor = _mm512_set1_ps(a);
    sums->even = _mm512_fmadd_ps(factor, lower, sums->even);
    sums->odd = _mm512_fmadd_ps(factor, _mm512_castsi512_ps(upper), sums->odd);
}

MH_ALWAYS_INLINE void add_masked(__mmask16 columns, __m512 x, float *c)
{
    const __m512 before = _mm512_maskz_loadu_ps(columns, c);
    _mm512_mask_storeu_ps(c, columns, _mm512_add_ps(before, x));
}

// One row of a tile of A, as f32, times `depth` <= 32 rows of at most 32 columns; missing rows are
// 0, as in a packed matrix.
MH_ALWAYS_INLINE void add_line(size_t depth, __mmask32 columns, const float a[STEP],
                               const uint16_t *b, ptrdiff_t ldb, float *c)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    line_sums k0 = {_mm512_setzero_ps(), _mm512_setzero_ps()}, k1 = k0;
    for (size_t i = 0; i < STEP; i += 2) {
        add_row(&k0, a[i], i < depth ? columns : 0, b);
        add_row(&k1, a[i + 1], i + 1 < depth ? columns : 0, i + 1 < depth ? b + ldb : b);
        b += i + 2 < depth ? 2 * ldb : 0;
    }
    const __m512 even = _mm512_add_ps(k0.even, k1.even), odd = _mm512_add_ps(k0.odd, k1.odd);
    add_masked((__mmask16)columns, _mm512_permutex2var_ps(even, first, odd), c);
    add_masked((__mmask16)(columns >> SIDE), _mm512_permutex2var_ps(even, second, odd), c + SIDE);
}

// All columns over at most 32 k; from the second row of A on, cache lines of B are in the L1.
MH_ALWAYS_INLINE void add_step(size_t m, size_t n, size_t depth, float a[SIDE][STEP],
                               const uint16_t *b, ptrdiff_t ldb, float *c, size_t ldc)
{
    const __mmask32 all = (__mmask32)-1;
    for (size_t j = 0; j < n; j += LINE)
        for (size_t i = 0; i < m; i++)
            add_line(depth, n - j >= LINE ? all : all >> (LINE - (n - j)), a[i], b + j, ldb,
                     c + i * ldc + j);
}

// The floating-point environment of tiles: round to nearest, denormals are 0. The memory clobber
// keeps loads and stores from moving across.
MH_ALWAYS_INLINE uint32_t enter_flushing(void)
{
    uint32_t saved, flushing = 0x1F80 | 0x8040;
    __asm__ volatile("stmxcsr %0\n\tldmxcsr %1" : "=m"(saved) : "m"(flushing) : "memory");
    return saved;
}
MH_ALWAYS_INLINE void leave_flushing(uint32_t saved)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(saved) : "memory");
}

void mh_gemv_amx(const mh_gemm_args *args)
{
    const mh_gemm_args x = *args;
    MH_CONTRACT(x.m >= 1 && x.m <= MH_GEMV_ROWS && x.b_type == MH_ROW_BF16);
    const uint32_t saved = enter_flushing();
    const char *tile = x.a;
    for (size_t i = 0; i < x.m && !x.accumulate; i++)
        memset(x.c + (ptrdiff_t)i * x.ldc, 0, x.n * sizeof *x.c);
    for (size_t l = 0; l < x.k; l += STEP, tile += TILE) {
        float wide[SIDE][STEP];
        for (size_t i = 0; i < x.m * STEP; i += SIDE) {
            const __m256i narrow = _mm256_loadu_si256((const void *)(tile + i * sizeof(uint16_t)));
            _mm512_storeu_si512(&wide[0][0] + i,
                                _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
        }
        const uint16_t *rows = (const uint16_t *)x.b + (ptrdiff_t)l * x.ldb;
        if (x.k - l >= STEP)
            add_step(x.m, x.n, STEP, wide, rows, x.ldb, x.c, (size_t)x.ldc);
        else
            add_step(x.m, x.n, x.k - l, wide, rows, x.ldb, x.c, (size_t)x.ldc);
    }
    leave_flushing(saved);
}
