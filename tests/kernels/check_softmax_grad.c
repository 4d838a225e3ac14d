// SPDX-License-Identifier: MIT
// Dropout and the backward pass of a tile's rows against the formulas in double.
#include "base/philox.h"
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double eps = FLT_EPSILON;

check_result check_dropout_mask(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (uint32_t n = 0; n < 200; n++) {
        const uint32_t key[2] = {n * 7919u, ~n}, counter[4] = {n * 8, n, 3 * n, 0xFFFFFFF0u + n};
        const uint16_t threshold = n == 0 ? 0 : n == 1 ? 0xFFFFu : (uint16_t)(n * 0x4567u);
        uint64_t expected = 0;
        for (uint32_t j = 0; j < 64; j++) {
            const uint32_t at[4] = {counter[0] + j / 8, counter[1], counter[2], counter[3]};
            uint32_t words[4];
            mh_philox(at, key, words);
            expected |= (uint64_t)((uint16_t)(words[j % 8 / 2] >> 16 * (j % 2)) >= threshold) << j;
        }
        result.ok &= run->kernels->elementwise.dropout_mask(threshold, key, counter) == expected;
    }
    return result;
}

check_result check_dropout_row(const check_run *run)
{
    check_result result = {.ok = true};
    const uint64_t keep = UINT64_C(0x5DEECE66D5DEECE6);
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        float *x = check_floats(MH_KEY_TILE), before[MH_KEY_TILE];
        check_fill(MH_KEY_TILE, 1, x);
        memcpy(before, x, sizeof before);
        run->kernels->elementwise.dropout_row(keep, 1.25f, n, x, x);
        for (size_t j = 0; j < n; j++)
            result.ok &= x[j] == (keep >> j & 1 ? before[j] * 1.25f : 0);
        check_release();
    }
    return result;
}

// The rows of a tile: s and g, with gaps between rows that must stay untouched.
enum { GRAD_ROWS = 3, GRAD_STRIDE = MH_KEY_TILE + 16 };

typedef struct grad_timing {
    const mh_kernels *kernels;
    mh_grad_map map;
    float *s, *g;
} grad_timing;

static void grad_rows(void *arg)
{
    grad_timing *t = arg;
    t->kernels->attention.softmax_grad(&t->map, GRAD_ROWS, MH_KEY_TILE, t->s, t->g, GRAD_STRIDE);
}

// Error of row i over n keys; s and g were `products` and `gradients` before.
static double grad_row_error(const mh_grad_map *map, size_t i, size_t n, const float *products,
                             const float *gradients, const float *s, const float *g)
{
    double worst = 0;
    for (size_t j = 0; j < n; j++) {
        const bool live = map->live[i] >> j & 1, keep = !map->keep || (map->keep[i] >> j & 1);
        const double delta = map->delta[i], keep_scale = map->keep ? map->keep_scale : 1;
        double x = (double)map->scale * products[j] - map->lse[i], p = live ? exp(x) : 0;
        double gradient = live && keep ? keep_scale * gradients[j] : 0;
        double bound = eps * p * (3 + fabs(x)) * (fabs(gradient) + delta) + 1e-37;
        worst = check_worse(worst, check_error(s[j], keep ? keep_scale * p : 0, 2 * bound / delta));
        worst = check_worse(worst, check_error(g[j], p * (gradient - delta), bound));
    }
    return worst;
}

