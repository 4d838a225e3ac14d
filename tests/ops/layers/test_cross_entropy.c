// SPDX-License-Identifier: MIT
// mh_cross_entropy: random logits, smoothing, weights of classes, ignored rows, dtypes and strides
// against the double reference at every instruction-set level; equal bits for 1..8 threads; in
// place; infinities; nothing that counts; refusals.
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { CASES = 400 };

static const double eps = FLT_EPSILON;

static double class_weight(const mh_cross_entropy_options *o, size_t v)
{
    return o->weight ? ref_get(o->weight, &v) : 1;
}

// Each row as if it were alone, and its sum.
static void check_losses(const mh_cross_entropy_options *options, size_t V, const double *x,
                         const int64_t *wanted, double bound, uint64_t seed)
{
    mh_cross_entropy_options o = *options;
    o.reduction = MH_REDUCTION_SUM;
    for (size_t n = 0; o.losses && n < o.losses->shape[0]; n++) {
        double expected;
        ref_cross_entropy(&o, 1, V, x + n * V, wanted + n, &expected, NULL);
        const double found = ref_get(o.losses, &n);
        if (!(fabs(found - expected) <= bound + eps * expected))
            fail_msg("losses %zu: found %.9g, expected %.9g\n  MH_TEST_SEED=%" PRIu64
                     " MH_TEST_CASES=1",
                     n, found, expected, seed);
    }
}

static void one_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    size_t shape[2] = {test_between(&rng, 1, 12), test_between(&rng, 1, 60)};
    if (test_chance(&rng, 0.1))
        shape[1] = test_between(&rng, 1000, 5000);
    const size_t N = shape[0], V = shape[1];
    test_tensor weight = test_tensor_random(&rng, MH_F32, 1, &V, true);
    test_tensor losses = test_tensor_random(&rng, MH_F32, 1, &N, false);
    for (size_t v = 0; v < V; v++)
        ref_set(&weight.view, &v, test_chance(&rng, 0.2) ? 0 : test_uniform(&rng, 0.1, 2));
    o.weight = test_chance(&rng, 0.5) ? &weight.view : NULL;
    o.losses = test_chance(&rng, 0.5) ? &losses.view : NULL;
    const double magnitude = test_chance(&rng, 0.5) ? 1 : 10;
    o.label_smoothing = test_chance(&rng, 0.5) ? 0 : (float)test_uniform(&rng, 0, 1);
    o.reduction = test_chance(&rng, 0.5) ? MH_REDUCTION_MEAN : MH_REDUCTION_SUM;
    o.ignore_index = test_chance(&rng, 0.5) ? -100 : 0;
    o.gradient_scale = test_chance(&rng, 0.5) ? 1 : 0.25f;
    test_tensor logits = test_tensor_random(&rng, test_float_dtype(&rng), 2, shape, true);
    test_tensor dlogits = test_tensor_random(&rng, test_float_dtype(&rng), 2, shape, false);
    test_tensor targets =
        test_tensor_random(&rng, test_chance(&rng, 0.5) ? MH_I32 : MH_I64, 1, shape, true);
    test_fill_normal(&rng, &logits.view, magnitude);
    int64_t *wanted = ref_alloc(N, sizeof *wanted);
    for (size_t n = 0; n < N; n++)
        ref_set(&targets.view, &n,
                (double)(test_chance(&rng, 0.2) ? o.ignore_index
                                                : (int64_t)test_between(&rng, 0, V - 1)));
    for (size_t n = 0; n < N; n++)
        wanted[n] = (int64_t)ref_get(&targets.view, &n);
    double *x = ref_load(&logits.view), *dx = ref_alloc(N * V, sizeof *dx), expected, loss;
    size_t counted = ref_cross_entropy(&o, N, V, x, wanted, &expected, dx), count;
    test_ok(context, mh_cross_entropy(context, &o, &logits.view, &targets.view, &loss, &count,
                                      &dlogits.view));
    assert_int_equal(count, counted);
    double divisor = 0, most = 1; // most: the largest weight that can stand in a row
    for (size_t n = 0; n < N; n++)
        divisor += wanted[n] == o.ignore_index ? 0 : class_weight(&o, (size_t)wanted[n]);
    for (size_t v = 0; v < V && o.weight; v++)
        most = fmax(most, class_weight(&o, v));
    if (o.reduction == MH_REDUCTION_SUM)
        divisor = 1;
    if (divisor == 0 && counted) // all that counts has weight 0: NaN or infinity, in PyTorch too
        goto done;
    double sum_error = eps * sqrt((double)V); // of the softmax, in the longest chain of sums
    double bound = (sum_error + eps * (6 + magnitude * 4)) * most * (double)counted / divisor;
    if (!(isnan(expected) ? isnan(loss) : fabs(loss - expected) <= bound))
        fail_msg("loss: found %.9g, expected %.9g within %.3g\n  MH_TEST_SEED=%" PRIu64
                 " MH_TEST_CASES=1",
                 loss, expected, bound, seed);
    for (size_t i = 0; i < N * V; i++) {
        size_t at[2] = {i / V, i % V};
        double found = ref_get(&dlogits.view, at),
               tolerance =
                   counted ? (sum_error + 6 * eps) * most * (double)o.gradient_scale / divisor : 0;
        if (!(test_error_ratio(found, dx[i], tolerance, dlogits.view.dtype) <= 1))
            fail_msg("dlogits (%zu, %zu): found %.9g, expected %.9g\n  MH_TEST_SEED=%" PRIu64
                     " MH_TEST_CASES=1",
                     at[0], at[1], found, dx[i], seed);
    }
    check_losses(&o, V, x, wanted, (sum_error + eps * (6 + magnitude * 4)) * most, seed);
    double alone; // asking for no gradient changes no bit
    test_ok(context,
            mh_cross_entropy(context, &o, &logits.view, &targets.view, &alone, NULL, NULL));
    assert_memory_equal(&alone, &loss, sizeof loss);
    assert_true(test_guards_intact(&dlogits) && test_guards_intact(&losses));
