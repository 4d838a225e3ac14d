// SPDX-License-Identifier: MIT
// The matrix product and the transposition. A product's error is judged against
// eps * sqrt(k) * sum |a||b|, as rounding errors add up like a random walk.
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef struct product {
    const mh_kernels *kernels;
    size_t m, n, k, lda, ldb, ldc;
    const float *a, *b;
    float *c;
} product;

static void multiply(void *arg)
{
    const product *p = arg;
    p->kernels->gemm(p->m, p->n, p->k, p->a, (ptrdiff_t)p->lda, p->b, p->ldb, p->c, p->ldc, false);
}

// The guards end where the last row of each operand ends, so a row stride may not be paid twice.
static product make_product(const mh_kernels *kernels, size_t m, size_t n, size_t k)
{
    product p = {kernels, m, n, k, k + 3, n + 5, n + 7, NULL, NULL, NULL};
    size_t a_size = (m - 1) * p.lda + k, b_size = k ? (k - 1) * p.ldb + n : 0;
    float *a = check_floats(a_size), *b = check_floats(b_size);
    check_fill(a_size, 1, a);
    check_fill(b_size, 1, b);
    p.a = a, p.b = b, p.c = check_floats((m - 1) * p.ldc + n);
    check_fill((m - 1) * p.ldc + n, 1, p.c);
    return p;
}

static double product_error(const product *p, const float *before, bool accumulate)
{
    double worst = 0;
    for (size_t i = 0; i < p->m; i++) {
        for (size_t j = 0; j < p->n; j++) {
            double sum = accumulate ? before[i * p->ldc + j] : 0, size = fabs(sum);
            for (size_t l = 0; l < p->k; l++) {
                double term = (double)p->a[i * p->lda + l] * p->b[l * p->ldb + j];
                sum += term;
                size += fabs(term);
            }
            double bound = FLT_EPSILON * (1 + sqrt((double)p->k) / 4) * size;
            worst = check_worse(worst, check_error(p->c[i * p->ldc + j], sum, bound));
        }
    }
    return worst;
}

// A row must not depend on the rows beside it: each alone gives the same bits.
static bool rows_alone_agree(const product *p)
{
    bool same = true;
    float alone[1024];
    for (size_t i = 0; i < p->m; i++) {
        p->kernels->gemm(1, p->n, p->k, p->a + i * p->lda, (ptrdiff_t)p->lda, p->b, p->ldb, alone,
                         p->n, false);
        same &= !memcmp(alone, p->c + i * p->ldc, p->n * sizeof(float));
    }
    return same;
}

static void check_shape(const mh_kernels *kernels, size_t m, size_t n, size_t k,
                        check_result *result)
{
    product p = make_product(kernels, m, n, k);
    float before[8 * 1024];
    memcpy(before, p.c, ((m - 1) * p.ldc + n) * sizeof(float));
    kernels->gemm(m, n, k, p.a, (ptrdiff_t)p.lda, p.b, p.ldb, p.c, p.ldc, true);
    result->error = check_worse(result->error, product_error(&p, before, true));
    multiply(&p);
    result->error = check_worse(result->error, product_error(&p, before, false));
    result->ok &= rows_alone_agree(&p);
    for (size_t i = 0; i + 1 < m; i++) // between the rows
        result->ok &= p.c[i * p.ldc + n] == before[i * p.ldc + n];
    check_release();
}

check_result check_gemm(const check_run *run)
{
    check_result result = {.ok = true, .unit = "GFLOP/s"};
    const mh_kernels *kernels = run->kernels;
    static const size_t depths[] = {0, 1, 2, 7, 64, 129, 300};
    for (size_t m = 1; m <= kernels->gemm_rows; m++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t vectors = 1; vectors <= 9; vectors++)
                check_shape(kernels, m, vectors * kernels->lanes, depths[d], &result);
    if (run->bench) {
        product p = make_product(kernels, kernels->gemm_rows, MH_KEY_TILE, 128);
        result.rate = 2e-9 * (double)(p.m * p.n * p.k) * check_rate(multiply, &p);
    }
    return result;
}

// ---- transposition -----------------------------------------------------------------------------

typedef struct turn {
    const mh_kernels *kernels;
    size_t rows, columns;
    const float *src;
    float *dst;
} turn;

static void transpose(void *arg)
{
    const turn *t = arg;
    t->kernels->transpose(t->rows, t->columns, t->src, (ptrdiff_t)t->columns, t->dst, MH_KEY_TILE);
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

// ---- packing ----------------------------------------------------------------------------------

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
            bool finite = run->kernels->pack_rows(rows, columns, src, (ptrdiff_t)lds, dst, width);
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
