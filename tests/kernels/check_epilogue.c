// SPDX-License-Identifier: MIT
// The epilogue and the reduction of rows: bitwise identical to the same steps one by one.
#include "base/half.h"
#include "kernels/check.h"
#include <math.h>
#include <string.h>

enum { M = 5, MOST = 64 };

static float finish_number(const mh_epilogue *map, size_t i, size_t j, float x)
{
    if (map->bias)
        x += map->bias[j];
    if (map->relu)
        x = x > 0 ? x : 0;
    if (map->keep)
        x = map->keep[i] >> j & 1 ? x * map->keep_scale : 0;
    return map->residual ? x + map->residual[(ptrdiff_t)i * map->ldr + (ptrdiff_t)j] : x;
}

// All sixteen combinations of options; y separate, y = x, y = residual.
static bool finishes(const mh_kernels *kernels, size_t n, unsigned what, int place)
{
    const size_t ldx = n + 3, ldr = n + 7, ldy = place == 0 ? n + 5 : place == 1 ? ldx : ldr;
    float *x = check_floats((M - 1) * ldx + n), *residual = check_floats((M - 1) * ldr + n);
    float *bias = check_floats(n), *apart = check_floats((M - 1) * ldy + n), expected[M][MOST];
    float *y = place == 0 ? apart : place == 1 ? x : residual;
    uint64_t keep[M];
    check_fill((M - 1) * ldx + n, 2, x);
    check_fill((M - 1) * ldr + n, 2, residual);
    check_fill(n, 2, bias);
    for (size_t i = 0; i < M; i++)
        keep[i] = UINT64_C(0x9E3779B97F4A7C15) * (i + n + 1);
    const mh_epilogue map = {.bias = what & 1 ? bias : NULL,
                             .relu = what & 2,
                             .keep = what & 4 ? keep : NULL,
                             .keep_scale = 1.25f,
                             .residual = what & 8 ? residual : NULL,
                             .ldr = (ptrdiff_t)ldr};
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < n; j++)
            expected[i][j] = finish_number(&map, i, j, x[i * ldx + j]);
    kernels->matrix.epilogue_rows(&map, M, n, x, ldx, y, (ptrdiff_t)ldy);
    bool same = true;
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < n; j++)
            same &= y[i * ldy + j] == expected[i][j];
    check_release();
    return same;
}

static bool keeps_nan(const mh_kernels *kernels)
{
    float x = NAN, y = 0;
    const mh_epilogue map = {.relu = true};
    kernels->matrix.epilogue_rows(&map, 1, 1, &x, 1, &y, 1);
    return isnan(y);
}

check_result check_epilogue_rows(const check_run *run)
{
    check_result result = {.ok = keeps_nan(run->kernels)};
    for (size_t n = 1; n <= MOST; n++)
        for (unsigned what = 0; what < 16; what++)
            for (int place = 0; place < 3; place++)
                result.ok &= finishes(run->kernels, n, what, place);
    return result;
}

check_result check_reduce_rows(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 1; n <= 150; n++) {
        const size_t ldx = n + 3;
        float *x = check_floats((M - 1) * ldx + n), *y = check_floats(n), expected[150];
        check_fill((M - 1) * ldx + n, 1, x);
        check_fill(n, 1, y);
        memcpy(expected, y, n * sizeof *y);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < n; j++)
                expected[j] += x[i * ldx + j];
        run->kernels->matrix.reduce_rows(M, n, x, (ptrdiff_t)ldx, y);
        result.ok &= !memcmp(expected, y, n * sizeof *y);
        uint16_t *narrow = check_u16((M - 1) * ldx + n);
        for (size_t i = 0; i < (M - 1) * ldx + n; i++)
            narrow[i] = mh_float_to_bf16(x[i]);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < n; j++)
                expected[j] += mh_bf16_to_float(narrow[i * ldx + j]);
        run->kernels->matrix.reduce_rows_bf16(M, n, narrow, (ptrdiff_t)ldx, y);
        result.ok &= !memcmp(expected, y, n * sizeof *y);
        check_release();
    }
    return result;
}