done:
    test_tensor_free(&weight);
    test_tensor_free(&losses);
    free(x);
    free(dx);
    free(wanted);
    test_tensor_free(&logits);
    test_tensor_free(&dlogits);
    test_tensor_free(&targets);
}

static void random_cases(void **state)
{
    (void)state;
    test_run_cases(CASES, one_case);
}

static void bits_with(bool weighted)
{
    enum { N = 300, V = 777 };
    static float x[N][V], first[N][V], y[N][V];
    static int32_t t[N];
    test_rng rng = {4};
    for (size_t i = 0; i < N * V; i++)
        x[i / V][i % V] = (float)test_normal(&rng);
    for (size_t n = 0; n < N; n++)
        t[n] = n % 7 ? (int32_t)test_between(&rng, 0, V - 1) : -100;
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    o.label_smoothing = 0.1f;
    static float w[V];
    for (size_t v = 0; v < V; v++)
        w[v] = (float)test_uniform(&rng, 0, 2);
    mh_tensor weight = mh_tensor_1d(w, MH_F32, V);
    o.weight = weighted ? &weight : NULL;
    mh_tensor in = mh_tensor_2d(x, MH_F32, N, V), targets = mh_tensor_1d(t, MH_I32, N);
    mh_tensor out = mh_tensor_2d(y, MH_F32, N, V);
    for (size_t level = 0; test_level(level); level++) {
        double first_loss = 0;
        for (size_t threads = 1; threads <= 8; threads++) {
            mh_context *context = test_context(test_level(level), threads);
            double loss;
            test_ok(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &out));
            if (threads == 1) {
                first_loss = loss;
                memcpy(first, y, sizeof y);
            }
            assert_memory_equal(&first_loss, &loss, sizeof loss);
            assert_memory_equal(first, y, sizeof y);
            memcpy(y, x, sizeof y); // in place
            test_ok(context, mh_cross_entropy(context, &o, &out, &targets, &loss, NULL, &out));
            assert_memory_equal(&first_loss, &loss, sizeof loss);
            assert_memory_equal(first, y, sizeof y);
            mh_context_free(context);
        }
    }
}

static void bits(void **state)
{
    (void)state;
    bits_with(false);
    bits_with(true);
}

