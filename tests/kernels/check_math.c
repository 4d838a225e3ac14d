// SPDX-License-Identifier: MIT
// exp, log and tanh against libm in double, in units in the last place: over a sample of all
// floats, or over all 2^32 of them with --exhaustive.
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef struct function {
    void (*kernel)(size_t n, const float *x, float *y);
    double (*exact)(double x);
    bool (*covers)(float x); // the arguments that the contract covers
    double ulps;             // allowed
    float low, high;         // range of timed arguments
} function;

static bool any_float(float x)
{
    (void)x;
    return true;
}

static bool log_argument(float x) { return isnan(x) || x == 0 || x >= FLT_MIN; }

// One unit in the last place of a float near `value`.
static double ulp(double value)
{
    float magnitude = (float)fabs(value);
    if (isinf(magnitude))
        magnitude = FLT_MAX;
    return magnitude < FLT_MIN ? 0x1p-149 : ldexp(1, ilogb(magnitude) - 23);
}

static double function_error(const function *f, size_t n, const float *x, const float *y)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        if (!f->covers(x[i]))
            continue;
        double exact = f->exact(x[i]);
        if (isnan(exact) || isinf((float)exact) || isinf(y[i])) {
            // Beyond the largest float, or within rounding of it, inf and FLT_MAX are both correct.
            bool edge = fabs(exact) >= FLT_MAX * (1 - 1e-7) && fabsf(y[i]) >= FLT_MAX;
            worst = check_worse(worst, edge ? 0 : check_error(y[i], (float)exact, 1e-30));
        } else {
            worst = check_worse(worst, check_error(y[i], exact, f->ulps * ulp(exact)));
        }
    }
    return worst;
}

typedef struct timing {
    const function *f;
    size_t n;
    const float *x;
    float *y;
} timing;

static void call(void *arg)
{
    const timing *t = arg;
    t->f->kernel(t->n, t->x, t->y);
}

static check_result check_function(const check_run *run, const function *f)
{
    enum { BATCH = 4096 };
    check_result result = {.ok = true, .unit = "Gelem/s"};
    float *x = check_floats(BATCH), *y = check_floats(BATCH);
    const uint64_t step = run->exhaustive ? 1 : 4099; // a prime: every exponent, many mantissas
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
        size_t n = 0;
        for (; n < BATCH && bits < UINT64_C(1) << 32; n++, bits += step) {
            uint32_t pattern = (uint32_t)bits;
            memcpy(&x[n], &pattern, sizeof pattern);
        }
        f->kernel(n, x, y);
        result.error = check_worse(result.error, function_error(f, n, x, y));
    }
    check_release();
    for (size_t n = 1; n < 40; n++) { // odd lengths, between guard pages
        float *a = check_floats(n), *b = check_floats(n);
        check_fill(n, 5, a);
        for (size_t i = 0; i < n; i++)
            a[i] = fabsf(a[i]) + 0.1f;
        f->kernel(n, a, b);
        result.error = check_worse(result.error, function_error(f, n, a, b));
        check_release();
    }
    if (run->bench) {
        timing t = {f, 1000, x = check_floats(1000), check_floats(1000)};
        for (size_t i = 0; i < 1000; i++)
            x[i] = f->low + (f->high - f->low) * fabsf(check_random());
        result.rate = 1e-9 * 1000 * check_rate(call, &t);
    }
    return result;
}

check_result check_exp(const check_run *run)
{
    function f = {run->kernels->elementwise.exp, exp, any_float, 1.0, -20, 0};
    return check_function(run, &f);
}

check_result check_log(const check_run *run)
{
    function f = {run->kernels->elementwise.log, log, log_argument, 2.0, 1, 1000};
    return check_function(run, &f);
}

check_result check_tanh(const check_run *run)
{
    function f = {run->kernels->elementwise.tanh, tanh, any_float, 2.0, -3, 3};
    return check_function(run, &f);
}
