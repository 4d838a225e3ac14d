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
#include "kernels/avx512/simd_avx512.h"
#include "kernels/levels.h"
#include <string.h>

// ---- tile configuration ----------------------------------------------------------------------

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

// ---- GEMM --------------------------------------------------------------------------------------

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
    mh_gemm_prefetch prefetch = x->prefetch ? *x->prefetch : (mh_gemm_prefetch){0};
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

// ---- packing -----------------------------------------------------------------------------------
//
// An A tile is 16 rows of 32 k, a B tile 16 pairs of k by 16 columns: seen as 16 x 16 words of two
// k, each is the transpose of the other. So A is packed from rows, or from transposed pairs of rows
// of A^T; and B from pairs of rows, or from transposed rows of B^T.

static inline __mmask16 some(size_t n) { return (__mmask16)(n >= SIDE ? 0xFFFF : (1u << n) - 1); }

// Two times 16 elements as bf16: they are bf16 already if `narrow`, else f32 to be rounded to
// nearest even (NaN stays NaN).
MH_ALWAYS_INLINE __m512i load_two_bf16(const bool narrow, __mmask16 n_low, const void *low,
                                       __mmask16 n_high, const void *high)
{
    if (!narrow)
        return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(n_high, high),
                                            _mm512_maskz_loadu_ps(n_low, low));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi16(n_low, low)),
                              _mm256_maskz_loadu_epi16(n_high, high), 1);
}

// Up to 16 rows of up to 32 elements, row stride in bytes; padded with 0.
MH_ALWAYS_INLINE void read_rows(const bool narrow, size_t rows, size_t numbers, const char *from,
                                ptrdiff_t stride, __m512i words[SIDE])
{
    const __mmask16 low = some(numbers), high = some(numbers > SIDE ? numbers - SIDE : 0);
    const size_t half = SIDE * (narrow ? sizeof(uint16_t) : sizeof(float));
    for (size_t i = 0; i < SIDE; i++, from += i < rows ? stride : 0)
        words[i] =
            i < rows ? load_two_bf16(narrow, low, from, high, from + half) : _mm512_setzero_si512();
}

// Up to 32 rows of up to 16 elements: rows 2i and 2i + 1 interleaved element by element.
MH_ALWAYS_INLINE void read_pairs(const bool narrow, size_t rows, size_t numbers, const char *from,
                                 ptrdiff_t stride, __m512i words[SIDE])
{
    const __m512i order = _mm512_or_si512(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_slli_epi32(
            _mm512_setr_epi32(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31), 16));
    const __mmask16 all = some(numbers);
    for (size_t i = 0; i < SIDE; i++) {
        const char *even = from + (2 * i < rows ? (ptrdiff_t)(2 * i) * stride : 0);
        const char *odd = from + (2 * i + 1 < rows ? (ptrdiff_t)(2 * i + 1) * stride : 0);
        words[i] =
            _mm512_permutexvar_epi16(order, load_two_bf16(narrow, 2 * i < rows ? all : 0, even,
                                                          2 * i + 1 < rows ? all : 0, odd));
    }
}

MH_ALWAYS_INLINE void write_tile(const bool transposed, __m512i words[SIDE], char *tile)
{
    vf row[SIDE];
    for (size_t i = 0; i < SIDE; i++)
        row[i] = _mm512_castsi512_ps(words[i]);
    if (transposed)
        vf_transpose(row);
    for (size_t i = 0; i < SIDE; i++)
        _mm512_storeu_ps(tile + i * TILE_ROW, row[i]);
}

// A tile of `depth` k by `width` rows or columns.
MH_ALWAYS_INLINE void pack_tile(const bool narrow, const bool pairs, const bool transposed,
                                size_t depth, size_t width, const char *from, ptrdiff_t stride,
                                char *tile)
{
    __m512i words[SIDE];
    if (pairs)
        read_pairs(narrow, depth, width, from, stride, words);
    else
        read_rows(narrow, width, depth, from, stride, words);
    write_tile(transposed, words, tile);
}

// The same, with a branch-free version for whole tiles, which most are.
MH_ALWAYS_INLINE void pack_any_tile(const bool narrow, const bool pairs, const bool transposed,
                                    size_t depth, size_t width, const char *from, ptrdiff_t stride,
                                    char *tile)
{
    if (depth >= STEP && width >= SIDE)
        pack_tile(narrow, pairs, transposed, STEP, SIDE, from, stride, tile);
    else
        pack_tile(narrow, pairs, transposed, depth < STEP ? depth : STEP,
                  width < SIDE ? width : SIDE, from, stride, tile);
}

MH_ALWAYS_INLINE void pack_a_from(const bool narrow, size_t m, size_t k, const void *a,
                                  ptrdiff_t lda, char *tile)
{
    const ptrdiff_t size = narrow ? sizeof(uint16_t) : sizeof(float), stride = lda * size;
    for (size_t i = 0; i < m; i += SIDE)
        for (size_t j = 0; j < k; j += STEP, tile += TILE)
            pack_any_tile(narrow, false, false, k - j, m - i,
                          (const char *)a + (ptrdiff_t)i * stride + (ptrdiff_t)j * size, stride,
                          tile);
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
                          to + i / SIDE * micro_panel);
}

