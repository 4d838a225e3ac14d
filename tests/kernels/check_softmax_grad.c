// SPDX-License-Identifier: MIT
// Dropout and the rows of the backward pass against the formulas in double.
#include "base/rng.h"
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double eps = FLT_EPSILON;

check_result check_keep_bits(const check_run *run)
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
        result.ok &= run->kernels->keep_bits(threshold, key, counter) == expected;
    }
    return result;
}

check_result check_drop_row(const check_run *run)
{
    check_result result = {.ok = true};
    const uint64_t keep = UINT64_C(0x5DEECE66D5DEECE6);
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        float *x = check_floats(MH_KEY_TILE), before[MH_KEY_TILE];
        check_fill(MH_KEY_TILE, 1, x);
        memcpy(before, x, sizeof before);
        run->kernels->drop_row(keep, 1.25f, n, x, x);
        for (size_t j = 0; j < n; j++)
            result.ok &= x[j] == (keep >> j & 1 ? before[j] * 1.25f : 0);
        check_release();
    }
    return result;
}

typedef struct grad_timing {
    const mh_kernels *kernels;
    mh_grad_map map;
    float *s, *g;
} grad_timing;

static void grad_row(void *arg)
{
    grad_timing *t = arg;
    t->kernels->softmax_grad_row(&t->map, MH_KEY_TILE, t->s, t->g);
}

check_result check_softmax_grad_row(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        float *s = check_floats(MH_KEY_TILE), *g = check_floats(MH_KEY_TILE);
        float products[MH_KEY_TILE], gradients[MH_KEY_TILE];
        check_fill(MH_KEY_TILE, 10, s);
        check_fill(MH_KEY_TILE, 1, g);
        mh_grad_map map = {.scale = 0.5f,
                           .lse = 6.5f,
                           .delta = 0.3f,
                           .keep_scale = 2,
                           .live = ~UINT64_C(0) << (n % 3),
                           .keep = UINT64_C(0x5DEECE66D5DEECE6)};
        s[0] = n % 3 ? NAN : s[0], g[0] = n % 3 ? INFINITY : g[0]; // dead, so it must not matter
        memcpy(products, s, sizeof products);
        memcpy(gradients, g, sizeof gradients);
        run->kernels->softmax_grad_row(&map, n, s, g);
        for (size_t j = 0; j < n; j++) {
            bool live = map.live >> j & 1, keep = map.keep >> j & 1;
            double x = 0.5 * products[j] - 6.5, p = live ? exp(x) : 0;
            double gradient = live && keep ? 2.0 * gradients[j] : 0;
            double bound = eps * p * (3 + fabs(x)) * (fabs(gradient) + 0.3) + 1e-37;
            result.error =
                check_worse(result.error, check_error(s[j], keep ? 2 * p : 0, 2 * bound / 0.3));
            result.error = check_worse(
                result.error, check_error(g[j], p * (gradient - (double)map.delta), bound));
        }
        check_release();
    }
    if (run->bench) {
        grad_timing t = {run->kernels,
                         {0.5f, 6, 0.1f, 1, ~UINT64_C(0), ~UINT64_C(0)},
                         check_floats(MH_KEY_TILE),
                         check_floats(MH_KEY_TILE)};
        check_fill(MH_KEY_TILE, 1, t.s);
        check_fill(MH_KEY_TILE, 1, t.g);
        result.rate = 1e-9 * MH_KEY_TILE * check_rate(grad_row, &t);
    }
    return result;
}

check_result check_softcap_slope(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        float *x = check_floats(MH_KEY_TILE), *y = check_floats(MH_KEY_TILE);
        check_fill(MH_KEY_TILE, 20, x);
        run->kernels->softcap_slope(n, 0.7f, 5, x, y);
        for (size_t j = 0; j < n; j++) {
            double t = tanh((double)0.7f * x[j] / 5);
            result.error = check_worse(result.error, check_error(y[j], 1 - t * t, 4 * eps));
        }
        check_release();
    }
    return result;
}

// add_row, multiply_row and dot.
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
        float dot = run->kernels->dot(n, x, y);
        result.error = check_worse(result.error,
                                   check_error(dot, sum, eps * (1 + sqrt((double)n) / 8) * size));
        memcpy(z, y, n * sizeof *z);
        run->kernels->add_row(n, x, z);
        for (size_t i = 0; i < n; i++)
            result.ok &= z[i] == y[i] + x[i];
        memcpy(z, y, n * sizeof *z);
        run->kernels->multiply_row(n, x, z);
        for (size_t i = 0; i < n; i++)
            result.ok &= z[i] == y[i] * x[i];
        check_release();
    }
    return result;
}