static void special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        float x[2][3] = {{0, -inf, 0}, {NAN, 1, 2}}, dx[2][3];
        int64_t t[2] = {0, -100};
        mh_tensor in = mh_tensor_2d(x, MH_F32, 2, 3), to = mh_tensor_2d(dx, MH_F32, 2, 3);
        mh_tensor targets = mh_tensor_1d(t, MH_I64, 2);
        double loss;
        size_t count;
        // A class that cannot be, and NaN where it is ignored: neither hurts.
        test_ok(context, mh_cross_entropy(context, NULL, &in, &targets, &loss, &count, &to));
        assert_true(fabs(loss - log(2)) < 1e-6 && count == 1 && dx[0][1] == 0 && dx[1][0] == 0);
        t[0] = 1;
        test_ok(context, mh_cross_entropy(context, NULL, &in, &targets, &loss, &count, &to));
        assert_true(loss == (double)inf);
        t[1] = 2;
        test_ok(context, mh_cross_entropy(context, NULL, &in, &targets, &loss, &count, &to));
        assert_true(isnan(loss) && isnan(dx[1][1]));
        t[0] = t[1] = -100; // nothing counts
        test_ok(context, mh_cross_entropy(context, NULL, &in, &targets, &loss, &count, &to));
        assert_true(isnan(loss) && count == 0 && dx[1][0] == 0);
        mh_cross_entropy_options sum = mh_cross_entropy_options_default();
        sum.reduction = MH_REDUCTION_SUM;
        test_ok(context, mh_cross_entropy(context, &sum, &in, &targets, &loss, &count, NULL));
        assert_true(loss == 0);
        mh_tensor none = mh_tensor_2d(x, MH_F32, 0, 3), no_targets = mh_tensor_1d(t, MH_I64, 0);
        test_ok(context, mh_cross_entropy(context, &sum, &none, &no_targets, &loss, &count, NULL));
        assert_true(loss == 0 && count == 0);
        // Classes of weight 0 do not count, whatever their logits are.
        const float w[3] = {2, 0, 1};
        float each[2];
        mh_tensor weight = mh_tensor_1d((void *)(uintptr_t)w, MH_F32, 3);
        mh_tensor losses = mh_tensor_1d(each, MH_F32, 2);
        float logits[2][3] = {{0, -inf, 0}, {0, -inf, 0}};
        in = mh_tensor_2d(logits, MH_F32, 2, 3);
        sum.weight = &weight;
        sum.losses = &losses;
        sum.label_smoothing = 0.3f;
        t[0] = 0, t[1] = 1;
        test_ok(context, mh_cross_entropy(context, &sum, &in, &targets, &loss, &count, &to));
        assert_true(fabs(each[0] - (0.7 * 2 + 0.3) * log(2)) < 1e-6 && count == 2);
        assert_true(fabs(each[1] - 0.3 * log(2)) < 1e-6 && dx[1][1] == 0);
        sum.reduction = MH_REDUCTION_MEAN;
        test_ok(context, mh_cross_entropy(context, &sum, &in, &targets, &loss, &count, NULL));
        assert_true(fabs(loss - (0.7 * 2 + 0.6) * log(2) / 2) < 1e-6);
        mh_context_free(context);
    }
}

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float x[12] = {0};
    int64_t t[3] = {0, 3, 4};
    double loss = 5;
    test_tensor dx = test_tensor_dense(MH_F32, 2, (size_t[]){3, 4});
    mh_tensor in = mh_tensor_2d(x, MH_F32, 3, 4), targets = mh_tensor_1d(t, MH_I64, 3);
    mh_tensor two = mh_tensor_1d(t, MH_I64, 2), floats = mh_tensor_1d(x, MH_F32, 3);
    mh_tensor narrow = mh_tensor_2d(x, MH_F32, 3, 3);
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "targets: element 2 is 4, expected 0 to 3");
    t[2] = -1;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "element 2 is -1");
    t[2] = 1;
    test_refused(context, mh_cross_entropy(context, &o, &in, &two, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "targets");
    test_refused(context, mh_cross_entropy(context, &o, &in, &floats, &loss, NULL, &dx.view),
                 MH_ERROR_UNSUPPORTED, "targets");
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, NULL, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "loss");
    test_refused(context, mh_cross_entropy(context, &o, &narrow, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "dlogits");
    o.label_smoothing = 1.5f;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "label_smoothing");
    o = mh_cross_entropy_options_default();
    o.reduction = (mh_reduction)7;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "reduction");
    o = mh_cross_entropy_options_default();
    mh_tensor weight = mh_tensor_1d(x, MH_F32, 4), short_weight = mh_tensor_1d(x, MH_F32, 3);
    test_tensor losses = test_tensor_dense(MH_F32, 1, (size_t[]){2});
    o.weight = &short_weight;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "weight: found 3, expected one for each of 4 classes");
    o.weight = &weight;
    x[2] = -1;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "weight: class 2 has -1");
    x[2] = INFINITY;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "weight: class 2 has inf");
    x[2] = 0;
    weight.dtype = MH_F16;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_UNSUPPORTED, "weight");
    o.weight = NULL;
    o.losses = &losses.view;
    test_refused(context, mh_cross_entropy(context, &o, &in, &targets, &loss, NULL, &dx.view),
                 MH_ERROR_ARGUMENT, "losses: found room for 2, expected one for each of 3");
    assert_true(loss == 5 && test_untouched(&dx) && test_untouched(&losses));
    test_tensor_free(&losses);
    test_tensor_free(&dx);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases),
        cmocka_unit_test(bits),
        cmocka_unit_test(special_values),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
