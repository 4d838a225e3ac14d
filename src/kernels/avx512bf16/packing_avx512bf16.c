// SPDX-License-Identifier: MIT
// Packing of bf16 operands; pairs_avx512bf16.h draws the layouts.
#include "kernels/avx512bf16/pairs_avx512bf16.h"

enum { PADDED = 2 };
static inline size_t b_block(size_t columns) { return (void)columns, TILE_ROW; }
static inline size_t b_pair(size_t columns) { return columns * sizeof(uint32_t); }

#include "kernels/avx512bf16/packing_pairs.inc"

// Where the A operand is rows, tiles of a transposed A are copied row by row.
MH_ALWAYS_INLINE void pack_rows_t_from(const bool narrow, size_t m, size_t k, const void *a,
                                       ptrdiff_t lda, char *to)
{
    const ptrdiff_t size = narrow ? sizeof(uint16_t) : sizeof(float), stride = lda * size;
    const size_t row = (k + 1) / 2 * sizeof(uint32_t);
    for (size_t j = 0; j < k; j += STEP, to += TILE_ROW)
        for (size_t i = 0; i < m; i += SIDE) {
            char tile[TILE];
            pack_any_tile(narrow, true, true, k - j, m - i,
                          (const char *)a + (ptrdiff_t)i * size + (ptrdiff_t)j * stride, stride,
                          SIDE, tile, TILE_ROW);
            for (size_t r = 0; r < SIDE && i + r < m; r++)
                memcpy(to + (i + r) * row, tile + r * TILE_ROW,
                       padded_pairs(k - j) * sizeof(uint32_t));
        }
}

MH_ALWAYS_INLINE void pack_rows_from(const bool narrow, size_t m, size_t k, const void *a,
                                     ptrdiff_t lda, char *to)
{
    const ptrdiff_t size = narrow ? sizeof(uint16_t) : sizeof(float);
    const char *row = a;
    for (size_t i = 0; i < m; i++, row += lda * size) {
        const char *from = row;
        size_t j = 0;
        for (; j + STEP <= k; j += STEP, from += STEP * size, to += TILE_ROW)
            _mm512_storeu_si512(to,
                                load_two_bf16(narrow, 0xFFFF, from, 0xFFFF, from + SIDE * size));
        const size_t left = k - j, pairs = padded_pairs(left);
        if (left == 0)
            continue;
        _mm512_mask_storeu_epi32(to, some(pairs),
                                 load_two_bf16(narrow, some(left), from,
                                               some(left > SIDE ? left - SIDE : 0),
                                               from + SIDE * size));
        to += pairs * sizeof(uint32_t);
    }
}

static void pack_a(size_t m, size_t k, const mh_pack_source *a, void *to)
{
    const bool narrow = a->type == MH_ROW_BF16;
    MH_CONTRACT(a->type != MH_ROW_F16);
    if (narrow && a->transposed)
        pack_rows_t_from(true, m, k, a->data, a->stride, to);
    else if (narrow)
        pack_rows_from(true, m, k, a->data, a->stride, to);
    else if (a->transposed)
        pack_rows_t_from(false, m, k, a->data, a->stride, to);
    else
        pack_rows_from(false, m, k, a->data, a->stride, to);
}

void mh_packing_avx512bf16(mh_gemm *gemm)
{
    gemm->pack_a = pack_a;
    gemm->pack_b = pack_b;
    gemm->set_b_column = set_b_column;
    gemm->set_b_row = set_b_row;
    gemm->unpack_b = unpack_b;
}
