// SPDX-License-Identifier: MIT
// mh_softmax and mh_log_softmax: random shapes, axes, strides and dtypes against the double
// reference at every instruction-set level; equal bits for 1..8 threads and for a slice alone;
// in place; infinities and NaN; sizes 0; refusals.
#include "ref/ref_softmax.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <inttypes.h>

enum { CASES = 1500 };

typedef mh_status (*operation)(mh_context *, const mh_tensor *, int, mh_tensor *);

static mh_status apply(mh_context *context, bool logarithm, const mh_tensor *x, int axis,
                       mh_tensor *y)
{
    operation op = logarithm ? mh_log_softmax : mh_softmax;
    return op(context, x, axis, y);
}

static size_t random_size(test_rng *rng)
{
    double kind = test_uniform(rng, 0, 1);
    return kind < 0.04 ? 0 : test_between(rng, 1, kind < 0.9 ? 12 : 400);
}

// A few -inf among the numbers, sometimes nothing else.
static void fill(test_rng *rng, const mh_tensor *x)
{
    static const double magnitudes[] = {0.1, 1, 10, 100}, densities[] = {0, 0, 0.2, 0.8};
    double magnitude = magnitudes[test_between(rng, 0, 3)];
    double density = densities[test_between(rng, 0, 3)];
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(x))
        do
            ref_set(x, index, test_chance(rng, density) ? -INFINITY : magnitude * test_normal(rng));
        while (ref_next(x, index));
}

static double worst_ratio(const mh_tensor *y, const double *expected, const double *error)
{
    double worst = 0;
    size_t index[MH_MAX_RANK] = {0}, n = 0;
    if (ref_count(y))
        do {
            worst =
                fmax(worst, test_error_ratio(ref_get(y, index), expected[n], error[n], y->dtype));
            n++;
        } while (ref_next(y, index));
    return worst;
}

static double random_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    int rank = (int)test_between(&rng, 1, 4), axis = (int)test_between(&rng, 0, (size_t)rank - 1);
    size_t shape[4];
    for (int d = 0; d < rank; d++)
        shape[d] = random_size(&rng);
    if (test_chance(&rng, 0.1))
        shape[axis] = test_between(&rng, 400, 3000);
    size_t others = 1; // a few thousand numbers are enough
    for (int d = 0; d < rank; d++)
        if (d != axis) {
            while (others * shape[d] * shape[axis] > 8000 && shape[d] > 1)
                shape[d] /= 2;
            others *= shape[d];
        }
    bool logarithm = test_chance(&rng, 0.5), negative = test_chance(&rng, 0.3);
    test_tensor x = test_tensor_random(&rng, test_float_dtype(&rng), rank, shape, true);
    test_tensor y = test_tensor_random(&rng, test_float_dtype(&rng), rank, shape, false);
    fill(&rng, &x.view);
    double *expected = ref_alloc(ref_count(&x.view), sizeof(double));
    double *error = ref_alloc(ref_count(&x.view), sizeof(double));
    ref_softmax(&x.view, axis, logarithm, expected, error);
    test_ok(context, apply(context, logarithm, &x.view, negative ? axis - rank : axis, &y.view));
    double ratio = worst_ratio(&y.view, expected, error);
    char text[128];
    if (ratio > 1 || !test_guards_intact(&y))
        fail_msg("%s %s axis %d of %s: %.3g x the bound, guards %d\n  MH_TEST_SEED=%" PRIu64
                 " MH_TEST_CASES=1",
                 mh_context_isa(context), logarithm ? "log" : "", axis,
                 mh_tensor_describe(&x.view, text, sizeof text), ratio, test_guards_intact(&y),
                 seed);
    free(expected);
    free(error);
    test_tensor_free(&x);
    test_tensor_free(&y);
    return ratio;
}

static void random_cases(void **state)
{
    (void)state;
    double worst = 0;
    size_t cases = test_cases(CASES);
    for (size_t level = 0; test_level(level); level++) {
        mh_context *contexts[2] = {test_context(test_level(level), 1),
                                   test_context(test_level(level), 3)};
        for (size_t n = 0; n < cases; n++)
            worst = fmax(worst, random_case(contexts[n % 2], test_seed() + n));
        mh_context_free(contexts[0]);
        mh_context_free(contexts[1]);
    }
    print_message("%zu cases at each level; largest error / bound: %.2f\n", cases, worst);
}

// ---- bits ---------------------------------------------------------------------------------------

