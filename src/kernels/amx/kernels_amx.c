// SPDX-License-Identifier: MIT
// The bf16 matrix product on AMX tiles. One instruction multiplies 16 x 32 by 32 x 16 numbers and
// adds to 16 x 16 f32 sums: 16 times the work of the AVX-512 multiply-adds in the same time.
//
//     left operand                          right operand
//     groups of 16 rows; in each,           steps of 32 k; in each,
//     steps of 32 k:                        blocks of 16 columns:
//
//     row 0   k0 k1 k2 .. k31  bf16         pair 0    c0: k0 k1 | c1: k0 k1 | .. c15
//     ...                                   ...
//     row 15  k0 k1 k2 .. k31               pair 15   c0: k30 k31 | ..          | .. c15
//
// A tile is 1 KiB either way. The tiles' shapes are state of the thread: the product is used
// between enter() and leave(). Tiles take denormals as 0, whatever the floating-point environment
// says.
//
// f32 stays with the multiply-adds of AVX-512: as three bf16 parts a number, six products, it was
// more accurate but no faster; docs/kernels.md has the figures.
#include "kernels/amx/tiles_amx.h"
#include "kernels/levels.h"
#include <string.h>

// ---- the tiles -------------------------------------------------------------------------------

static const struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static void enter(void) { _tile_loadconfig(&shapes); }

static void leave(void) { _tile_release(); }

// After about 1,000 cycles without work the unit takes some 800 to answer again: the second product
// of an attention tile takes half as long with this before it. What is multiplied does not matter,
// as all tiles are loaded or cleared before they are used.
static void stay_awake(void) { _tile_dpbf16ps(7, 4, 5); }

// ---- the product -------------------------------------------------------------------------------

MH_ALWAYS_INLINE void multiply_block(const int groups, const int blocks, size_t steps, operands o,
                                     float *c, size_t ldc, bool accumulate)
{
    if (accumulate)
        load_sums(groups, blocks, c, ldc);
    else
        clear_sums();
    for (size_t i = 0; i < steps; i++, o.a += TILE, o.b += o.right_step)
        multiply_step(groups, blocks, &o);
    store_sums(groups, blocks, c, ldc);
}

MH_ALWAYS_INLINE void multiply_groups(const int groups, size_t n, size_t k, const void *a,
                                      ptrdiff_t lda, const void *b, size_t ldb, float *c,
                                      size_t ldc, bool accumulate)
{
    const size_t steps = (k + STEP - 1) / STEP;
    operands o = {a, b, (size_t)lda / STEP * TILE, ldb / SIDE * TILE};
    for (; n >= 2 * SIDE; n -= 2 * SIDE, o.b += 2 * TILE, c += 2 * SIDE)
        multiply_block(groups, 2, steps, o, c, ldc, accumulate);
    if (n)
        multiply_block(groups, 1, steps, o, c, ldc, accumulate);
}

static void multiply(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                     size_t ldb, float *c, size_t ldc, bool accumulate)
{
    if (m <= SIDE)
        multiply_groups(1, n, k, a, lda, b, ldb, c, ldc, accumulate);
    else
        multiply_groups(2, n, k, a, lda, b, ldb, c, ldc, accumulate);
}

// ---- packing -----------------------------------------------------------------------------------

static inline __m512 load_some(const float *x, size_t n)
{
    return n >= SIDE ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x);
}

// One step of k for the rows of a group.
static inline void pack_group(size_t m, size_t k, const float *a, ptrdiff_t lda, char *tile)
{
    for (size_t r = 0; r < m; r++, a += lda, tile += TILE_ROW) {
        __m512 low = load_some(a, k);
        __m512 high = k > SIDE ? load_some(a + SIDE, k - SIDE) : _mm512_setzero_ps();
        _mm512_storeu_si512(tile, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

static void pack_left(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to)
{
    char *tile = to;
    for (size_t r = 0; r < m; r += SIDE, a += SIDE * lda)
        for (size_t j = 0; j < k; j += STEP, tile += TILE)
            pack_group(m - r < SIDE ? m - r : SIDE, k - j, a + j, lda, tile);
}

// To nearest even, in the upper half of each f32; NaN stays NaN.
static inline __m512i rounded(const float *row, size_t n)
{
    if (!row)
        return _mm512_setzero_si512();
    __m256i narrow = (__m256i)_mm512_cvtneps_pbh(load_some(row, n));
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
}

// Rows k and k + 1 of the right operand, column by column; NULL is a row of zeros.
static inline void pack_pair(size_t n, const float *even, const float *odd, char *to)
{
    for (size_t j = 0; j < n; j += SIDE, to += TILE) {
        __m512i low = _mm512_srli_epi32(rounded(even ? even + j : NULL, n - j), 16);
        _mm512_storeu_si512(to, _mm512_or_si512(low, rounded(odd ? odd + j : NULL, n - j)));
    }
}

static void pack_right(size_t k, size_t n, const float *b, size_t ldb, void *to, size_t columns)
{
    char *step = to;
    for (size_t i = 0; i < k; i += STEP, step += columns / SIDE * TILE)
        for (size_t j = i; j < i + STEP; j += 2)
            pack_pair(n, j < k ? b + j * ldb : NULL, j + 1 < k ? b + (j + 1) * ldb : NULL,
                      step + (j - i) / 2 * TILE_ROW);
}

// Two numbers of one column lie beside each other.
static void set_right_column(size_t k, const uint16_t *b, size_t column, void *to, size_t columns)
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

static void set_right_row(size_t n, const uint16_t *b, size_t row, void *to, size_t columns)
{
    char *first = (char *)to + row / STEP * (columns / SIDE * TILE) + row % STEP / 2 * TILE_ROW +
                  row % 2 * sizeof *b;
    for (size_t j = 0; j < n; j++)
        memcpy(first + j / SIDE * TILE + j % SIDE * sizeof(uint32_t), b + j, sizeof *b);
}

static void unpack_right(size_t k, size_t n, const void *from, size_t columns, float *b, size_t ldb)
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

// ---- the limit ----------------------------------------------------------------------------------

// With operands of all sorts: zeros take less power, and are multiplied a quarter faster than any
// numbers that somebody would want to have multiplied.
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
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, TILE_ROW);
    leave();
    *sink = sums[0];
    return 2.0 * 4 * SIDE * SIDE * STEP * (double)iterations;
}

void mh_kernels_fill_amx(mh_kernels *table)
{
    table->bf16 = (mh_product){.rows = ROWS,
                               .group = SIDE,
                               .step = STEP,
                               .depth = 256,
                               .left_size = sizeof(uint16_t),
                               .right_size = sizeof(uint16_t),
                               .enter = enter,
                               .leave = leave,
                               .stay_awake = stay_awake,
                               .pack_left = pack_left,
                               .pack_right = pack_right,
                               .set_right_column = set_right_column,
                               .set_right_row = set_right_row,
                               .unpack_right = unpack_right,
                               .multiply = multiply,
                               .soften = mh_soften_amx};
    table->bf16_peak = bf16_peak;
}
