// SPDX-License-Identifier: MIT
// Matrix products on AMX tiles. One instruction multiplies 16 x 32 by 32 x 16 bf16 numbers and
// adds to 16 x 16 f32 sums: 16 times the work of the AVX-512 multiply-adds in the same time.
//
//     left operand                          right operand
//     groups of 16 rows; in each,           steps of 32 k; in each, blocks of 16 columns;
//     steps of 32 k; in each, the parts:    in each, the parts:
//
//     row 0   k0 k1 k2 .. k31  bf16         pair 0    c0: k0 k1 | c1: k0 k1 | .. c15
//     ...                                   ...
//     row 15  k0 k1 k2 .. k31               pair 15   c0: k30 k31 | ..          | .. c15
//
// A tile is 1 KiB either way. A bf16 operand has one part. An f32 operand has three: the nearest
// bf16 number, the one nearest to the rest, and the rest of that, which is all: x = x0 + x1 + x2.
// Of the nine products six are summed, x0 y0 by itself and the five small ones by themselves; the
// other three are below 2^-23 |x y| together, 2^-26 on average. Where x0 y0 gives inf or NaN, so
// does x y, and the small ones, in which inf - inf may stand, are left out.
//
// The tiles' shapes are state of the thread: products are used between enter() and leave().
// Tiles take denormals as 0, whatever the floating-point environment says.
#include "base/compiler.h"
#include "kernels/kernels.h"
#include "kernels/levels.h"
#include <immintrin.h>
#include <string.h>
// Older versions of clang write these names without the second underscore.
#if !(defined(__AMX_TILE__) || defined(__AMXTILE__)) ||                                            \
    !(defined(__AMX_BF16__) || defined(__AMXBF16__)) || !defined(__AVX512BF16__)
#error kernels_amx.c is compiled without its instruction-set flags
#endif

enum { SIDE = 16, STEP = 32, TILE = 1024, TILE_ROW = 64, ROWS = 2 * SIDE };

// ---- the tiles -------------------------------------------------------------------------------

static const struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static void enter(void) { _tile_loadconfig(&shapes); }

static void leave(void) { _tile_release(); }

// Tiles 0 to 3 are sums: `groups` of rows x `blocks` of columns, 1 or 2 each; 4 and 5 are groups
// of the left operand, 6 and 7 blocks of the right one.
MH_ALWAYS_INLINE void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

MH_ALWAYS_INLINE void load_sums(const int groups, const int blocks, const float *c, size_t ldc)
{
    const size_t bytes = ldc * sizeof *c;
    _tile_loadd(0, c, bytes);
    if (blocks > 1)
        _tile_loadd(1, c + SIDE, bytes);
    if (groups > 1)
        _tile_loadd(2, c + SIDE * ldc, bytes);
    if (groups > 1 && blocks > 1)
        _tile_loadd(3, c + SIDE * ldc + SIDE, bytes);
}

MH_ALWAYS_INLINE void store_sums(const int groups, const int blocks, float *c, size_t ldc)
{
    const size_t bytes = ldc * sizeof *c;
    _tile_stored(0, c, bytes);
    if (blocks > 1)
        _tile_stored(1, c + SIDE, bytes);
    if (groups > 1)
        _tile_stored(2, c + SIDE * ldc, bytes);
    if (groups > 1 && blocks > 1)
        _tile_stored(3, c + SIDE * ldc + SIDE, bytes);
}

MH_ALWAYS_INLINE void load_left(const int groups, const char *a, size_t group)
{
    _tile_loadd(4, a, TILE_ROW);
    if (groups > 1)
        _tile_loadd(5, a + group, TILE_ROW);
}

MH_ALWAYS_INLINE void load_right(const int blocks, const char *b, size_t block)
{
    _tile_loadd(6, b, TILE_ROW);
    if (blocks > 1)
        _tile_loadd(7, b + block, TILE_ROW);
}

MH_ALWAYS_INLINE void multiply_tiles(const int groups, const int blocks)
{
    _tile_dpbf16ps(0, 4, 6);
    if (blocks > 1)
        _tile_dpbf16ps(1, 4, 7);
    if (groups > 1)
        _tile_dpbf16ps(2, 5, 6);
    if (groups > 1 && blocks > 1)
        _tile_dpbf16ps(3, 5, 7);
}

// ---- the products ------------------------------------------------------------------------------

// Where the operands of some groups and blocks are: the first tiles, and how far the next ones.
typedef struct operands {
    const char *a, *b;
    size_t group, block, right_step; // bytes
} operands;

