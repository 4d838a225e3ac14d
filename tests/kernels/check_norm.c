// SPDX-License-Identifier: MIT
// Layer norm and RMS norm of a row against the formulas in double.
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double eps = FLT_EPSILON;

typedef struct timing {
    const mh_kernels *kernels;
    mh_norm_map map;
    size_t n;
    float *x, *dy, *y, *z;
} timing;

static void forward(void *arg)
{
    timing *t = arg;
    float variance;
    t->kernels->rowwise.moments(t->n, t->x, &t->map.mean, &variance);
    t->kernels->rowwise.norm_row(&t->map, t->n, t->x, t->y);
}

static void backward(void *arg)
{
    timing *t = arg;
    float sum, gemm;
    t->kernels->rowwise.norm_grad_sums(&t->map, t->n, t->x, t->dy, &sum, &gemm);
    t->kernels->rowwise.norm_grad_row(&t->map, t->n, t->x, t->dy, 1e-3f * sum, 1e-3f * gemm, t->y);
    t->kernels->rowwise.norm_grad_weight(&t->map, t->n, t->x, t->dy, t->z, t->z + t->n);
}

static double rate(const mh_kernels *kernels, void (*body)(void *arg))
{
    enum { N = 1024 };
    float *weight = check_floats(N), *bias = check_floats(N);
    timing t = {kernels,         {0, 1, weight, bias}, N, check_floats(N), check_floats(N),
                check_floats(N), check_floats(2 * N)};
    check_fill(N, 1, weight);
    check_fill(N, 1, bias);
    check_fill(N, 1, t.x);
    check_fill(N, 1, t.dy);
    check_fill(2 * N, 1, t.z);
    return 1e-9 * N * check_rate(body, &t);
}

// moments, mean_square and norm_row with and without weight and bias
check_result check_norm(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t n = 1; n < 600; n = n < 90 ? n + 1 : 2 * n - 3) {
        float *x = check_floats(n), *w = check_floats(n), *b = check_floats(n),
              *y = check_floats(n), mean, variance;
        check_fill(n, 1, x);
        check_fill(n, 1, w);
        check_fill(n, 1, b);
        for (size_t i = 0; i < n; i++)
            x[i] += 3;
        double sum = 0, squares = 0, about = 0;
        for (size_t i = 0; i < n; i++)
            sum += x[i], squares += (double)x[i] * x[i];
        for (size_t i = 0; i < n; i++)
            about += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
        run->kernels->rowwise.moments(n, x, &mean, &variance);
        result.error = check_worse(result.error, check_error(mean, sum / (double)n, 6 * eps));
        result.error =
            check_worse(result.error, check_error(variance, about / (double)n,
                                                  6 * eps * about / (double)n + 10 * eps * eps));
        float square = run->kernels->rowwise.mean_square(n, x);
        result.error = check_worse(
            result.error, check_error(square, squares / (double)n,
                                      (2 + sqrt((double)n) / 8) * eps * squares / (double)n));
        for (int kind = 0; kind < 4; kind++) {
            mh_norm_map map = {mean, 1.7f, kind & 1 ? w : NULL, kind & 2 ? b : NULL};
            run->kernels->rowwise.norm_row(&map, n, x, y);
            for (size_t i = 0; i < n; i++) {
                double v = ((double)x[i] - (double)mean) * 1.7f * (kind & 1 ? (double)w[i] : 1);
                double bias = kind & 2 ? (double)b[i] : 0;
                result.error = check_worse(
                    result.error, check_error(y[i], v + bias, 2 * eps * (fabs(v) + fabs(bias))));
            }
        }
        memcpy(b, x, n * sizeof *x);
        mh_norm_map map = {mean, 1.7f, w, NULL};
        run->kernels->rowwise.norm_row(&map, n, x, y);
        run->kernels->rowwise.norm_row(&map, n, b, b);
        result.ok &= memcmp(b, y, n * sizeof *b) == 0;
        check_release();
    }
    if (run->bench)
        result.rate = rate(run->kernels, forward);
    return result;
}

check_result check_norm_grad(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t n = 1; n < 600; n = n < 90 ? n + 1 : 2 * n - 3) {
        float *x = check_floats(n), *w = check_floats(n), *dy = check_floats(n),
              *dx = check_floats(n), *dw = check_floats(n), *db = check_floats(n);
        float *all[6] = {x, w, dy, dx, dw, db}, before[2][1200], found_sum, found_gemm;
        for (int i = 0; i < 6; i++)
            check_fill(n, 1, all[i]);
        memcpy(before[0], dw, n * sizeof *dw);
        memcpy(before[1], db, n * sizeof *db);
        mh_norm_map map = {0.25f, 1.7f, n % 2 ? w : NULL, NULL};
        double sum = 0, gemm = 0, size = 0;
        run->kernels->rowwise.norm_grad_sums(&map, n, x, dy, &found_sum, &found_gemm);
        run->kernels->rowwise.norm_grad_row(&map, n, x, dy, 0.1f, -0.3f, dx);
        run->kernels->rowwise.norm_grad_weight(&map, n, x, dy, dw, n % 3 ? db : NULL);
        for (size_t i = 0; i < n; i++) {
            double g = (double)dy[i] * (n % 2 ? (double)w[i] : 1), h = (x[i] - 0.25) * (double)1.7f;
            sum += g, gemm += g * h, size += fabs(g) + fabs(g * h);
            result.error = check_worse(
                result.error,
                check_error(dx[i], (double)1.7f * (g - (double)0.1f + (double)0.3f * h), 8 * eps));
            result.error = check_worse(
                result.error, check_error(dw[i], before[0][i] + (double)dy[i] * h, 4 * eps));
            result.error = check_worse(
                result.error,
                check_error(db[i], n % 3 ? (double)before[1][i] + dy[i] : (double)before[1][i],
                            n % 3 ? eps : 0x1p-100));
        }
        double bound = eps * (2 + sqrt((double)n) / 8) * size;
        result.error = check_worse(result.error, check_error(found_sum, sum, bound));
        result.error = check_worse(result.error, check_error(found_gemm, gemm, bound));
        check_release();
    }
    if (run->bench)
        result.rate = rate(run->kernels, backward);
    return result;
}
