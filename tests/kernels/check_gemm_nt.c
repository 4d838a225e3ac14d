// SPDX-License-Identifier: MIT
// Interleaved partial sums: each is a product of every lanes-th column, computed by f32.gemm; and
// gemm_nt gives the same bits as gemm_interleaved.
#include "kernels/check.h"
#include <string.h>

typedef struct gemm {
    const mh_kernels *kernels;
    size_t m, n, k, lda, ldb, ldc;
    float *a, *b, *c; // (m, k), (n, k), (m, n in whole vectors)
} gemm;

static size_t whole_vectors(const gemm *f)
{
    return (f->n + f->kernels->lanes - 1) / f->kernels->lanes * f->kernels->lanes;
}

// Row strides of a and b exceed the row lengths by `apart` and 2 * `apart`.
static gemm make_gemm(const mh_kernels *kernels, size_t m, size_t n, size_t k, size_t apart,
                      float magnitude)
{
    gemm f = {kernels, m, n, k, k + apart, k + 2 * apart, 0, NULL, NULL, NULL};
    const size_t a_size = (m - 1) * f.lda + k, b_size = (n - 1) * f.ldb + k;
    f.ldc = whole_vectors(&f) + 7;
    f.a = check_floats(a_size), f.b = check_floats(b_size);
    f.c = check_floats((m - 1) * f.ldc + whole_vectors(&f));
    check_fill(a_size, magnitude, f.a);
    check_fill(b_size, magnitude, f.b);
    return f;
}

static void gemm_rows(void *arg)
{
    const gemm *f = arg;
    f->kernels->matrix.gemm_nt(&(mh_gemm_args){.m = f->m,
                                               .n = f->n,
                                               .k = f->k,
                                               .a = f->a,
                                               .lda = (ptrdiff_t)f->lda,
                                               .b = f->b,
                                               .ldb = (ptrdiff_t)f->ldb,
                                               .c = f->c,
                                               .ldc = (ptrdiff_t)f->ldc});
}

// b transposed: (k, n in whole vectors).
static float *turn(const gemm *f)
{
    const size_t columns = whole_vectors(f);
    float *transposed = check_floats(f->k * columns);
    for (size_t p = 0; p < f->k; p++)
        for (size_t j = 0; j < columns; j++)
            transposed[p * columns + j] = j < f->n ? f->b[j * f->ldb + p] : 0;
    return transposed;
}

// Row i with all columns, partial sum by partial sum; `a` and `b` are scratch for one of them.
static void add_chains(const gemm *f, size_t i, const float *columns, float *a, float *b,
                       float *chain, float *expected)
{
    const size_t lanes = f->kernels->lanes, n = whole_vectors(f);
    for (size_t l = 0; l < lanes; l++) {
        size_t length = 0;
        for (size_t p = l; p < f->k; p += lanes, length++) {
            a[length] = f->a[i * f->lda + p];
            memcpy(b + length * n, columns + p * n, n * sizeof *b);
        }
        f->kernels->f32.gemm(&(mh_gemm_args){.m = 1,
                                             .n = n,
                                             .k = length,
                                             .a = a,
                                             .lda = (ptrdiff_t)f->k,
                                             .b = b,
                                             .ldb = (ptrdiff_t)n,
                                             .c = chain,
                                             .ldc = (ptrdiff_t)n});
        for (size_t j = 0; j < n; j++)
            expected[j] = l == 0 ? chain[j] : expected[j] + chain[j];
    }
}

static bool agrees(const gemm *f)
{
    const size_t n = whole_vectors(f), rows = f->kernels->f32.rows;
    const float *columns = turn(f);
    float *a = check_floats(f->k), *b = check_floats(f->k * n), *chain = check_floats(n);
    float *expected = check_floats(n), *found = check_floats(rows * n);
    bool same = true;
    for (size_t first = 0; first < f->m; first += rows) {
        const size_t count = f->m - first < rows ? f->m - first : rows;
        f->kernels->matrix.gemm_interleaved(&(mh_gemm_args){.m = count,
                                                            .n = n,
                                                            .k = f->k,
                                                            .a = f->a + first * f->lda,
                                                            .lda = (ptrdiff_t)f->lda,
                                                            .b = columns,
                                                            .ldb = (ptrdiff_t)n,
                                                            .c = found,
                                                            .ldc = (ptrdiff_t)n});
        for (size_t r = 0; r < count; r++) {
            add_chains(f, first + r, columns, a, b, chain, expected);
            same &= !memcmp(expected, found + r * n, n * sizeof *expected);
            same &= !memcmp(expected, f->c + (first + r) * f->ldc, f->n * sizeof *expected);
        }
    }
    return same;
}

check_result check_gemm_nt(const check_run *run)
{
    static const size_t depths[] = {1, 7, 16, 37, 130};
    check_result result = {.ok = true, .unit = "Gflop/s"};
    for (size_t m = 1; m <= MH_SHORT_ROWS + 2; m++) {
        for (size_t n = 1; n <= 19; n += 1 + m % 3) {
            for (int tiny = 0; tiny < 2; tiny++) { // products that underflow to 0 have signs, too
                gemm f = make_gemm(run->kernels, m, n, depths[(m + n) % 5], 3, tiny ? 1e-30f : 1);
                gemm_rows(&f);
                result.ok &= agrees(&f);
                check_release();
            }
        }
    }
    if (run->bench) {
        gemm f = make_gemm(run->kernels, 10, 10, 512, 0, 1);
        result.rate = 1e-9 * 2 * 10 * 10 * 512 * check_rate(gemm_rows, &f);
        check_release();
    }
    result.error = result.ok ? 0 : 2;
    return result;
}
