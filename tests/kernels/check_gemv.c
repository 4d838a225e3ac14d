// SPDX-License-Identifier: MIT
// Variants of the f32 GEMM that must be bitwise identical to f32.gemm on a row block: GEMV with an
// unpacked matrix, gemm_stream, and many rows in one call.
#include "base/half.h"
#include "base/size_math.h"
#include "kernels/check.h"
#include <string.h>

// Unpacked rows of a type, and the same values as f32 rows of whole vectors.
typedef struct typed_rows {
    mh_row_type type;
    const void *rows; // (k, ld)
    size_t ld;
    float *wide; // (k, columns)
    size_t columns;
} typed_rows;

static typed_rows make_rows(mh_row_type type, size_t k, size_t n, size_t ld, size_t lanes)
{
    const size_t last = k ? (k - 1) * ld + n : 0;
    typed_rows b = {.type = type, .ld = ld, .columns = mh_round_up(n, lanes)};
    float *numbers = check_floats(last);
    uint16_t *halves = check_u16(last);
    check_fill(last, 1, numbers);
    for (size_t i = 0; i < last; i++) {
        halves[i] = type == MH_ROW_F16 ? mh_float_to_f16(numbers[i]) : mh_float_to_bf16(numbers[i]);
        if (type != MH_ROW_F32)
            numbers[i] =
                type == MH_ROW_F16 ? mh_f16_to_float(halves[i]) : mh_bf16_to_float(halves[i]);
    }
    b.rows = type == MH_ROW_F32 ? (void *)numbers : halves;
    b.wide = check_floats(k * b.columns);
    memset(b.wide, 0, k * b.columns * sizeof(float));
    for (size_t i = 0; i < k; i++)
        memcpy(b.wide + i * b.columns, numbers + i * ld, n * sizeof(float));
    return b;
}

// Whether two results are bitwise identical.
static bool equal_rows(size_t m, size_t n, const float *x, size_t ldx, const float *y, size_t ldy)
{
    bool same = true;
    for (size_t i = 0; i < m; i++)
        same &= !memcmp(x + i * ldx, y + i * ldy, n * sizeof(float));
    return same;
}

// GEMV with rows of every type: the bits of f32.gemm.
static void check_gemv_unpacked(const mh_kernels *kernels, mh_row_type type, size_t m, size_t n,
                                size_t k, bool accumulate, check_result *result)
{
    const size_t lda = k + 3;
    const typed_rows b = make_rows(type, k, n, n + 5, kernels->lanes);
    float *a = check_floats((m - 1) * lda + k);
    float *expected = check_floats(m * b.columns), *found = check_floats(m * n);
    check_fill((m - 1) * lda + k, 1, a);
    memset(expected, 0, m * b.columns * sizeof(float));
    for (size_t i = 0; i < m; i++) {
        check_fill(n, 1, expected + i * b.columns);
        memcpy(found + i * n, expected + i * b.columns, n * sizeof(float));
    }
    kernels->f32.gemm(&(mh_gemm_args){.m = m,
                                      .n = b.columns,
                                      .k = k,
                                      .a = a,
                                      .lda = (ptrdiff_t)lda,
                                      .b = b.wide,
                                      .ldb = (ptrdiff_t)b.columns,
                                      .c = expected,
                                      .ldc = (ptrdiff_t)b.columns,
                                      .accumulate = accumulate});
    kernels->f32.gemv(&(mh_gemm_args){.b_type = type,
                                      .m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a,
                                      .lda = (ptrdiff_t)lda,
                                      .b = b.rows,
                                      .ldb = (ptrdiff_t)b.ld,
                                      .c = found,
                                      .ldc = (ptrdiff_t)n,
                                      .accumulate = accumulate,
                                      .from_memory = k % 2 == 0});
    result->ok &= equal_rows(m, n, found, n, expected, b.columns);
    check_release();
}

// gemm_stream: the bits of f32.gemm.
static void check_once(const mh_kernels *kernels, mh_row_type type, size_t m, size_t n, size_t k,
                       bool accumulate, check_result *result)
{
    const typed_rows b = make_rows(type, k, n, n + kernels->lanes, kernels->lanes);
    float *a = check_floats(m * k), *expected = check_floats(m * n), *found = check_floats(m * n);
    check_fill(m * k, 1, a);
    check_fill(m * n, 1, expected);
    memcpy(found, expected, m * n * sizeof(float));
    kernels->f32.gemm(&(mh_gemm_args){.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a,
                                      .lda = (ptrdiff_t)k,
                                      .b = b.wide,
                                      .ldb = (ptrdiff_t)b.columns,
                                      .c = expected,
                                      .ldc = (ptrdiff_t)n,
                                      .accumulate = accumulate});
    const void *next =
        type == MH_ROW_F32 && n / kernels->lanes % 2 ? NULL : b.rows; // f32 also without prefetch
    kernels->matrix.gemm_stream(&(mh_gemm_args){.b_type = type,
                                                .m = m,
                                                .n = n,
                                                .k = k,
                                                .a = a,
                                                .lda = (ptrdiff_t)k,
                                                .b = b.rows,
                                                .ldb = (ptrdiff_t)b.ld,
                                                .c = found,
                                                .ldc = (ptrdiff_t)n,
                                                .accumulate = accumulate},
                                next);
    result->ok &= equal_rows(m, n, found, n, expected, n);
    check_release();
}

// Many rows in one call: the bits of each row by itself.
static void check_many(const mh_kernels *kernels, size_t m, size_t n, size_t k,
                       check_result *result)
{
    float *a = check_floats(m * k), *b = check_floats(k * n);
    float *expected = check_floats(m * n), *found = check_floats(m * n);
    check_fill(m * k, 1, a);
    check_fill(k * n, 1, b);
    for (size_t i = 0; i < m; i++)
        kernels->f32.gemm(&(mh_gemm_args){.m = 1,
                                          .n = n,
                                          .k = k,
                                          .a = a + i * k,
                                          .lda = (ptrdiff_t)k,
                                          .b = b,
                                          .ldb = (ptrdiff_t)n,
                                          .c = expected + i * n,
                                          .ldc = (ptrdiff_t)n});
    kernels->f32.gemm(&(mh_gemm_args){.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a,
                                      .lda = (ptrdiff_t)k,
                                      .b = b,
                                      .ldb = (ptrdiff_t)n,
                                      .c = found,
                                      .ldc = (ptrdiff_t)n});
    result->ok &= equal_rows(m, n, found, n, expected, n);
    check_release();
}

check_result check_gemv(const check_run *run)
{
    check_result result = {.ok = true};
    const mh_kernels *kernels = run->kernels;
    static const size_t depths[] = {0, 1, 7, 8, 9, 64, 100};
    static const mh_row_type types[] = {MH_ROW_F32, MH_ROW_BF16, MH_ROW_F16};
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            for (size_t m = 1; m <= MH_GEMV_ROWS; m++)
                for (size_t n = 1; n <= 4200; n += n < 40 ? 3 : 1031)
                    check_gemv_unpacked(kernels, types[t], m, n, depths[d], n % 2, &result);
            for (size_t m = 1; m <= kernels->f32.rows; m++)
                for (size_t vectors = 1; vectors <= 19; vectors += vectors < 9 ? 1 : 5)
                    check_once(kernels, types[t], m, vectors * kernels->lanes, depths[d],
                               vectors % 2, &result);
        }
    for (size_t m = 1; m <= 5 * kernels->f32.rows; m++)
        for (size_t vectors = 1; vectors <= 9; vectors += 2)
            check_many(kernels, m, vectors * kernels->lanes, 33, &result);
    return result;
}
