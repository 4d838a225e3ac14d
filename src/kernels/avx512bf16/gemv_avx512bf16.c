// SPDX-License-Identifier: MIT
// GEMV: up to four rows times an unpacked bf16 matrix that is read once, in long runs as
// generic/gemv.inc explains. Two rows of B are interleaved to pairs in registers; the sums keep the
// order of columns in which that leaves them until they are complete. Bitwise identical to gemm.
#include "kernels/avx512bf16/pairs_avx512bf16.h"
#include <string.h>

enum {
    RUN = 2048,
    BESIDE = 8,
    LINE = 2 * SIDE
}; // columns of a run, rows of a block, columns of a cache line

// Columns of a run: sums of three and four rows leave room for B in an L1 of 32 KiB, too.
MH_ALWAYS_INLINE size_t gemv_run(size_t m) { return m <= 2 ? RUN : RUN / 2; }

// Sums of a line: columns 0-3 8-11 16-19 24-27, and the others.
typedef struct line_sums {
    __m512 low, high;
} line_sums;

// Rows p and p + 1 of B; row p + 1 is 0 if it does not exist.
MH_ALWAYS_INLINE void add_pair(const int m, const char *a, size_t lda, const uint16_t *b,
                               ptrdiff_t ldb, __mmask32 columns, bool odd,
                               line_sums sums[MH_GEMV_ROWS])
{
    const __m512i first = _mm512_maskz_loadu_epi16(columns, b);
    const __m512i second = _mm512_maskz_loadu_epi16(odd ? columns : 0, odd ? b + ldb : b);
    const __m512bh low = (__m512bh)_mm512_unpacklo_epi16(first, second);
    const __m512bh high = (__m512bh)_mm512_unpackhi_epi16(first, second);
    for (int i = 0; i < m; i++) {
        int32_t pair;
        memcpy(&pair, a + (size_t)i * lda, sizeof pair);
        const __m512bh av = (__m512bh)_mm512_set1_epi32(pair);
        sums[i].low = _mm512_dpbf16_ps(sums[i].low, av, low);
        sums[i].high = _mm512_dpbf16_ps(sums[i].high, av, high);
    }
}

// A line of `depth` rows of B; m is a constant, and so are depth and columns where they are whole.
MH_ALWAYS_INLINE void add_line(const int m, size_t depth, const char *a, size_t lda,
                               const uint16_t *b, ptrdiff_t ldb, __mmask32 columns, bool prefetches,
                               float *to)
{
    const size_t run = gemv_run((size_t)m);
    line_sums sums[MH_GEMV_ROWS];
    for (int i = 0; i < m; i++)
        sums[i] = (line_sums){_mm512_loadu_ps(to + (size_t)i * run),
                              _mm512_loadu_ps(to + (size_t)i * run + SIDE)};
    for (size_t p = 0; p < depth; p += 2) {
        const uint16_t *row = b + (ptrdiff_t)p * ldb;
        if (prefetches) {
            MH_PREFETCH_FAR(row + BESIDE * ldb);
            MH_PREFETCH_FAR(row + (BESIDE + 1) * ldb);
        }
        add_pair(m, a + p * sizeof(uint16_t), lda, row, ldb, columns, p + 1 < depth, sums);
    }
    for (int i = 0; i < m; i++) {
        _mm512_storeu_ps(to + (size_t)i * run, sums[i].low);
        _mm512_storeu_ps(to + (size_t)i * run + SIDE, sums[i].high);
    }
}

// `depth` rows of B, from row k on, by n columns.
MH_ALWAYS_INLINE void add_rows(const int m, size_t depth, size_t k, const mh_gemm_args *x,
                               float *sums)
{
    const char *a = (const char *)x->a + k * sizeof(uint16_t);
    const uint16_t *b = (const uint16_t *)x->b + (ptrdiff_t)k * x->ldb;
    const size_t lda = (size_t)x->lda * sizeof(uint16_t);
    size_t j = 0;
    for (; j + LINE <= x->n; j += LINE)
        add_line(m, depth, a, lda, b + j, x->ldb, (__mmask32)-1, x->from_memory, sums + j);
    if (j < x->n)
        add_line(m, depth, a, lda, b + j, x->ldb, ((__mmask32)1 << (x->n - j)) - 1, false,
                 sums + j);
}

// Sums in the order of columns, and the inverse.
MH_ALWAYS_INLINE void order_columns(size_t n, float *sums)
{
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    for (size_t j = 0; j < n; j += LINE) {
        const __m512 low = _mm512_loadu_ps(sums + j), high = _mm512_loadu_ps(sums + j + SIDE);
        _mm512_storeu_ps(sums + j, _mm512_permutex2var_ps(low, first, high));
        _mm512_storeu_ps(sums + j + SIDE, _mm512_permutex2var_ps(low, second, high));
    }
}
MH_ALWAYS_INLINE void part_columns(size_t n, float *sums)
{
    const __m512i first =
        _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(4));
    for (size_t j = 0; j < n; j += LINE) {
        const __m512 left = _mm512_loadu_ps(sums + j), right = _mm512_loadu_ps(sums + j + SIDE);
        _mm512_storeu_ps(sums + j, _mm512_permutex2var_ps(left, first, right));
        _mm512_storeu_ps(sums + j + SIDE, _mm512_permutex2var_ps(left, second, right));
    }
}

// The columns of a run; m is a constant.
MH_ALWAYS_INLINE void gemv_columns(const int m, const mh_gemm_args *x)
{
    _Alignas(64) float sums[2 * RUN]; // (m, run)
    const size_t run = gemv_run((size_t)m);
    memset(sums, 0, (size_t)m * run * sizeof *sums);
    for (int i = 0; i < m && x->accumulate; i++) {
        memcpy(sums + (size_t)i * run, x->c + i * x->ldc, x->n * sizeof *x->c);
        part_columns(x->n, sums + (size_t)i * run);
    }
    size_t p = 0;
    for (; p + BESIDE <= x->k; p += BESIDE)
        add_rows(m, BESIDE, p, x, sums);
    if (p < x->k)
        add_rows(m, x->k - p, p, x, sums);
    for (int i = 0; i < m; i++) {
        order_columns(x->n, sums + (size_t)i * run);
        memcpy(x->c + i * x->ldc, sums + (size_t)i * run, x->n * sizeof *x->c);
    }
}

void mh_gemv_avx512bf16(const mh_gemm_args *args)
{
    MH_CONTRACT(args->m >= 1 && args->m <= MH_GEMV_ROWS && args->b_type == MH_ROW_BF16);
    const size_t run = gemv_run(args->m);
    for (size_t j = 0; j < args->n; j += run) {
        mh_gemm_args x = *args;
        x.b = (const uint16_t *)args->b + j;
        x.c += j;
        x.n = args->n - j < run ? args->n - j : run;
        if (x.m == 1)
            gemv_columns(1, &x);
        else if (x.m == 2)
            gemv_columns(2, &x);
        else if (x.m == 3)
            gemv_columns(3, &x);
        else
            gemv_columns(4, &x);
    }
}
