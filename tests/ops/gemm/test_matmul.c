// SPDX-License-Identifier: MIT
// mh_matmul and mh_matmul_packed: random shapes, strides and dtypes against the double reference
// at every instruction-set level; equal bits for 1..8 threads, for some rows or columns as for
// all, packed as unpacked; sizes 0; refusals.
#include "ref/ref_matmul.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <inttypes.h>

enum { CASES = 600 };

typedef struct matrices {
    test_tensor a, b, c; // (M, K), (K, N), (M, N)
} matrices;

static size_t random_size(test_rng *rng)
{
    double kind = test_uniform(rng, 0, 1);
    return kind < 0.05 ? 0 : test_between(rng, 1, kind < 0.6 ? 20 : kind < 0.95 ? 130 : 700);
}

static matrices setup(test_rng *rng, size_t M, size_t K, size_t N)
{
    matrices m = {0};
    m.a = test_tensor_random(rng, test_float_dtype(rng), 2, (size_t[]){M, K}, true);
    do { // not both broadcast along K: errors of equal terms add up instead of walking at random
        test_tensor_free(&m.b);
        m.b = test_tensor_random(rng, test_float_dtype(rng), 2, (size_t[]){K, N}, true);
    } while (m.a.view.stride[1] == 0 && m.b.view.stride[0] == 0);
    m.c = test_tensor_random(rng, test_float_dtype(rng), 2, (size_t[]){M, N}, false);
    test_fill_normal(rng, &m.a.view, 1);
    test_fill_normal(rng, &m.b.view, 1);
    return m;
}

static void teardown(matrices *m)
{
    test_tensor_free(&m->a);
    test_tensor_free(&m->b);
    test_tensor_free(&m->c);
}

// The product into m->c by one of the two ways.
static void multiply(mh_context *context, matrices *m, bool packed)
{
    test_paint(&m->c);
    if (!packed) {
        test_ok(context, mh_matmul(context, &m->a.view, &m->b.view, &m->c.view));
        return;
    }
    mh_packed_matrix *b = NULL;
    test_ok(context, mh_matrix_pack(context, MH_PRECISION_AUTO, &m->b.view, &b));
    test_ok(context, mh_matmul_packed(context, &m->a.view, b, &m->c.view));
    assert_int_equal(mh_matmul_packed(NULL, &m->a.view, b, &m->c.view), MH_ERROR_ARGUMENT);
    mh_packed_matrix_free(b);
}

static double worst_ratio(const matrices *m, const double *expected, const double *error)
{
    double worst = 0;
    size_t index[2] = {0}, n = 0;
    if (ref_count(&m->c.view))
        do {
            worst = fmax(worst, test_error_ratio(ref_get(&m->c.view, index), expected[n], error[n],
                                                 m->c.view.dtype));
            n++;
        } while (ref_next(&m->c.view, index));
    return worst;
}

static double check_case(mh_context *context, uint64_t seed, size_t M, size_t K, size_t N,
                         bool packed)
{
    test_rng rng = {~seed};
    matrices m = setup(&rng, M, K, N);
    double *expected = ref_alloc(M * N, sizeof(double));
    double *error = ref_alloc(M * N, sizeof(double));
    ref_matmul(&m.a.view, &m.b.view, expected, error);
    multiply(context, &m, packed);
    double ratio = worst_ratio(&m, expected, error);
    if (ratio > 1 || !test_guards_intact(&m.c))
        fail_msg("%s M%zu K%zu N%zu: %.3g x the bound, guards %d\n  MH_TEST_SEED=%" PRIu64
                 " MH_TEST_CASES=1",
                 mh_context_isa(context), M, K, N, ratio, test_guards_intact(&m.c), seed);
    free(expected);
    free(error);
    teardown(&m);
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
        for (size_t n = 0; n < cases; n++) {
            test_rng rng = {test_seed() + n};
            size_t M = random_size(&rng), K = random_size(&rng), N = random_size(&rng);
            bool packed = test_chance(&rng, 0.3);
            worst = fmax(worst, check_case(contexts[test_random(&rng) % 2], test_seed() + n, M, K,
                                           N, packed));
        }
        mh_context_free(contexts[0]);
        mh_context_free(contexts[1]);
    }
    print_message("%zu cases at each level; largest error / bound: %.2f\n", cases, worst);
}

// More than a task has of something (128 rows, 12 panels of 64 columns, a depth of 1024), and a
// single row or column of it.
static void large_cases(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{1, 300, 1700},  {1, 2100, 130}, {1700, 300, 1},
                                      {129, 1025, 70}, {300, 33, 800}, {2, 3100, 64}};
    for (size_t level = 0; test_level(level); level++)
        for (size_t threads = 1; threads <= 3; threads += 2) {
            mh_context *context = test_context(test_level(level), threads);
            for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++)
                check_case(context, i, sizes[i / 2][0], sizes[i / 2][1], sizes[i / 2][2], i % 2);
            mh_context_free(context);
        }
}

// ---- bits ---------------------------------------------------------------------------------------

static test_tensor product(mh_context *context, mh_dtype dtype, mh_tensor a, mh_tensor b)
{
    test_tensor c = test_tensor_dense(dtype, 2, (size_t[]){a.shape[0], b.shape[1]});
    test_ok(context, mh_matmul(context, &a, &b, &c.view));
    return c;
}

static void same_bits(const char *what, const test_tensor *expected, test_tensor found)
{
    if (memcmp(expected->bytes, found.bytes, expected->size) != 0)
        fail_msg("%s: bits differ", what);
    test_tensor_free(&found);
}

