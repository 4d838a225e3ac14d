// SPDX-License-Identifier: MIT
// Sums of rows and optimiser steps against the formulas in double.
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double eps = FLT_EPSILON;

// add_rows, axpy and sum_squares
check_result check_sums(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 0; n < 200; n++) {
        float *a = check_floats(n), *b = check_floats(n), *y = check_floats(n), before[200];
        double squares = 0;
        check_fill(n, n % 2 ? 1 : 1e30f, a);
        check_fill(n, 1, b);
        check_fill(n, 1, y);
        for (size_t i = 0; i < n; i++)
            squares += (double)a[i] * a[i];
        result.error =
            check_worse(result.error, check_error(run->kernels->optimiser.sum_squares(n, a),
                                                  squares, 1e-14 * squares));
        memcpy(before, y, n * sizeof *y);
        run->kernels->elementwise.axpy(n, 0.7f, b, y);
        for (size_t i = 0; i < n; i++)
            result.error = check_worse(result.error,
                                       check_error(y[i], before[i] + (double)0.7f * b[i], 2 * eps));
        run->kernels->elementwise.add_rows(n, a, b, y);
        for (size_t i = 0; i < n; i++)
            result.ok &= y[i] == a[i] + b[i];
        check_release();
    }
    return result;
}

typedef struct timing {
    const mh_kernels *kernels;
    size_t n;
    float *p, *g, *m, *v;
} timing;

static const mh_adamw_map adamw_map = {0.5f, 0.99f, 0.1f, 0.999f, 0.001f, 1e-2f, 1.5f, 1e-8f};

static void adamw(void *arg)
{
    const timing *t = arg;
    t->kernels->optimiser.adamw(&adamw_map, t->n, t->g, t->p, t->m, t->v);
}

check_result check_adamw(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    const mh_adamw_map *map = &adamw_map;
    for (size_t n = 0; n < 70; n++) {
        timing t = {run->kernels,   n, check_floats(n), check_floats(n), check_floats(n),
                    check_floats(n)};
        double p[70], m[70], v[70];
        check_fill(n, 1, t.p);
        check_fill(n, 1, t.g);
        check_fill(n, 1, t.m);
        check_fill(n, 1, t.v);
        for (size_t i = 0; i < n; i++) {
            double g = (double)map->gradient_scale * t.g[i];
            t.v[i] = fabsf(t.v[i]) + 1e-3f;
            m[i] = t.m[i] + (double)map->beta1_rest * (g - (double)t.m[i]);
            v[i] = (double)map->beta2 * t.v[i] + (double)map->beta2_rest * g * g;
            p[i] =
                (double)map->decay * t.p[i] -
                (double)map->step * m[i] / (sqrt(v[i]) * (double)map->root + (double)map->epsilon);
        }
        adamw(&t);
        for (size_t i = 0; i < n; i++) {
            result.error = check_worse(result.error, check_error(t.m[i], m[i], 2 * eps));
            result.error = check_worse(result.error, check_error(t.v[i], v[i], 2 * eps * v[i]));
            result.error = check_worse(result.error, check_error(t.p[i], p[i], 4 * eps));
        }
        check_release();
    }
    if (run->bench) {
        enum { N = 1008 }; // 64-byte aligned, at different page offsets: no 4K aliasing
        timing t = {run->kernels,          N,
                    check_floats(N),       check_floats(N + 128),
                    check_floats(N + 256), check_floats(N + 384)};
        check_fill(N, 1, t.p);
        check_fill(N, 1, t.g);
        memset(t.m, 0, N * sizeof *t.m);
        memset(t.v, 0, N * sizeof *t.v);
        result.rate = 1e-9 * N * check_rate(adamw, &t);
    }
    return result;
}

check_result check_sgd(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 0; n < 140; n++) {
        const mh_sgd_map map = {0.5f, 0.1f, 0.01f, 0.9f, n % 4 == 3};
        float *p = check_floats(n), *g = check_floats(n), *velocity = check_floats(n);
        double expected[140], moved[140];
        check_fill(n, 1, p);
        check_fill(n, 1, g);
        check_fill(n, 1, velocity);
        for (size_t i = 0; i < n; i++) {
            double step = 0.5 * g[i] + (double)map.weight_decay * p[i];
            moved[i] = (double)map.momentum * velocity[i] + step;
            double chosen = n % 2 == 0   ? step
                            : n % 4 == 3 ? step + (double)map.momentum * moved[i]
                                         : moved[i];
            expected[i] = p[i] - (double)map.rate * chosen;
        }
        run->kernels->optimiser.sgd(&map, n, g, p, n % 2 ? velocity : NULL);
        for (size_t i = 0; i < n; i++) {
            result.error = check_worse(result.error, check_error(p[i], expected[i], 2 * eps));
            if (n % 2)
                result.error =
                    check_worse(result.error, check_error(velocity[i], moved[i], 2 * eps));
        }
        check_release();
    }
    return result;
}
