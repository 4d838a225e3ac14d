// SPDX-License-Identifier: MIT
// bf16 GEMM on AMX tiles. One instruction multiplies 16 x 32 by 32 x 16 elements and accumulates
// into 16 x 16 f32 sums: 16 times the throughput of AVX-512 FMAs.
//
//     A operand                             B operand
//     micro-panels of 16 rows; in each,     steps of 32 k; in each,
//     steps of 32 k:                        blocks of 16 columns:
//
//     row 0   k0 k1 k2 .. k31  bf16         pair 0    c0: k0 k1 | c1: k0 k1 | .. c15
//     ...                                   ...
//     row 15  k0 k1 k2 .. k31               pair 15   c0: k30 k31 | ..          | .. c15
//
// A tile is 1 KiB in both. The tile configuration is per-thread state: the GEMM is used between
// enter() and leave(). Tile products treat denormals as 0, whatever the floating-point environment.
//
// f32 stays with AVX-512 FMAs: split into three bf16 parts per element, six products, it was more
// accurate but no faster; docs/tuning/tuning-log.md has the figures.
#include "kernels/amx/tiles_amx.h"
#include "kernels/levels.h"
#include <string.h>

// ---- tile configuration -------------------------------------------------------------------------

static const struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static void enter(void) { _tile_loadconfig(&shapes); }

static void leave(void) { _tile_release(); }

// A dummy product. AMX powers down after about 1,000 idle cycles and then takes about 800 to wake:
// with this before it, the second product of an attention tile takes half as long. The operands do
// not matter, as all tiles are loaded or cleared before they are used.
static void keep_warm(void) { _tile_dpbf16ps(7, 4, 5); }

// ---- GEMM ---------------------------------------------------------------------------------------

enum { PREFETCH_BYTES = 16 }; // mh_gemm.prefetch_bytes

// What a step over 32 columns prefetches: a part of the next panel, and one row of the target. All
// rows at once would delay the operands; this saves up to a fifth of the time.
MH_ALWAYS_INLINE void prefetch_next(mh_gemm_prefetch *prefetch)
{
    enum { NEXT = STEP * PREFETCH_BYTES / 2 };
    for (size_t line = 0; prefetch->next && line < NEXT;
         line += TILE_ROW, prefetch->next += TILE_ROW)
        MH_PREFETCH_FAR(prefetch->next);
    for (size_t line = 0; prefetch->rows && line < prefetch->bytes; line += TILE_ROW)
        MH_PREFETCH_WRITE(prefetch->target + line);
    if (prefetch->rows)
        prefetch->rows--, prefetch->target += prefetch->stride;
}

MH_ALWAYS_INLINE void gemm_steps(const int micro_panels, const int blocks, size_t steps, operands o,
                                 mh_gemm_prefetch *prefetch)
{
    load_operands(micro_panels, blocks, &o);
    for (size_t i = 0; i + 1 < steps; i++) {
        prefetch_next(prefetch);
        if (micro_panels == 1)
            prefetch_b(blocks, o.b);
        o.a += TILE;
        o.b += o.right_step;
        gemm_step(micro_panels, blocks, &o);
    }
    prefetch_next(prefetch);
    gemm_step(micro_panels, blocks, NULL);
}

MH_ALWAYS_INLINE void gemm_block(const int micro_panels, const int blocks, size_t steps, operands o,
                                 float *c, size_t ldc, bool accumulate, mh_gemm_prefetch *prefetch)
{
    if (accumulate)
        load_sums(micro_panels, blocks, c, ldc);
    else
        clear_sums();
    if (steps)
        gemm_steps(micro_panels, blocks, steps, o, prefetch);
    store_sums(micro_panels, blocks, c, ldc);
}

// All columns over `steps` steps of k.
MH_ALWAYS_INLINE void gemm_columns(const int micro_panels, const mh_gemm_args *x, size_t steps,
                                   operands o, bool accumulate, mh_gemm_prefetch *prefetch)
{
    const size_t ldc = (size_t)x->ldc;
    float *c = x->c;
    size_t n = x->n;
    for (; n >= 2 * SIDE; n -= 2 * SIDE, o.b += 2 * TILE, c += 2 * SIDE)
        gemm_block(micro_panels, 2, steps, o, c, ldc, accumulate, prefetch);
    if (n)
        gemm_block(micro_panels, 1, steps, o, c, ldc, accumulate, prefetch);
}

// K is split so that A, 32 KiB of two micro-panels, stays in the L1 from one block of columns to
// the next. Storing and reloading sums in between costs less.
MH_ALWAYS_INLINE void gemm_micro_panels(const int micro_panels, const mh_gemm_args *x)
{
    enum { STAY = 16 };
    const size_t steps = (x->k + STEP - 1) / STEP;
    const size_t parts = steps > STAY ? (steps + STAY - 1) / STAY : 1;
    mh_gemm_prefetch prefetch = {0};
    if (x->prefetch && !x->prefetch->whole) // prefetch_b is enough for operands that are read once
        prefetch = *x->prefetch;
    operands o = operands_of(x);
    for (size_t i = 0; i < parts; i++) {
        const size_t part = steps * (i + 1) / parts - steps * i / parts;
        gemm_columns(micro_panels, x, part, o, x->accumulate || i > 0, &prefetch);
        o.a += part * TILE;
        o.b += part * o.right_step;
    }
}