static void check_grad_rows(const check_run *run, size_t n, bool drops, check_result *result)
{
    static const float lse[GRAD_ROWS] = {6.5f, 6, 7}, delta[GRAD_ROWS] = {0.3f, 0.5f, 0.25f};
    const uint64_t keep[GRAD_ROWS] = {UINT64_C(0x5DEECE66D5DEECE6), 0, ~UINT64_C(0)};
    const uint64_t live[GRAD_ROWS] = {~UINT64_C(0) << n % 3, ~UINT64_C(0), ~UINT64_C(0) << 1};
    const mh_grad_map map = {0.5f, lse, delta, live, drops ? keep : NULL, 2};
    enum { NUMBERS = (GRAD_ROWS - 1) * GRAD_STRIDE + MH_KEY_TILE };
    float *s = check_floats(NUMBERS), *g = check_floats(NUMBERS);
    float products[NUMBERS], gradients[NUMBERS];
    check_fill(NUMBERS, 10, s);
    check_fill(NUMBERS, 1, g);
    s[0] = n % 3 ? NAN : s[0], g[0] = n % 3 ? INFINITY : g[0]; // dead: must have no effect
    memcpy(products, s, sizeof products);
    memcpy(gradients, g, sizeof gradients);
    run->kernels->attention.softmax_grad(&map, GRAD_ROWS, n, s, g, GRAD_STRIDE);
    for (size_t i = 0; i < GRAD_ROWS; i++) {
        const size_t row = i * GRAD_STRIDE, after = row + MH_KEY_TILE;
        result->error =
            check_worse(result->error, grad_row_error(&map, i, n, products + row, gradients + row,
                                                      s + row, g + row));
        if (i + 1 < GRAD_ROWS)
            result->ok &= s[after] == products[after] && g[after] == gradients[after];
    }
    check_release();
}

check_result check_softmax_grad(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        check_grad_rows(run, n, false, &result);
        check_grad_rows(run, n, true, &result);
    }
    if (run->bench) {
        static const float lse[GRAD_ROWS] = {6, 6, 6}, delta[GRAD_ROWS] = {0.1f, 0.1f, 0.1f};
        static const uint64_t live[GRAD_ROWS] = {~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)};
        grad_timing t = {run->kernels,
                         {0.5f, lse, delta, live, NULL, 1},
                         check_floats(GRAD_ROWS * GRAD_STRIDE),
                         check_floats(GRAD_ROWS * GRAD_STRIDE)};
        check_fill(GRAD_ROWS * GRAD_STRIDE, 1, t.s);
        check_fill(GRAD_ROWS * GRAD_STRIDE, 1, t.g);
        result.rate = 1e-9 * GRAD_ROWS * MH_KEY_TILE * check_rate(grad_rows, &t);
    }
    return result;
}

check_result check_softcap_slope(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        float *x = check_floats(MH_KEY_TILE), *y = check_floats(MH_KEY_TILE);
        const uint64_t live = ~(UINT64_C(0x0100040000200001) << n % 5);
        check_fill(MH_KEY_TILE, 20, x);
        for (size_t j = 0; j < MH_KEY_TILE; j++)
            if (!(live >> j & 1))
                x[j] = j % 2 ? NAN : INFINITY; // dead: must have no effect
        run->kernels->attention.softcap_slope(n, 0.7f, 5, live, x, y);
        for (size_t j = 0; j < n; j++) {
            double t = tanh((double)0.7f * x[j] / 5), slope = live >> j & 1 ? 1 - t * t : 0;
            result.error = check_worse(result.error, check_error(y[j], slope, 4 * eps));
        }
        check_release();
    }
    return result;
}

// add_row, mul_row and dot.
check_result check_rows(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 1; n <= 200; n++) {
        float *x = check_floats(n), *y = check_floats(n), *z = check_floats(n);
        double sum = 0, size = 0;
        check_fill(n, 1, x);
        check_fill(n, 1, y);
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i] * y[i];
            size += fabs((double)x[i] * y[i]);
        }
        float dot = run->kernels->rowwise.dot(n, x, y);
        result.error = check_worse(result.error,
                                   check_error(dot, sum, eps * (1 + sqrt((double)n) / 8) * size));
        memcpy(z, y, n * sizeof *z);
        run->kernels->elementwise.add_row(n, x, z);
        for (size_t i = 0; i < n; i++)
            result.ok &= z[i] == y[i] + x[i];
        memcpy(z, y, n * sizeof *z);
        run->kernels->elementwise.mul_row(n, x, z);
        for (size_t i = 0; i < n; i++)
            result.ok &= z[i] == y[i] * x[i];
        check_release();
    }
    return result;
}