// The sums of the first parts alone; all of a bf16 product.
MH_ALWAYS_INLINE void sum_first_parts(const int parts, const int groups, const int blocks,
                                      size_t steps, operands o)
{
    for (size_t i = 0; i < steps; i++, o.a += parts * TILE, o.b += o.right_step) {
        load_left(groups, o.a, o.group);
        load_right(blocks, o.b, o.block);
        multiply_tiles(groups, blocks);
    }
}

// The five small products, in an order that loads each part once.
MH_ALWAYS_INLINE void sum_small_products(const int groups, const int blocks, size_t steps,
                                         operands o)
{
    for (size_t i = 0; i < steps; i++, o.a += 3 * TILE, o.b += o.right_step) {
        load_left(groups, o.a, o.group);
        load_right(blocks, o.b + 2 * TILE, o.block);
        multiply_tiles(groups, blocks);
        load_right(blocks, o.b + TILE, o.block);
        multiply_tiles(groups, blocks);
        load_left(groups, o.a + TILE, o.group);
        multiply_tiles(groups, blocks);
        load_right(blocks, o.b, o.block);
        multiply_tiles(groups, blocks);
        load_left(groups, o.a + 2 * TILE, o.group);
        multiply_tiles(groups, blocks);
    }
}

// c += small where c is finite.
MH_ALWAYS_INLINE void add_small(const int groups, const int blocks, const float *small, float *c,
                                size_t ldc)
{
    enum { NOT_FINITE = 0x99 }; // quiet NaN, +inf, -inf, signalling NaN
    for (int r = 0; r < groups * SIDE; r++, c += ldc, small += 2 * SIDE) {
        for (int j = 0; j < blocks * SIDE; j += SIDE) {
            __m512 x = _mm512_loadu_ps(c + j);
            __mmask16 finite = (__mmask16)~_mm512_fpclass_ps_mask(x, NOT_FINITE);
            _mm512_storeu_ps(c + j, _mm512_mask_add_ps(x, finite, x, _mm512_load_ps(small + j)));
        }
    }
}

MH_ALWAYS_INLINE void multiply_block(const int parts, const int groups, const int blocks,
                                     size_t steps, operands o, float *c, size_t ldc,
                                     bool accumulate)
{
    if (accumulate)
        load_sums(groups, blocks, c, ldc);
    else
        clear_sums();
    sum_first_parts(parts, groups, blocks, steps, o);
    store_sums(groups, blocks, c, ldc);
    if (parts == 1)
        return;
    float small[ROWS * 2 * SIDE] __attribute__((aligned(64)));
    clear_sums();
    sum_small_products(groups, blocks, steps, o);
    store_sums(groups, blocks, small, 2 * SIDE);
    add_small(groups, blocks, small, c, ldc);
}

MH_ALWAYS_INLINE void multiply_groups(const int parts, const int groups, size_t n, size_t k,
                                      const void *a, ptrdiff_t lda, const void *b, size_t ldb,
                                      float *c, size_t ldc, bool accumulate)
{
    const size_t tile = (size_t)parts * TILE, steps = (k + STEP - 1) / STEP;
    operands o = {a, b, (size_t)lda / STEP * tile, tile, ldb / SIDE * tile};
    for (; n > SIDE; n -= 2 * SIDE, o.b += 2 * tile, c += 2 * SIDE) {
        multiply_block(parts, groups, 2, steps, o, c, ldc, accumulate);
        if (n == 2 * SIDE)
            return;
    }
    multiply_block(parts, groups, 1, steps, o, c, ldc, accumulate);
}

MH_ALWAYS_INLINE void multiply(const int parts, size_t m, size_t n, size_t k, const void *a,
                               ptrdiff_t lda, const void *b, size_t ldb, float *c, size_t ldc,
                               bool accumulate)
{
    if (m <= SIDE)
        multiply_groups(parts, 1, n, k, a, lda, b, ldb, c, ldc, accumulate);
    else
        multiply_groups(parts, 2, n, k, a, lda, b, ldb, c, ldc, accumulate);
}

static void multiply_bf16(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                          size_t ldb, float *c, size_t ldc, bool accumulate)
{
    multiply(1, m, n, k, a, lda, b, ldb, c, ldc, accumulate);
}

static void multiply_f32(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                         size_t ldb, float *c, size_t ldc, bool accumulate)
{
    multiply(3, m, n, k, a, lda, b, ldb, c, ldc, accumulate);
}

// ---- packing -----------------------------------------------------------------------------------

MH_ALWAYS_INLINE __m512 load_some(const float *x, size_t n)
{
    return n >= SIDE ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x);
}

