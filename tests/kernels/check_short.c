// SPDX-License-Identifier: MIT
// The short-sequence path: products with the bits of f32.gemm and of scale_row after it, softmax
// with the bits of softmax_step and sum_lanes.
#include "kernels/check.h"
#include <math.h>
#include <string.h>

typedef struct gemm {
    const mh_kernels *kernels;
    size_t m, n, k, lda, ldb, ldc;
    float *a, *b, *factors, *c;
} gemm;

static gemm make_gemm(const mh_kernels *kernels, size_t m, size_t n, size_t k)
{
    gemm f = {kernels, m, n, k, k + 3, n + 5, n + 7, NULL, NULL, NULL, NULL};
    const size_t a_size = (m - 1) * f.lda + k, b_size = (k - 1) * f.ldb + n;
    f.a = check_floats(a_size), f.b = check_floats(b_size);
    f.factors = check_floats(m), f.c = check_floats((m - 1) * f.ldc + n);
    check_fill(a_size, 1, f.a);
    check_fill(b_size, 1, f.b);
    check_fill(m, 1, f.factors);
    return f;
}

static void score(void *arg)
{
    const gemm *f = arg;
    f->kernels->attention.short_scores(&(mh_gemm_args){.m = f->m,
                                                       .n = f->n,
                                                       .k = f->k,
                                                       .a = f->a,
                                                       .lda = (ptrdiff_t)f->lda,
                                                       .b = f->b,
                                                       .ldb = (ptrdiff_t)f->ldb,
                                                       .c = f->c,
                                                       .ldc = (ptrdiff_t)f->ldc});
}

static void output(void *arg)
{
    const gemm *f = arg;
    f->kernels->attention.short_outputs(&(mh_gemm_args){.m = f->m,
                                                        .n = f->n,
                                                        .k = f->k,
                                                        .a = f->a,
                                                        .lda = (ptrdiff_t)f->lda,
                                                        .b = f->b,
                                                        .ldb = (ptrdiff_t)f->ldb,
                                                        .c = f->c,
                                                        .ldc = (ptrdiff_t)f->ldc},
                                        f->factors);
}

static bool rows_agree(const gemm *f, bool scaled)
{
    bool same = true;
    float *row = check_floats(f->n);
    for (size_t i = 0; i < f->m; i++) {
        f->kernels->f32.gemm(&(mh_gemm_args){.m = 1,
                                             .n = f->n,
                                             .k = f->k,
                                             .a = f->a + i * f->lda,
                                             .lda = (ptrdiff_t)f->lda,
                                             .b = f->b,
                                             .ldb = (ptrdiff_t)f->ldb,
                                             .c = row,
                                             .ldc = (ptrdiff_t)f->n});
        if (scaled)
            f->kernels->elementwise.scale_row(f->n, row, f->factors[i], row);
        same &= !memcmp(row, f->c + i * f->ldc, f->n * sizeof *row);
    }
    return same;
}

// Rows of n scores; one row contains NaN, one +inf, and one only -inf.
static float *make_scores(size_t m, size_t n)
{
    float *s = check_floats(m * MH_KEY_TILE);
    check_fill(m * MH_KEY_TILE, 30, s);
    if (m > 4) {
        s[MH_KEY_TILE + n / 2] = NAN;
        s[2 * MH_KEY_TILE + n - 1] = INFINITY;
        for (size_t j = 0; j < n; j++)
            s[3 * MH_KEY_TILE + j] = -INFINITY;
    }
    return s;
}

static bool softmax_agrees(const mh_kernels *kernels, size_t m, size_t n)
{
    const size_t lanes = kernels->lanes;
    float *s = make_scores(m, n), *expected = check_floats(m * MH_KEY_TILE), *acc = check_floats(1);
    float *max = check_floats(m), *sum = check_floats(m), *step_max = check_floats(m);
    float *step_sum = check_floats(m * lanes);
    memcpy(expected, s, m * MH_KEY_TILE * sizeof *s);
    memset(step_sum, 0, m * lanes * sizeof *step_sum);
    for (size_t r = 0; r < m; r++)
        step_max[r] = -INFINITY;
    kernels->attention.softmax_step(&(mh_softmax_step){.m = m,
                                                       .n = n,
                                                       .scale = 0.7f,
                                                       .s = expected,
                                                       .width = 0,
                                                       .max = step_max,
                                                       .sum = step_sum,
                                                       .acc = acc,
                                                       .ldacc = 0});
    kernels->attention.short_softmax(m, n, 0.7f, s, max, sum);
    bool same = !memcmp(max, step_max, m * sizeof *max);
    for (size_t r = 0; r < m; r++) {
        const float all = kernels->attention.sum_lanes(step_sum + r * lanes);
        same &= !memcmp(&all, &sum[r], sizeof all);
        same &= !memcmp(expected + r * MH_KEY_TILE, s + r * MH_KEY_TILE, n * sizeof *s);
    }
    return same;
}

check_result check_short(const check_run *run)
{
    const size_t lanes = run->kernels->lanes;
    check_result result = {.ok = true, .unit = "Gflop/s"};
    for (size_t m = 1; m <= MH_SHORT_ROWS; m++) {
        for (size_t n = 1; n <= 16; n++) {
            result.ok &= softmax_agrees(run->kernels, m, n);
            check_release();
        }
    }
    for (size_t m = 1; m <= MH_SHORT_ROWS; m++) {
        for (size_t vectors = 1; vectors <= 7; vectors++) {
            gemm f = make_gemm(run->kernels, m, vectors * lanes, 1 + (m * 7 + vectors) % 23);
            score(&f);
            result.ok &= rows_agree(&f, false);
            output(&f);
            result.ok &= rows_agree(&f, true);
            check_release();
        }
    }
    if (run->bench) {
        gemm f = make_gemm(run->kernels, 10, 512, 10);
        result.rate = 1e-9 * 2 * 10 * 512 * 10 * check_rate(output, &f);
        check_release();
    }
    result.error = result.ok ? 0 : 2;
    return result;
}
