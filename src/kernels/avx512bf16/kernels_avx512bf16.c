// SPDX-License-Identifier: MIT
// bf16 GEMM by VDPBF16PS: each lane of a sum adds the products of a pair of k, at twice the rate of
// FMAs. pairs_avx512bf16.h draws the operands, generic/gemm.inc explains the register tile:
//
//     sum = a[k] b[k] + (a[k + 1] b[k + 1] + sum)        k = 0, 2, 4, ..
//
// with one rounding to nearest even per addition, denormal inputs and results as 0, whatever the
// floating-point environment: the same bits on every CPU that has the instruction. C is the first
// sum of an accumulating call, so that a product over parts of k has the bits of the whole.
#include "kernels/avx512bf16/pairs_avx512bf16.h"
#include "kernels/levels.h"
#include <string.h>

enum { MR = 6, NV = 4, ROWS = 2 * MR }; // 24 sums, 4 vectors of B and a broadcast of 32 registers
enum { PREFETCH_BYTES = 8 };            // mh_gemm.prefetch_bytes

// What a register tile prefetches into the L2: nothing, a part of the next panel
// (mh_gemm_prefetch), or as many bytes as it reads of B, `ahead` of it. One row times a packed
// matrix does so one step ahead: 1.15 to 1.2 times as fast as with the CPU's prefetchers, but
// several rows 0.6 times.
typedef enum prefetching { NOTHING, NEXT_PANEL, AHEAD } prefetching;

// The operands of a register tile, with bytes between rows of A and between pairs of B.
typedef struct operands {
    const char *a, *b;
    size_t row, pair;
    const char *next; // panel, or NULL
    ptrdiff_t ahead;  // or 0
} operands;

MH_ALWAYS_INLINE __m512bh broadcast_pair(const char *a)
{
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

MH_ALWAYS_INLINE void gemm_pair(const int m, const int nv, const char *a, size_t row, const char *b,
                                __m512 acc[MR][NV])
{
    __m512bh bv[NV];
    for (int j = 0; j < nv; j++)
        bv[j] = (__m512bh)_mm512_loadu_si512(b + j * TILE_ROW);
    for (int i = 0; i < m; i++) {
        const __m512bh av = broadcast_pair(a + (size_t)i * row);
        for (int j = 0; j < nv; j++)
            acc[i][j] = _mm512_dpbf16_ps(acc[i][j], av, bv[j]);
    }
}

// m rows by nv vectors, both constants.
MH_ALWAYS_INLINE void gemm_tile(const int m, const int nv, const prefetching prefetches, operands o,
                                const mh_gemm_args *x, float *c)
{
    __m512 acc[MR][NV];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] =
                x->accumulate ? _mm512_loadu_ps(c + i * x->ldc + j * SIDE) : _mm512_setzero_ps();
    for (size_t p = 0; p < x->k; p += STEP, o.a += TILE_ROW, o.b += STEP / 2 * o.pair) {
        const size_t pairs = x->k - p < STEP ? (x->k - p + 1) / 2 : STEP / 2;
        for (size_t line = 0; prefetches == NEXT_PANEL && line < STEP * PREFETCH_BYTES;
             line += TILE_ROW)
            MH_PREFETCH_FAR(o.next + p * PREFETCH_BYTES + line);
        MH_UNROLL(4)
        for (size_t i = 0; i < pairs; i++) {
            const char *b = o.b + i * o.pair;
            for (int j = 0; prefetches == AHEAD && j < nv; j++)
                MH_PREFETCH_FAR(b + o.ahead + j * TILE_ROW);
            gemm_pair(m, nv, o.a + i * sizeof(uint32_t), o.row, b, acc);
        }
    }
    MH_UNROLL(8)
    for (int i = 0; i < m; i++) {
        MH_UNROLL(8)
        for (int j = 0; j < nv; j++)
            _mm512_storeu_ps(c + i * x->ldc + j * SIDE, acc[i][j]);
    }
}

