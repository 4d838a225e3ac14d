// SPDX-License-Identifier: MIT
// Activations and their derivatives against libm in double: over a sample of all floats (all of
// them with --exhaustive), at odd lengths between guard pages, and in place.
#include "kernels/check.h"
#include "ref/ref_layers.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef void (*forward_kernel)(size_t n, const float *x, float *y);
typedef void (*backward_kernel)(size_t n, const float *x, const float *dy, float *dx);

typedef struct activation {
    mh_activation kind;
    forward_kernel forward;
    backward_kernel backward;
} activation;

static activation choose(const mh_kernels *kernels, mh_activation kind)
{
    switch (kind) {
    case MH_RELU:
        return (activation){kind, kernels->activation.relu, kernels->activation.relu_grad};
    case MH_GELU:
        return (activation){kind, kernels->activation.gelu, kernels->activation.gelu_grad};
    case MH_GELU_TANH:
        return (activation){kind, kernels->activation.gelu_tanh,
                            kernels->activation.gelu_tanh_grad};
    default:
        return (activation){kind, kernels->activation.silu, kernels->activation.silu_grad};
    }
}

static double forward_error(mh_activation kind, size_t n, const float *x, const float *y)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double exact = ref_activation(kind, x[i]);
        double bound = ref_activation_error(kind, x[i]);
        worst = check_worse(worst, check_error(y[i], exact, bound));
    }
    return worst;
}

static double backward_error(mh_activation kind, size_t n, const float *x, const float *dy,
                             const float *dx)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double exact = (double)dy[i] * ref_activation_slope(kind, x[i]);
        double bound = fabs((double)dy[i]) * ref_activation_slope_error(kind, x[i]) + 0x1p-148;
        worst = check_worse(worst, check_error(dx[i], exact, bound));
    }
    return worst;
}

typedef struct timing {
    activation f;
    size_t n;
    const float *x, *dy;
    float *y;
} timing;

static void call_forward(void *arg)
{
    const timing *t = arg;
    t->f.forward(t->n, t->x, t->y);
}

static void call_backward(void *arg)
{
    const timing *t = arg;
    t->f.backward(t->n, t->x, t->dy, t->y);
}

static double rate(const activation *f, bool backward)
{
    enum { N = 1008 }; // 64-byte aligned, at different page offsets: no 4K aliasing
    float *x = check_floats(N), *dy = check_floats(N + 128), *y = check_floats(N + 256);
    timing t = {*f, N, x, dy, y};
    check_fill(N, 4, x);
    check_fill(N, 1, dy);
    return 1e-9 * N * check_rate(backward ? call_backward : call_forward, &t);
}

static check_result check(const check_run *run, mh_activation kind, bool backward)
{
    enum { BATCH = 4096 };
    check_result result = {.ok = true, .unit = "Gelem/s"};
    const activation f = choose(run->kernels, kind);
    float *x = check_floats(BATCH), *dy = check_floats(BATCH), *y = check_floats(BATCH);
    const uint64_t step = run->exhaustive ? 1 : 8191; // a prime: every exponent, many mantissas
    check_fill(BATCH, 1, dy);
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
        size_t n = 0;
        for (; n < BATCH && bits < UINT64_C(1) << 32; n++, bits += step) {
            uint32_t pattern = (uint32_t)bits;
            memcpy(&x[n], &pattern, sizeof pattern);
        }
        if (backward)
            f.backward(n, x, dy, y);
        else
            f.forward(n, x, y);
        result.error = check_worse(result.error, backward ? backward_error(kind, n, x, dy, y)
                                                          : forward_error(kind, n, x, y));
    }
    check_release();
    for (size_t n = 0; n < 70; n++) {
        float *a = check_floats(n), *g = check_floats(n), *b = check_floats(n);
        check_fill(n, 6, a);
        check_fill(n, 1, g);
        if (backward)
            f.backward(n, a, g, b);
        else
            f.forward(n, a, b);
        result.error = check_worse(result.error, backward ? backward_error(kind, n, a, g, b)
                                                          : forward_error(kind, n, a, b));
        if (backward)
            f.backward(n, a, g, g); // in place: the same bits
        else
            f.forward(n, a, a);
        result.ok &= n == 0 || memcmp(backward ? g : a, b, n * sizeof *b) == 0;
        check_release();
    }
    if (run->bench)
        result.rate = rate(&f, backward);
    return result;
}

check_result check_relu(const check_run *run) { return check(run, MH_RELU, false); }
check_result check_gelu(const check_run *run) { return check(run, MH_GELU, false); }
check_result check_gelu_tanh(const check_run *run) { return check(run, MH_GELU_TANH, false); }
check_result check_silu(const check_run *run) { return check(run, MH_SILU, false); }
check_result check_relu_grad(const check_run *run) { return check(run, MH_RELU, true); }
check_result check_gelu_grad(const check_run *run) { return check(run, MH_GELU, true); }
check_result check_gelu_tanh_grad(const check_run *run) { return check(run, MH_GELU_TANH, true); }
check_result check_silu_grad(const check_run *run) { return check(run, MH_SILU, true); }

check_result check_swiglu(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 0; n < 70; n++) {
        float *x[5], dgate[70], dup[70]; // gate, up, dy, y, dup
        for (int i = 0; i < 5; i++)
            check_fill(n, i == 0 ? 8 : 1, x[i] = check_floats(n));
        run->kernels->activation.swiglu(n, x[0], x[1], x[3]);
        for (size_t j = 0; j < n; j++) {
            double f = ref_activation(MH_SILU, x[0][j]);
            double slope = ref_activation_slope(MH_SILU, x[0][j]);
            result.error =
                check_worse(result.error, check_error(x[3][j], f * x[1][j],
                                                      5 * (double)FLT_EPSILON * fabs(f * x[1][j])));
            dgate[j] = (float)(slope * x[1][j] * x[2][j]), dup[j] = (float)(f * x[2][j]);
        }
        run->kernels->activation.swiglu_grad(n, x[0], x[1], x[2], x[0],
                                             x[4]); // dgate overwrites gate
        for (size_t j = 0; j < n; j++) {
            result.error =
                check_worse(result.error, check_error(x[0][j], dgate[j], 4 * (double)FLT_EPSILON));
            result.error =
                check_worse(result.error,
                            check_error(x[4][j], dup[j], 6 * (double)FLT_EPSILON * fabsf(dup[j])));
        }
        check_release();
    }
    return result;
}
