// SPDX-License-Identifier: MIT
// Transposing and packing, which move elements without changing them.
#include "kernels/check.h"
#include <math.h>
#include <string.h>

// ---- transposition ------------------------------------------------------------------------------

typedef struct turn {
    const mh_kernels *kernels;
    size_t rows, columns;
    const float *src;
    float *dst;
} turn;

static void transpose(void *arg)
{
    const turn *t = arg;
    t->kernels->matrix.transpose(t->rows, t->columns, t->src, (ptrdiff_t)t->columns, t->dst,
                                 MH_KEY_TILE);
}

check_result check_transpose(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t rows = 1; rows <= MH_KEY_TILE; rows += rows < 20 ? 1 : 11) {
        for (size_t columns = 1; columns <= 70; columns += columns < 20 ? 1 : 10) {
            float *src = check_floats(rows * columns);
            turn t = {run->kernels, rows, columns, src, check_floats(columns * MH_KEY_TILE)};
            check_fill(rows * columns, 1, src);
            transpose(&t);
            size_t filled = (rows + t.kernels->lanes - 1) / t.kernels->lanes * t.kernels->lanes;
            for (size_t c = 0; c < columns; c++)
                for (size_t r = 0; r < filled; r++)
                    result.ok &=
                        t.dst[c * MH_KEY_TILE + r] == (r < rows ? src[r * columns + c] : 0);
            check_release();
        }
    }
    if (run->bench) {
        float *src = check_floats(64 * 64);
        check_fill(64 * 64, 1, src);
        turn t = {run->kernels, 64, 64, src, check_floats(64 * MH_KEY_TILE)};
        result.rate = 1e-9 * 64 * 64 * check_rate(transpose, &t);
    }
    return result;
}

// ---- packing ------------------------------------------------------------------------------------

check_result check_pack_rows(const check_run *run)
{
    check_result result = {.ok = true};
    static const float odd[] = {0, NAN, INFINITY, -INFINITY};
    const size_t lanes = run->kernels->lanes;
    for (size_t rows = 1; rows <= 5; rows++) {
        for (size_t columns = 1; columns <= 70; columns++) {
            size_t width = (columns + lanes - 1) / lanes * lanes, lds = columns + 3;
            float *src = check_floats((rows - 1) * lds + columns);
            float *dst = check_floats(rows * width);
            check_fill((rows - 1) * lds + columns, 1e38f, src);
            float special = odd[columns % 4];
            src[(rows - 1) * lds + columns / 2] = special;
            bool finite =
                run->kernels->matrix.pack_rows(rows, columns, src, (ptrdiff_t)lds, dst, width);
            result.ok &= finite == (special == 0);
            for (size_t r = 0; r < rows; r++)
                for (size_t c = 0; c < width; c++) {
                    float expected = c < columns ? src[r * lds + c] : 0;
                    result.ok &= !memcmp(&dst[r * width + c], &expected, sizeof expected);
                }
            check_release();
        }
    }
    return result;
}