static void gemm(const mh_gemm_args *args)
{
    const mh_gemm_args x = *args;
    check_operands(args);
    if (x.m <= SIDE)
        gemm_micro_panels(1, &x);
    else
        gemm_micro_panels(2, &x);
}

static void gemm_softmax(const mh_gemm_args *args, const mh_softmax_tile *step)
{
    if (mh_gemm_softmax_amx(args, step))
        return;
    gemm(args);
    mh_softmax_tile_amx(step);
}

// ---- packing ------------------------------------------------------------------------------------

enum { PADDED = STEP };
static inline size_t b_block(size_t columns) { return (void)columns, TILE; }
static inline size_t b_pair(size_t columns) { return (void)columns, TILE_ROW; }

#include "kernels/avx512bf16/packing_pairs.inc"

MH_ALWAYS_INLINE void pack_a_from(const bool narrow, size_t m, size_t k, const void *a,
                                  ptrdiff_t lda, char *tile)
{
    const ptrdiff_t size = narrow ? sizeof(uint16_t) : sizeof(float), stride = lda * size;
    for (size_t i = 0; i < m; i += SIDE)
        for (size_t j = 0; j < k; j += STEP, tile += TILE)
            pack_any_tile(narrow, false, false, k - j, m - i,
                          (const char *)a + (ptrdiff_t)i * stride + (ptrdiff_t)j * size, stride,
                          SIDE, tile, TILE_ROW);
}

// 32 rows of A^T at a time, each read to its end rather than 64 bytes of every row in turn.
MH_ALWAYS_INLINE void pack_a_t_from(const bool narrow, size_t m, size_t k, const void *a,
                                    ptrdiff_t lda, char *to)
{
    const ptrdiff_t size = narrow ? sizeof(uint16_t) : sizeof(float), stride = lda * size;
    const size_t micro_panel = (k + STEP - 1) / STEP * TILE;
    for (size_t j = 0; j < k; j += STEP, to += TILE)
        for (size_t i = 0; i < m; i += SIDE)
            pack_any_tile(narrow, true, true, k - j, m - i,
                          (const char *)a + (ptrdiff_t)i * size + (ptrdiff_t)j * stride, stride,
                          SIDE, to + i / SIDE * micro_panel, TILE_ROW);
}

static void pack_a(size_t m, size_t k, const mh_pack_source *a, void *to)
{
    const bool narrow = a->type == MH_ROW_BF16;
    MH_CONTRACT(a->type != MH_ROW_F16);
    if (narrow && a->transposed)
        pack_a_t_from(true, m, k, a->data, a->stride, to);
    else if (narrow)
        pack_a_from(true, m, k, a->data, a->stride, to);
    else if (a->transposed)
        pack_a_t_from(false, m, k, a->data, a->stride, to);
    else
        pack_a_from(false, m, k, a->data, a->stride, to);
}

// ---- peak ---------------------------------------------------------------------------------------

// With pseudo-random operands: zeros take less power and run a quarter faster than real data.
static double bf16_peak(size_t iterations, float *sink)
{
    float sums[SIDE * SIDE];
    uint16_t numbers[TILE / sizeof(uint16_t)];
    for (uint32_t i = 0; i < TILE / sizeof *numbers; i++) // of either sign, from 1/2 to 2
        numbers[i] = (uint16_t)(((i + 1) * UINT32_C(2654435761) >> 16 & 0x80FF) | 0x3F00);
    enter();
    clear_sums();
    _tile_loadd(4, numbers, TILE_ROW);
    _tile_loadd(5, numbers, TILE_ROW);
    _tile_loadd(6, numbers, TILE_ROW);
    _tile_loadd(7, numbers, TILE_ROW);
    for (size_t i = 0; i < iterations; i++) {
        GEMM_TILES(0, 4, 6);
        GEMM_TILES(1, 4, 7);
        GEMM_TILES(2, 5, 6);
        GEMM_TILES(3, 5, 7);
    }
    _tile_stored(0, sums, TILE_ROW);
    leave();
    *sink = sums[0];
    return 2.0 * 4 * SIDE * SIDE * STEP * (double)iterations;
}

void mh_kernels_fill_amx(mh_kernels *table)
{
    table->bf16 = (mh_gemm){.rows = ROWS,
                            .micro_panel = SIDE,
                            .step = STEP,
                            .block = 512,
                            .prefetch_bytes = PREFETCH_BYTES,
                            .a_size = sizeof(uint16_t),
                            .b_size = sizeof(uint16_t),
                            .gemv_rows = MH_GEMV_ROWS - 1,
                            .enter = enter,
                            .leave = leave,
                            .keep_warm = keep_warm,
                            .pack_a = pack_a,
                            .pack_b = pack_b,
                            .set_b_column = set_b_column,
                            .set_b_row = set_b_row,
                            .unpack_b = unpack_b,
                            .gemm = gemm,
                            .gemv = mh_gemv_amx};
    table->attention.softmax_tile = mh_softmax_tile_amx;
    table->attention.gemm_softmax = gemm_softmax;
    table->native_bf16 = true;
    table->peak.bf16 = bf16_peak;
}