MH_ALWAYS_INLINE void pack_b_from(const bool narrow, const bool transposed, size_t k, size_t n,
                                  const void *b, ptrdiff_t ldb, char *step, size_t columns)
{
    const ptrdiff_t size = narrow ? sizeof(uint16_t) : sizeof(float), stride = ldb * size;
    const ptrdiff_t row = transposed ? size : stride, column = transposed ? stride : size;
    for (size_t i = 0; i < k; i += STEP, step += columns / SIDE * TILE)
        for (size_t j = 0; j < n; j += SIDE)
            pack_any_tile(narrow, !transposed, transposed, k - i, n - j,
                          (const char *)b + (ptrdiff_t)i * row + (ptrdiff_t)j * column, stride,
                          step + j / SIDE * TILE);
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

// Up to 32 columns of two rows, a whole cache line each, as one row of two adjacent tiles. Masks
// select the elements that exist; the others are 0.
MH_ALWAYS_INLINE void pack_pair(const uint16_t *even, __mmask32 n_even, __mmask32 n_odd,
                                ptrdiff_t ldb, size_t width, char *tiles)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i upper = _mm512_maskz_loadu_epi16(n_even, even);
    const __m512i lower = _mm512_maskz_loadu_epi16(n_odd, even + ldb);
    const __m512i low = _mm512_unpacklo_epi16(upper, lower);
    const __m512i high = _mm512_unpackhi_epi16(upper, lower);
    _mm512_storeu_si512(tiles, _mm512_permutex2var_epi64(low, first, high));
    if (width > SIDE)
        _mm512_storeu_si512(tiles + TILE, _mm512_permutex2var_epi64(low, second, high));
}

static void pack_b_bf16(size_t k, size_t n, const uint16_t *b, ptrdiff_t ldb, void *to,
                        size_t columns)
{
    for (size_t i = 0; i < (k + STEP - 1) / STEP * STEP; i += 2, b += i < k ? 2 * ldb : 0) {
        char *tiles = (char *)to + i / STEP * (columns / SIDE) * TILE + i % STEP / 2 * TILE_ROW;
        const __mmask32 even = i < k ? (__mmask32)-1 : 0, odd = i + 1 < k ? even : 0;
        size_t j = 0;
        for (; j + STEP <= n; j += STEP, tiles += 2 * TILE)
            pack_pair(b + j, even, odd, ldb, STEP, tiles);
        const __mmask32 rest = ((__mmask32)1 << (n - j)) - 1;
        if (j < n)
            pack_pair(b + j, even & rest, odd & rest, ldb, n - j, tiles);
    }
}

static void pack_b(size_t k, size_t n, const mh_pack_source *b, void *to, size_t columns)
{
    const bool narrow = b->type == MH_ROW_BF16;
    MH_CONTRACT(b->type != MH_ROW_F16 && n <= columns && columns % SIDE == 0);
    if (narrow && b->transposed)
        pack_b_from(true, true, k, n, b->data, b->stride, to, columns);
    else if (narrow)
        pack_b_bf16(k, n, b->data, b->stride, to, columns);
    else if (b->transposed)
        pack_b_from(false, true, k, n, b->data, b->stride, to, columns);
    else
        pack_b_from(false, false, k, n, b->data, b->stride, to, columns);
}

// Elements of a column are stored in pairs.
static void set_b_column(size_t k, const uint16_t *b, size_t column, void *to, size_t columns)
{
    char *step = (char *)to + column / SIDE * TILE + column % SIDE * sizeof(uint32_t);
    for (size_t i = 0; i < k; i += STEP, step += columns / SIDE * TILE) {
        const size_t left = k - i < STEP ? k - i : STEP;
        uint16_t numbers[STEP] = {0};
        memcpy(numbers, b + i, left * sizeof *b);
        for (size_t pair = 0; pair < STEP / 2; pair++)
            memcpy(step + pair * TILE_ROW, numbers + 2 * pair, sizeof(uint32_t));
    }
}

static void set_b_row(size_t n, const uint16_t *b, size_t row, void *to, size_t columns)
{
    char *first = (char *)to + row / STEP * (columns / SIDE * TILE) + row % STEP / 2 * TILE_ROW +
                  row % 2 * sizeof *b;
    for (size_t j = 0; j < n; j++)
        memcpy(first + j / SIDE * TILE + j % SIDE * sizeof(uint32_t), b + j, sizeof *b);
}

static void unpack_b(size_t k, size_t n, const void *from, size_t columns, float *b, size_t ldb)
{
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    for (size_t i = 0; i < k; i += 2) {
        const char *pair =
            (const char *)from + i / STEP * (columns / SIDE * TILE) + i % STEP / 2 * TILE_ROW;
        for (size_t j = 0; j < n; j += SIDE, pair += TILE) {
            const __m512i both = _mm512_loadu_si512(pair);
            _mm512_storeu_si512(b + i * ldb + j, _mm512_slli_epi32(both, 16));
            if (i + 1 < k)
                _mm512_storeu_si512(b + (i + 1) * ldb + j, _mm512_and_si512(both, upper));
        }
    }
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