// Rows or columns first .. first+count-1 computed alone, against those of the whole.
static void part_of(mh_context *context, const matrices *m, int dim, size_t first, size_t count)
{
    mh_dtype dtype = m->c.view.dtype;
    mh_tensor slice = mh_tensor_slice(m->c.view, dim, first, count);
    test_tensor expected = test_tensor_dense(dtype, 2, slice.shape);
    test_ok(context, mh_tensor_copy(context, &slice, &expected.view));
    mh_tensor a = dim == 0 ? mh_tensor_slice(m->a.view, 0, first, count) : m->a.view;
    mh_tensor b = dim == 1 ? mh_tensor_slice(m->b.view, 1, first, count) : m->b.view;
    same_bits(dim ? "some columns" : "some rows", &expected, product(context, dtype, a, b));
    test_tensor_free(&expected);
}

static void bits(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{67, 300, 45},  {1, 1100, 130}, {130, 33, 1},
                                      {200, 70, 150}, {1, 40, 1700},  {3, 2100, 900}};
    for (size_t level = 0; test_level(level); level++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            test_rng rng = {90 + s};
            size_t M = sizes[s][0], K = sizes[s][1], N = sizes[s][2];
            matrices m = setup(&rng, M, K, N);
            mh_dtype dtype = m.c.view.dtype;
            for (size_t threads = 1; threads <= 8; threads++) {
                mh_context *context = test_context(test_level(level), threads);
                test_tensor first = m.c;
                if (threads > 1)
                    m.c = test_tensor_dense(dtype, 2, (size_t[]){M, N});
                multiply(context, &m, threads % 2 == 0); // packed, unpacked in turns
                if (threads > 1) {
                    test_tensor dense = test_tensor_dense(dtype, 2, (size_t[]){M, N});
                    test_ok(context, mh_tensor_copy(context, &first.view, &dense.view));
                    same_bits("threads, packed", &dense, m.c);
                    test_tensor_free(&dense);
                    m.c = first;
                }
                part_of(context, &m, 0, M / 3, 1);
                part_of(context, &m, 0, M / 2, M - M / 2);
                part_of(context, &m, 1, N / 3, 1);
                part_of(context, &m, 1, N / 2, N - N / 2);
                mh_context_free(context);
            }
            teardown(&m);
        }
}

// ---- refusals -----------------------------------------------------------------------------------

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    static const struct {
        int tensor, dimension; // dimension -1: the rank, -2: the dtype
        size_t value;
        mh_status status;
        const char *word;
    } wrong[] = {
        {0, 1, 4, MH_ERROR_ARGUMENT, "b"},           {1, 0, 4, MH_ERROR_ARGUMENT, "b"},
        {2, 0, 2, MH_ERROR_ARGUMENT, "c"},           {2, 1, 3, MH_ERROR_ARGUMENT, "c"},
        {0, -1, 1, MH_ERROR_ARGUMENT, "a"},          {1, -1, 3, MH_ERROR_ARGUMENT, "b"},
        {2, -1, 0, MH_ERROR_ARGUMENT, "c"},          {0, -2, MH_I32, MH_ERROR_UNSUPPORTED, "a"},
        {1, -2, MH_BOOL, MH_ERROR_UNSUPPORTED, "b"}, {2, -2, MH_I8, MH_ERROR_UNSUPPORTED, "c"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        test_rng rng = {1};
        matrices m = setup(&rng, 3, 5, 4);
        test_tensor *all[3] = {&m.a, &m.b, &m.c};
        mh_tensor *view = &all[wrong[i].tensor]->view;
        if (wrong[i].dimension == -1)
            view->rank = (int)wrong[i].value;
        else if (wrong[i].dimension == -2)
            view->dtype = (mh_dtype)wrong[i].value;
        else
            view->shape[wrong[i].dimension] = wrong[i].value;
        test_refused(context, mh_matmul(context, &m.a.view, &m.b.view, &m.c.view), wrong[i].status,
                     wrong[i].word);
        assert_true(test_untouched(&m.c));
        teardown(&m);
    }
    mh_packed_matrix *packed = NULL;
    mh_tensor bad = {.rank = -1};
    test_refused(context, mh_matrix_pack(context, MH_PRECISION_AUTO, &bad, &packed),
                 MH_ERROR_ARGUMENT, "b");
    assert_null(packed);
    mh_packed_matrix_free(NULL);
    mh_context_free(context);
}

// An empty sum is 0, and NaN and inf go where the arithmetic takes them.
static void special_values(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        test_tensor a = test_tensor_dense(MH_F32, 2, (size_t[]){3, 0});
        test_tensor b = test_tensor_dense(MH_F32, 2, (size_t[]){0, 2});
        test_tensor c = product(context, MH_F32, a.view, b.view);
        for (size_t i = 0; i < 6; i++)
            assert_true(((float *)c.view.data)[i] == 0);
        test_tensor_free(&a);
        test_tensor_free(&b);
        test_tensor_free(&c);

        float left[6] = {1, NAN, 1, INFINITY, 2, 0}, right[2] = {1, 3};
        c = product(context, MH_F32, mh_tensor_2d(left, MH_F32, 3, 2),
                    mh_tensor_2d(right, MH_F32, 2, 1));
        const float *found = c.view.data;
        assert_true(isnan(found[0]) && found[1] == INFINITY && found[2] == 2);
        test_tensor_free(&c);
        mh_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases), cmocka_unit_test(large_cases),    cmocka_unit_test(bits),
        cmocka_unit_test(errors),       cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
