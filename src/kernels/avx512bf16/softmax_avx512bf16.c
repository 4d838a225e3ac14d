// SPDX-License-Identifier: MIT
// The softmax of the MMA path, whose weights become the A operand of the product with the values.
#include "kernels/avx512bf16/pairs_avx512bf16.h"
#include <string.h>

enum { WEIGHTS_RUN = TILE_ROW, MOST_ROWS = 64 };

// A row's first weights.
static inline char *weights_of(const mh_softmax_tile *step, size_t row)
{
    return (char *)step->weights + row * step->columns * sizeof(uint16_t);
}

#include "kernels/avx512bf16/softmax_tile.inc"

void mh_softmax_tile_avx512bf16(const mh_softmax_tile *step)
{
    with_softmax s = start(step);
    finish(&s);
}
