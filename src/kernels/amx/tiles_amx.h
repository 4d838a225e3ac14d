// SPDX-License-Identifier: MIT
// AMX tiles as the bf16 GEMM uses them; kernels_amx.c draws the layouts of the operands. Tiles 0 to
// 3 are sums: `micro_panels` of 16 rows x `blocks` of 16 columns, 1 or 2 each; 4 and 5 are
// micro-panels of A, 6 and 7 blocks of B.
#ifndef MH_TILES_AMX_H
#define MH_TILES_AMX_H

#include "kernels/avx512bf16/pairs_avx512bf16.h"
// Older versions of clang write these names without the second underscore.
#if !(defined(__AMX_TILE__) || defined(__AMXTILE__)) ||                                            \
    !(defined(__AMX_BF16__) || defined(__AMXBF16__))
#error the directory amx is compiled without its instruction-set flags
#endif

enum { ROWS = 2 * SIDE };

// The first tiles of A and B, and the distances in bytes to the next micro-panel of A and step of
// B.
typedef struct operands {
    const char *a, *b;
    size_t micro_panel, right_step;
} operands;

// The contract of a product of packed operands: whole steps of A, whole blocks of B and C.
MH_ALWAYS_INLINE void check_operands(const mh_gemm_args *x)
{
    MH_CONTRACT(x->m <= ROWS && x->n % SIDE == 0);
    MH_CONTRACT(x->lda % STEP == 0 && (size_t)x->lda >= x->k);
    MH_CONTRACT(x->ldb % SIDE == 0 && (size_t)x->ldb >= x->n);
    MH_CONTRACT(x->ldc >= 0 && (size_t)x->ldc >= x->n);
    (void)x;
}

MH_ALWAYS_INLINE operands operands_of(const mh_gemm_args *x)
{
    return (operands){x->a, x->b, (size_t)x->lda / STEP * TILE, (size_t)x->ldb / SIDE * TILE};
}

MH_ALWAYS_INLINE void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

MH_ALWAYS_INLINE void load_sums(const int micro_panels, const int blocks, const float *c,
                                size_t ldc)
{
    const size_t bytes = ldc * sizeof *c;
    _tile_loadd(0, c, bytes);
    if (blocks > 1)
        _tile_loadd(1, c + SIDE, bytes);
    if (micro_panels > 1)
        _tile_loadd(2, c + SIDE * ldc, bytes);
    if (micro_panels > 1 && blocks > 1)
        _tile_loadd(3, c + SIDE * ldc + SIDE, bytes);
}

MH_ALWAYS_INLINE void store_sums(const int micro_panels, const int blocks, float *c, size_t ldc)
{
    const size_t bytes = ldc * sizeof *c;
    _tile_stored(0, c, bytes);
    if (blocks > 1)
        _tile_stored(1, c + SIDE, bytes);
    if (micro_panels > 1)
        _tile_stored(2, c + SIDE * ldc, bytes);
    if (micro_panels > 1 && blocks > 1)
        _tile_stored(3, c + SIDE * ldc + SIDE, bytes);
}

// With few rows, loading B takes longer than multiplying: B is prefetched three steps of a panel
// ahead. Decoding from a bf16 KV cache takes 0.8 of the time with this; one step or five gain less.
MH_ALWAYS_INLINE void prefetch_b(const int blocks, const char *b)
{
    enum { PREFETCH_BYTES = 3 * MH_PANEL * STEP * sizeof(uint16_t) };
    for (int i = 0; i < blocks * SIDE; i++)
        _mm_prefetch(b + PREFETCH_BYTES + i * TILE_ROW, _MM_HINT_T0);
}

// Issued between any two tile instructions. At times, most likely while the sibling hyper-thread is
// busy, tile instructions issued back to back stall each other: a step of four loads and four
// products then took 300 cycles instead of 64, and takes 180 with this. Else it costs 0 to 3 %.
MH_ALWAYS_INLINE void space_issue(void) { __asm__ volatile("nop;nop;nop;nop;nop;nop"); }

#define LOAD_TILE(tile, from)                                                                      \
    do {                                                                                           \
        _tile_loadd(tile, from, TILE_ROW);                                                         \
        space_issue();                                                                             \
    } while (0)
#define STREAM_TILE(tile, from)                                                                    \
    do {                                                                                           \
        _tile_stream_loadd(tile, from, TILE_ROW);                                                  \
        space_issue();                                                                             \
    } while (0)
#define GEMM_TILES(sums, a, b)                                                                     \
    do {                                                                                           \
        _tile_dpbf16ps(sums, a, b);                                                                \
        space_issue();                                                                             \
    } while (0)

MH_ALWAYS_INLINE void load_operands(const int micro_panels, const int blocks, const operands *o)
{
    STREAM_TILE(6, o->b);
    LOAD_TILE(4, o->a);
    if (micro_panels > 1)
        LOAD_TILE(5, o->a + o->micro_panel);
    if (blocks > 1)
        STREAM_TILE(7, o->b + TILE);
}

// One step of k, whose operands are loaded: sums += a b. Each tile of the next step is loaded right
// after the last product that uses its register. Streaming loads of B bypass the L1, where A stays.
MH_ALWAYS_INLINE void gemm_step(const int micro_panels, const int blocks, const operands *next)
{
    GEMM_TILES(0, 4, 6);
    if (blocks > 1)
        GEMM_TILES(1, 4, 7);
    if (next)
        LOAD_TILE(4, next->a);
    if (micro_panels > 1)
        GEMM_TILES(2, 5, 6);
    if (next)
        STREAM_TILE(6, next->b);
    if (micro_panels > 1 && blocks > 1)
        GEMM_TILES(3, 5, 7);
    if (next && blocks > 1)
        STREAM_TILE(7, next->b + TILE);
    if (next && micro_panels > 1)
        LOAD_TILE(5, next->a + next->micro_panel);
}

// See gemv_amx.c: mh_gemm.gemv.
void mh_gemv_amx(const mh_gemm_args *args);

// See attention_amx.c. The second does gemm_softmax where interleaving pays, and returns whether it
// did.
void mh_softmax_tile_amx(const mh_softmax_tile *step);
bool mh_gemm_softmax_amx(const mh_gemm_args *args, const mh_softmax_tile *step);

#endif