// The bf16 number nearest to x, as an f32, and what is left of x, exactly; so three parts are all
// of it. The largest numbers are cut off instead, as nothing finite is above them, and so are inf
// and NaN, which stay what they are if NaN is quiet.
static inline __m512 split(__m512 *x)
{
    const __m512i bits = _mm512_castps_si512(*x), last = _mm512_set1_epi32(0x7F7F8000);
    const __mmask16 room =
        _mm512_cmplt_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)), last);
    const __m512i up = _mm512_mask_add_epi32(bits, room, bits, _mm512_set1_epi32(0x8000));
    const __m512 part =
        _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32((int)0xFFFF0000)));
    *x = _mm512_sub_ps(*x, part);
    return part;
}

// x + 0, which makes NaN quiet.
static inline __m512 quiet(__m512 x) { return _mm512_add_ps(x, _mm512_setzero_ps()); }

static inline void store_row(char *to, __m512 low, __m512 high)
{
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

MH_ALWAYS_INLINE void pack_left(const int parts, size_t m, size_t k, const float *a, ptrdiff_t lda,
                                char *to)
{
    const size_t group = (k + STEP - 1) / STEP * (size_t)parts * TILE;
    for (size_t r = 0; r < m; r++, a += lda) {
        char *tile = to + r / SIDE * group + r % SIDE * TILE_ROW;
        for (size_t j = 0; j < k; j += STEP, tile += parts * TILE) {
            size_t left = k - j;
            __m512 low = load_some(a + j, left);
            __m512 high = left > SIDE ? load_some(a + j + SIDE, left - SIDE) : _mm512_setzero_ps();
            if (parts == 1) {
                store_row(tile, low, high);
                continue;
            }
            low = quiet(low);
            high = quiet(high);
            for (int p = 0; p < parts; p++)
                store_row(tile + p * TILE, split(&low), split(&high));
        }
    }
}

static void pack_left_bf16(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to)
{
    pack_left(1, m, k, a, lda, to);
}

static void pack_left_f32(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to)
{
    pack_left(3, m, k, a, lda, to);
}

// Rows k and k + 1 of the right operand, column by column: both are bf16 already.
static inline void store_pair(char *to, __m512 even, __m512 odd)
{
    __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even), 16);
    _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_castps_si512(odd)));
}

// To nearest even; NaN stays NaN, denormals become 0 as everywhere on tiles.
static inline __m512 rounded(__m512 x)
{
    __m512i narrow = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(narrow, 16));
}

MH_ALWAYS_INLINE void pack_pair(const int parts, size_t n, const float *even, const float *odd,
                                char *to)
{
    for (size_t j = 0; j < n; j += SIDE, to += parts * TILE) {
        __m512 x = even ? load_some(even + j, n - j) : _mm512_setzero_ps();
        __m512 y = odd ? load_some(odd + j, n - j) : _mm512_setzero_ps();
        if (parts == 1) {
            store_pair(to, rounded(x), rounded(y));
            continue;
        }
        x = quiet(x);
        y = quiet(y);
        for (int p = 0; p < parts; p++)
            store_pair(to + p * TILE, split(&x), split(&y));
    }
}

MH_ALWAYS_INLINE void pack_right(const int parts, size_t k, size_t n, const float *b, size_t ldb,
                                 char *to, size_t columns)
{
    for (size_t i = 0; i < k; i += STEP, to += columns / SIDE * (size_t)parts * TILE)
        for (size_t j = i; j < i + STEP; j += 2)
            pack_pair(parts, n, j < k ? b + j * ldb : NULL, j + 1 < k ? b + (j + 1) * ldb : NULL,
                      to + (j - i) / 2 * TILE_ROW);
}

static void pack_right_bf16(size_t k, size_t n, const float *b, size_t ldb, void *to,
                            size_t columns)
{
    pack_right(1, k, n, b, ldb, to, columns);
}

static void pack_right_f32(size_t k, size_t n, const float *b, size_t ldb, void *to, size_t columns)
{
    pack_right(3, k, n, b, ldb, to, columns);
}

// ---- the limit
// -----------------------------------------------------------------------------------

static double bf16_peak(size_t iterations, float *sink)
{
    float sums[SIDE * SIDE];
    enter();
    clear_sums();
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (size_t i = 0; i < iterations; i++)
        multiply_tiles(2, 2);
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
                               .left_size = 2,
                               .right_size = 2,
                               .enter = enter,
                               .leave = leave,
                               .pack_left = pack_left_bf16,
                               .pack_right = pack_right_bf16,
                               .multiply = multiply_bf16};
    table->f32 = (mh_product){.rows = ROWS,
                              .group = SIDE,
                              .step = STEP,
                              .left_size = 6,
                              .right_size = 6,
                              .enter = enter,
                              .leave = leave,
                              .pack_left = pack_left_f32,
                              .pack_right = pack_right_f32,
                              .multiply = multiply_f32};
    table->bf16_peak = bf16_peak;
}
