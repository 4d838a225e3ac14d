// SPDX-License-Identifier: MIT
// The softmax of the MMA path on AMX, see mh_softmax_tile. Its rows are interleaved with the tile
// products that compute the scores of the next keys:
//
//     AMX            q k0   q k1   q k2   q k3    ..
//     vector units          row    row    row     ..    of the previous scores
//
// A tile product blocks one of the two vector units while it runs, so only a part of the softmax is
// hidden; but softmax rows also space tile instructions, see space_issue.
#include "kernels/amx/tiles_amx.h"
#include <string.h>

enum { WEIGHTS_RUN = TILE, MOST_ROWS = ROWS };

// A row's first weights, stored in runs of 32.
static inline char *weights_of(const mh_softmax_tile *step, size_t row)
{
    return (char *)step->weights + row / SIDE * (step->columns / STEP) * TILE +
           row % SIDE * TILE_ROW;
}

#include "kernels/avx512bf16/softmax_tile.inc"

void mh_softmax_tile_amx(const mh_softmax_tile *step)
{
    with_softmax s = start(step);
    finish(&s);
}

// A row of the softmax, or where all are done the space it leaves between tile instructions.
MH_ALWAYS_INLINE void softmax_or_space(with_softmax *s)
{
    if (!softmax_tile_next(s))
        space_issue();
}

// A step of k with its loads, for two micro-panels and two blocks, with a softmax row after each
// product.
MH_ALWAYS_INLINE void gemm_softmax(const operands *o, with_softmax *s)
{
    STREAM_TILE(6, o->b);
    LOAD_TILE(4, o->a);
    _tile_dpbf16ps(0, 4, 6);
    softmax_or_space(s);
    LOAD_TILE(5, o->a + o->micro_panel);
    _tile_dpbf16ps(2, 5, 6);
    softmax_or_space(s);
    STREAM_TILE(7, o->b + TILE);
    _tile_dpbf16ps(3, 5, 7);
    softmax_or_space(s);
    _tile_dpbf16ps(1, 4, 7);
    softmax_or_space(s);
}

bool mh_gemm_softmax_amx(const mh_gemm_args *args, const mh_softmax_tile *step)
{
    const mh_gemm_args x = *args;
    check_operands(args);
    MH_CONTRACT(!x.accumulate);
    if (x.m <= SIDE || x.n % (2 * SIDE) || !is_plain(step))
        return false;
    operands block = operands_of(&x);
    with_softmax s = start(step);
    for (size_t column = 0; column < x.n; column += 2 * SIDE, block.b += 2 * TILE) {
        operands o = block;
        clear_sums();
        for (size_t i = 0; i < x.k; i += STEP, o.a += TILE, o.b += o.right_step)
            gemm_softmax(&o, &s);
        store_sums(2, 2, x.c + column, (size_t)x.ldc);
    }
    finish(&s);
    return true;
}
