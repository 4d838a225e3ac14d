// SPDX-License-Identifier: MIT
// mh_adamw_step and mh_sgd_step over many steps against the formulas in double, at every
// instruction-set level; gradient norm and clipping; equal bits for 1..8 threads; refusals.
#include "support.h"

#include <float.h>
#include <math.h>

enum { N = 50001, FEW = 77, STEPS = 50 };

static const double eps = FLT_EPSILON;

// What PyTorch's documentation says, in double.
static void adamw(const mh_adamw_options *o, int step, double g, double *p, double *m, double *v)
{
    g *= o->gradient_scale;
    *p -= o->learning_rate * o->weight_decay * *p;
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *v = o->beta2 * *v + (1 - o->beta2) * g * g;
    double first = *m / (1 - pow(o->beta1, step)), second = *v / (1 - pow(o->beta2, step));
    *p -= o->learning_rate * first / (sqrt(second) + o->epsilon);
}

static void sgd(const mh_sgd_options *o, double g, double *p, double *velocity)
{
    g = g * o->gradient_scale + o->weight_decay * *p;
    *velocity = o->momentum * *velocity + g;
    *p -= o->learning_rate * (o->nesterov ? g + o->momentum * *velocity : *velocity);
}

static void many_steps(mh_context *context, bool adam, bool variant)
{
    test_rng rng = {test_seed()};
    float p[FEW], g[FEW], m[FEW] = {0}, v[FEW] = {0};
    double dp[FEW], dm[FEW] = {0}, dv[FEW] = {0};
    mh_adamw_options a = mh_adamw_options_default();
    mh_sgd_options s = mh_sgd_options_default();
    if (variant) {
        a.learning_rate = 0.05, a.weight_decay = 0.1, a.beta2 = 0.98, a.gradient_scale = 0.5;
        s.momentum = 0.9, s.nesterov = true, s.weight_decay = 0.1, s.learning_rate = 0.05;
    }
    for (size_t i = 0; i < FEW; i++)
        dp[i] = p[i] = (float)test_normal(&rng);
    for (int step = 1; step <= STEPS; step++) {
        for (size_t i = 0; i < FEW; i++) {
            g[i] = (float)test_normal(&rng);
            if (adam)
                adamw(&a, step, (double)g[i], &dp[i], &dm[i], &dv[i]);
            else
                sgd(&s, (double)g[i], &dp[i], &dm[i]);
        }
        test_ok(context, adam ? mh_adamw_step(context, &a, (uint64_t)step, FEW, g, p, m, v)
                              : mh_sgd_step(context, &s, FEW, g, p, variant ? m : NULL));
    }
    for (size_t i = 0; i < FEW; i++) {
        assert_true(fabs((double)p[i] - dp[i]) <= 2 * eps * STEPS);
        assert_true((!adam && !variant) || fabs((double)m[i] - dm[i]) <= 20 * eps);
        assert_true(!adam || fabs((double)v[i] - dv[i]) <= 20 * eps);
    }
}

static void formulas(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        for (int kind = 0; kind < 4; kind++)
            many_steps(context, kind & 1, kind & 2);
        mh_context_free(context);
    }
}

static float gradient[N], arrays[2][4][N];