// All columns for m rows: whole register tiles, then one narrower tile for the rest. The first tile
// prefetches the next panel.
MH_ALWAYS_INLINE void gemm_rows(const int m, operands o, const mh_gemm_args *x, float *c)
{
    size_t j = 0;
    for (; j + NV * SIDE <= x->n; j += NV * SIDE, o.b += NV * TILE_ROW, o.next = NULL) {
        if (o.ahead)
            gemm_tile(m, NV, AHEAD, o, x, c + j);
        else if (o.next)
            gemm_tile(m, NV, NEXT_PANEL, o, x, c + j);
        else
            gemm_tile(m, NV, NOTHING, o, x, c + j);
    }
    switch ((x->n - j) / SIDE) {
    case 3:
        gemm_tile(m, 3, NOTHING, o, x, c + j);
        break;
    case 2:
        gemm_tile(m, 2, NOTHING, o, x, c + j);
        break;
    case 1:
        gemm_tile(m, 1, NOTHING, o, x, c + j);
        break;
    default:
        break;
    }
}

// m <= MR rows, which becomes a constant here.
static void gemm_any(size_t m, operands o, const mh_gemm_args *x, float *c)
{
    switch (m) {
    case 1:
        gemm_rows(1, o, x, c);
        break;
    case 2:
        gemm_rows(2, o, x, c);
        break;
    case 3:
        gemm_rows(3, o, x, c);
        break;
    case 4:
        gemm_rows(4, o, x, c);
        break;
    case 5:
        gemm_rows(5, o, x, c);
        break;
    default:
        gemm_rows(MR, o, x, c);
        break;
    }
}

MH_ALWAYS_INLINE void prefetch_target(const mh_gemm_prefetch *prefetch)
{
    for (size_t i = 0; i < prefetch->rows; i++)
        for (size_t line = 0; line < prefetch->bytes; line += TILE_ROW)
            MH_PREFETCH_WRITE(prefetch->target + (ptrdiff_t)i * prefetch->stride + line);
}

// More rows than those of a register tile are two about equal parts.
static void gemm(const mh_gemm_args *args)
{
    const mh_gemm_args x = *args;
    MH_CONTRACT(x.m <= ROWS && x.n % SIDE == 0);
    MH_CONTRACT(x.lda % 2 == 0 && (size_t)x.lda >= x.k);
    MH_CONTRACT(x.ldb % SIDE == 0 && (size_t)x.ldb >= x.n);
    MH_CONTRACT(x.ldc >= 0 && (size_t)x.ldc >= x.n);
    operands o = {x.a,  x.b, (size_t)x.lda * sizeof(uint16_t), (size_t)x.ldb * sizeof(uint32_t),
                  NULL, 0};
    if (x.prefetch && x.prefetch->whole) {
        o.ahead = x.prefetch->next - o.b;
    } else if (x.prefetch) {
        prefetch_target(x.prefetch);
        o.next = x.prefetch->next;
    }
    if (x.m == 1 && !o.ahead)
        o.ahead = (ptrdiff_t)(STEP / 2 * o.pair);
    const size_t first = x.m > MR ? (x.m + 1) / 2 : x.m;
    gemm_any(first, o, &x, x.c);
    o.a += first * o.row, o.next = NULL, o.ahead = 0;
    if (x.m > first)
        gemm_any(x.m - first, o, &x, x.c + (ptrdiff_t)first * x.ldc);
}

static void gemm_softmax(const mh_gemm_args *args, const mh_softmax_tile *step)
{
    gemm(args);
    mh_softmax_tile_avx512bf16(step);
}

// Enough independent chains for a latency of six cycles, with operands that are not 0.
static double bf16_peak(size_t iterations, float *sink)
{
    enum { CHAINS = 12 };
    __m512 acc[CHAINS];
    const __m512bh a = (__m512bh)_mm512_set1_epi32(0x3F8F3F12),
                   b = (__m512bh)_mm512_set1_epi32(0x3F0ABF34);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (size_t n = 0; n < iterations; n++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink = _mm512_cvtss_f32(acc[0]);
    return 2.0 * CHAINS * STEP * (double)iterations;
}

void mh_kernels_fill_avx512bf16(mh_kernels *table)
{
    table->bf16 = (mh_gemm){.rows = ROWS,
                            .micro_panel = 1,
                            .step = 2,
                            .block = 192,
                            .prefetch_bytes = PREFETCH_BYTES,
                            .a_size = sizeof(uint16_t),
                            .b_size = sizeof(uint16_t),
                            .gemv_rows = MH_GEMV_ROWS,
                            .gemm = gemm,
                            .gemv = mh_gemv_avx512bf16};
    mh_packing_avx512bf16(&table->bf16);
    table->attention.softmax_tile = mh_softmax_tile_avx512bf16;
    table->attention.gemm_softmax = gemm_softmax;
    table->native_bf16 = true;
    table->peak.bf16 = bf16_peak;
}