static void check_bits(const char *level, bool logarithm, int axis)
{
    static const size_t shape[3] = {70, 37, 19};
    test_rng rng = {21};
    test_tensor x = test_tensor_dense(MH_F32, 3, shape),
                first = test_tensor_dense(MH_F32, 3, shape);
    test_fill_normal(&rng, &x.view, 5);
    for (size_t threads = 1; threads <= 8; threads++) {
        mh_context *context = test_context(level, threads);
        test_tensor y = test_tensor_dense(MH_F32, 3, shape);
        test_ok(context, apply(context, logarithm, &x.view, axis, &y.view));
        if (threads == 1)
            memcpy(first.bytes, y.bytes, y.size);
        assert_memory_equal(first.bytes, y.bytes, y.size);
        int other = axis == 0 ? 1 : 0; // some slices of another dimension, one by one
        for (size_t i = threads; i < shape[other]; i += 9) {
            mh_tensor from = mh_tensor_slice(x.view, other, i, 1);
            mh_tensor to = mh_tensor_slice(y.view, other, i, 1);
            test_fill_constant(&to, 7);
            test_ok(context, apply(context, logarithm, &from, axis, &to));
        }
        assert_memory_equal(first.bytes, y.bytes, y.size);
        memcpy(y.bytes, x.bytes, y.size);
        test_ok(context, apply(context, logarithm, &y.view, axis, &y.view)); // in place
        assert_memory_equal(first.bytes, y.bytes, y.size);
        test_tensor_free(&y);
        mh_context_free(context);
    }
    test_tensor_free(&x);
    test_tensor_free(&first);
}

static void bits(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++)
        for (int axis = 0; axis < 3; axis++)
            for (int logarithm = 0; logarithm < 2; logarithm++)
                check_bits(test_level(level), logarithm, axis);
}

// ---- special values, refusals -------------------------------------------------------------------

static void special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        float x[6][3] = {{-inf, -inf, -inf}, {-inf, 0, -inf},           {NAN, 1, 2},
                         {inf, 1, 2},        {3e38f, -3e38f, -3.4e38f}, {-1e9f, -1e9f, -1e9f}};
        float y[6][3], z[6][3];
        mh_tensor in = mh_tensor_2d(x, MH_F32, 6, 3);
        mh_tensor plain = mh_tensor_2d(y, MH_F32, 6, 3), logs = mh_tensor_2d(z, MH_F32, 6, 3);
        test_ok(context, mh_softmax(context, &in, -1, &plain));
        test_ok(context, mh_log_softmax(context, &in, -1, &logs));
        for (int j = 0; j < 3; j++) {
            assert_true(y[0][j] == 0 && z[0][j] == -inf);
            assert_true(y[1][j] == (j == 1) && z[1][j] == (j == 1 ? 0 : -inf));
            assert_true(isnan(y[2][j]) && isnan(z[2][j]));
            assert_true(y[4][j] == (j == 0));
            assert_true(fabsf(y[5][j] - 1 / 3.0f) < 1e-7f);
        }
        assert_true(isnan(y[3][0]) && isnan(z[3][0]));
        mh_context_free(context);
    }
}

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    test_tensor x = test_tensor_dense(MH_F32, 2, (size_t[]){3, 4});
    test_tensor y = test_tensor_dense(MH_F32, 2, (size_t[]){3, 4});
    for (int logarithm = 0; logarithm < 2; logarithm++) {
        test_refused(context, apply(context, logarithm, &x.view, 2, &y.view), MH_ERROR_ARGUMENT,
                     "axis");
        test_refused(context, apply(context, logarithm, &x.view, -3, &y.view), MH_ERROR_ARGUMENT,
                     "axis");
        mh_tensor narrow = mh_tensor_slice(y.view, 1, 0, 3), wrong = y.view, scalar = x.view;
        test_refused(context, apply(context, logarithm, &x.view, 0, &narrow), MH_ERROR_ARGUMENT,
                     "y");
        wrong.rank = -1;
        test_refused(context, apply(context, logarithm, &x.view, 0, &wrong), MH_ERROR_ARGUMENT,
                     "y");
        wrong = y.view;
        wrong.dtype = MH_I32;
        test_refused(context, apply(context, logarithm, &x.view, 0, &wrong), MH_ERROR_UNSUPPORTED,
                     "y");
        wrong = x.view;
        wrong.dtype = MH_BOOL;
        test_refused(context, apply(context, logarithm, &wrong, 0, &y.view), MH_ERROR_UNSUPPORTED,
                     "x");
        scalar.rank = 0; // no axis to go over
        wrong = y.view;
        wrong.rank = 0;
        test_refused(context, apply(context, logarithm, &scalar, 0, &wrong), MH_ERROR_ARGUMENT,
                     "rank");
        assert_true(test_untouched(&y));
    }
    test_tensor_free(&x);
    test_tensor_free(&y);
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