static void bits(void **state)
{
    (void)state;
    test_rng rng = {5};
    for (size_t i = 0; i < N; i++)
        gradient[i] = (float)test_normal(&rng);
    mh_sgd_options s = mh_sgd_options_default();
    s.momentum = 0.9;
    for (size_t level = 0; test_level(level); level++) {
        double first_norm = 0;
        for (size_t threads = 1; threads <= 8; threads++) {
            mh_context *context = test_context(test_level(level), threads);
            float(*r)[N] = arrays[threads > 1]; // p, m, v, scaled gradient
            const size_t n[3] = {N, 0, 1000};
            const float *gradients[3] = {gradient, NULL, gradient + 7};
            double norm;
            memset(r, 0, sizeof arrays[0]);
            test_ok(context, mh_adamw_step(context, NULL, 3, N, gradient, r[0], r[1], r[2]));
            test_ok(context, mh_sgd_step(context, &s, N, gradient, r[0], r[1]));
            memcpy(r[3], gradient, sizeof gradient);
            test_ok(context, mh_scale_gradients(context, 0.3, N, r[3]));
            test_ok(context, mh_gradient_norm(context, 3, n, gradients, &norm));
            first_norm = threads == 1 ? norm : first_norm;
            assert_memory_equal(&norm, &first_norm, sizeof norm);
            assert_true(threads == 1 || memcmp(arrays[0], arrays[1], sizeof arrays[0]) == 0);
            assert_true(r[3][5] == gradient[5] * 0.3f);
            mh_context_free(context);
        }
        double sum = 0;
        for (size_t i = 0; i < N; i++)
            sum += (double)gradient[i] * (double)gradient[i];
        for (size_t i = 7; i < 1007; i++)
            sum += (double)gradient[i] * (double)gradient[i];
        assert_true(fabs(first_norm - sqrt(sum)) < 1e-12 * first_norm);
    }
}

static void clipping(void **state)
{
    (void)state;
    assert_true(mh_clip_factor(0.5, 1) == 1 && mh_clip_factor(0, 1) == 1);
    assert_true(fabs(mh_clip_factor(10, 1) - 0.1) < 1e-7);
    assert_true(mh_clip_factor(INFINITY, 1) == 0 && isnan(mh_clip_factor(NAN, 1)));
    mh_context *context = test_context(NULL, 1);
    float large[2] = {3e30f, 4e30f}; // whose squares no float holds
    const size_t n = 2;
    const float *list = large;
    double norm;
    test_ok(context, mh_gradient_norm(context, 1, &n, &list, &norm));
    assert_true(fabs(norm / 5e30 - 1) < 1e-6);
    test_ok(context, mh_gradient_norm(context, 0, NULL, NULL, &norm));
    assert_true(norm == 0);
    mh_context_free(context);
}

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float x[3] = {1, 2, 3};
    mh_adamw_options a = mh_adamw_options_default();
    mh_sgd_options s = mh_sgd_options_default();
    double norm;
    test_refused(context, mh_adamw_step(context, &a, 0, 3, x, x, x, x), MH_ERROR_ARGUMENT, "step");
    test_refused(context, mh_adamw_step(context, &a, 1, 3, x, x, NULL, x), MH_ERROR_ARGUMENT, "m");
    test_refused(context, mh_adamw_step(context, &a, 1, SIZE_MAX, x, x, x, x), MH_ERROR_ARGUMENT,
                 "n: found");
    a.beta1 = 1;
    test_refused(context, mh_adamw_step(context, &a, 1, 3, x, x, x, x), MH_ERROR_ARGUMENT, "beta1");
    a = mh_adamw_options_default();
    a.epsilon = NAN;
    test_refused(context, mh_adamw_step(context, &a, 1, 3, x, x, x, x), MH_ERROR_ARGUMENT,
                 "epsilon");
    s.nesterov = true;
    test_refused(context, mh_sgd_step(context, &s, 3, x, x, x), MH_ERROR_ARGUMENT, "nesterov");
    s.momentum = 0.9;
    test_refused(context, mh_sgd_step(context, &s, 3, x, x, NULL), MH_ERROR_ARGUMENT, "velocity");
    s.struct_size = 3;
    test_refused(context, mh_sgd_step(context, &s, 3, x, x, x), MH_ERROR_ARGUMENT, "struct_size");
    test_refused(context, mh_gradient_norm(context, 1, NULL, NULL, &norm), MH_ERROR_ARGUMENT, "n");
    test_refused(context, mh_scale_gradients(context, 1, 3, NULL), MH_ERROR_ARGUMENT, "gradient");
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3);
    test_ok(context, mh_adamw_step(context, NULL, 1, 0, NULL, NULL, NULL, NULL));
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),
        cmocka_unit_test(bits),
        cmocka_unit_test(clipping),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
