// SPDX-License-Identifier: MIT
// Sines, cosines and rotations against libm in double.
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double eps = FLT_EPSILON;

typedef struct timing {
    const mh_kernels *kernels;
    size_t n;
    double position, *frequency;
    float *c, *s, *x;
} timing;

static void angles(void *arg)
{
    const timing *t = arg;
    t->kernels->rowwise.sin_cos(t->n, t->position, t->frequency, t->s, t->c);
}

static void halves(void *arg)
{
    const timing *t = arg;
    t->kernels->rowwise.rope_half(t->n, t->c, t->s, 1, t->x, t->x);
}

static void pairs(void *arg)
{
    const timing *t = arg;
    t->kernels->rowwise.rope_interleaved(t->n, t->c, t->s, 1, t->x, t->x);
}

static double rate(const check_run *run, void (*body)(void *arg))
{
    enum { N = 64 };
    static double frequency[N];
    timing t = {run->kernels,       N, 777, frequency, check_floats(N), check_floats(N),
                check_floats(2 * N)};
    for (int i = 0; i < N; i++) {
        frequency[i] = 1.0 / (i + 1), t.c[i] = 0.8f, t.s[i] = 0.6f;
        t.x[i] = t.x[i + N] = 1;
    }
    return 1e-9 * N * check_rate(body, &t);
}

check_result check_sin_cos(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t n = 1; n < 400; n++) {
        float *s = check_floats(n % 37), *c = check_floats(n % 37);
        double frequency[37], position = floor(n % 2 ? (double)n * 2.5 : 1e6 * check_random());
        for (size_t i = 0; i < n % 37; i++)
            frequency[i] = i == 0 ? 1 : fabs((double)check_random());
        run->kernels->rowwise.sin_cos(n % 37, position, frequency, s, c);
        for (size_t i = 0; i < n % 37; i++) {
            double x = position * frequency[i];
            double bound_s = 0.51 * eps * fabs(sin(x)) + 1e-9,
                   bound_c = 0.51 * eps * fabs(cos(x)) + 1e-9;
            result.error = check_worse(result.error, check_error(s[i], sin(x), bound_s));
            result.error = check_worse(result.error, check_error(c[i], cos(x), bound_c));
        }
        check_release();
    }
    if (run->bench)
        result.rate = rate(run, angles);
    return result;
}

static check_result check_rope(const check_run *run, bool interleaved)
{
    check_result result = {.ok = true, .unit = "Gpair/s"};
    for (size_t n = 0; n < 70; n++) {
        float *c = check_floats(n), *s = check_floats(n), *x = check_floats(2 * n),
              *y = check_floats(2 * n), sign = n % 2 ? 1.0f : -1.0f;
        check_fill(n, 1, c);
        check_fill(n, 1, s);
        check_fill(2 * n, 1, x);
        void (*rotate)(size_t, const float *, const float *, float, const float *, float *) =
            interleaved ? run->kernels->rowwise.rope_interleaved : run->kernels->rowwise.rope_half;
        rotate(n, c, s, sign, x, y);
        for (size_t i = 0; i < n; i++) {
            size_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + n;
            double a = x[first], b = x[second], co = c[i], si = (double)sign * s[i];
            result.error =
                check_worse(result.error, check_error(y[first], a * co - b * si, 2 * eps));
            result.error =
                check_worse(result.error, check_error(y[second], b * co + a * si, 2 * eps));
        }
        rotate(n, c, s, sign, x, x);
        result.ok &= n == 0 || memcmp(x, y, 2 * n * sizeof *x) == 0;
        check_release();
    }
    if (run->bench)
        result.rate = rate(run, interleaved ? pairs : halves);
    return result;
}

check_result check_rope_half(const check_run *run) { return check_rope(run, false); }
check_result check_rope_interleaved(const check_run *run) { return check_rope(run, true); }
