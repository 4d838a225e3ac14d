// SPDX-License-Identifier: MIT
// mh_log_softmax_topk: random logits, many of them equal, excluded and wanted ids, dtypes and
// strides against the double reference at every instruction-set level; equal bits for 1..8 threads;
// NaN and infinities; empty shapes; refusals.
#include "ref/ref_softmax.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 400 };

// One call, with all that it takes.
typedef struct topk_case {
    size_t N, V, K, X, M;
    test_tensor logits, excluded, wanted, ids, values, wanted_values;
    mh_topk_options options;
} topk_case;

static test_tensor random_ids(test_rng *rng, size_t count, size_t V)
{
    test_tensor t =
        test_tensor_random(rng, test_chance(rng, 0.5) ? MH_I32 : MH_I64, 1, &count, true);
    for (size_t i = 0; i < count; i++)
        ref_set(&t.view, &i, (double)test_between(rng, 0, V - 1));
    return t;
}

// Half of the cases have few distinct logits.
static void fill_logits(test_rng *rng, const topk_case *c)
{
    const bool few = test_chance(rng, 0.5);
    for (size_t i = 0; i < c->N * c->V; i++) {
        const double x = few ? (double)test_between(rng, 0, 4) : 3 * test_normal(rng);
        ref_set(&c->logits.view, (size_t[]){i / c->V, i % c->V},
                test_chance(rng, 0.02) ? -INFINITY : x);
    }
}

static topk_case random_case(test_rng *rng)
{
    topk_case c = {.N = test_between(rng, 1, 12), .V = test_between(rng, 1, 150)};
    if (test_chance(rng, 0.1))
        c.V = test_between(rng, 1000, 5000);
    c.K = test_between(rng, 0, 9);
    c.X = test_between(rng, 0, 5);
    c.M = test_between(rng, 0, 3);
    c.logits = test_tensor_random(rng, test_float_dtype(rng), 2, (size_t[]){c.N, c.V}, true);
    c.excluded = random_ids(rng, c.X, c.V);
    c.wanted = random_ids(rng, c.M, c.V);
    c.ids = test_tensor_random(rng, MH_I32, 2, (size_t[]){c.N, c.K}, false);
    c.values = test_tensor_random(rng, MH_F64, 2, (size_t[]){c.N, c.K}, false);
    c.wanted_values = test_tensor_random(rng, MH_F64, 2, (size_t[]){c.N, c.M}, false);
    fill_logits(rng, &c);
    c.options = mh_topk_options_default();
    c.options.excluded = test_chance(rng, 0.7) ? &c.excluded.view : NULL;
    if (test_chance(rng, 0.7)) {
        c.options.wanted = &c.wanted.view;
        c.options.wanted_log_probabilities = &c.wanted_values.view;
    }
    return c;
}

static void free_case(topk_case *c)
{
    test_tensor *const all[] = {&c->logits, &c->excluded, &c->wanted,
                                &c->ids,    &c->values,   &c->wanted_values};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
}

static void check_value(const char *name, double found, double expected, double bound,
                        uint64_t seed)
{
    if (!(test_error_ratio(found, expected, bound, MH_F64) <= 1))
        fail_msg("%s: found %.9g, expected %.9g\n  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1", name,
                 found, expected, seed);
}

// `x` are the row's logits, y and error their log-softmax and its tolerance.
static void check_row(const topk_case *c, const bool *excluded, size_t row, const double *x,
                      const double *y, const double *error, uint64_t seed)
{
    // Equal logits are rounded alike, so that their errors add up; measured: half of this.
    const double alike = 0x1p-24 * (double)c->V / 32;
    int32_t expected[16];
    ref_topk(c->V, x, excluded, c->K, expected);
    for (size_t k = 0; k < c->K; k++) {
        const size_t at[2] = {row, k};
        const int32_t id = (int32_t)ref_get(&c->ids.view, at);
        if (id != expected[k])
            fail_msg("row %zu, %zu: found id %d, expected %d\n  MH_TEST_SEED=%" PRIu64
                     " MH_TEST_CASES=1",
                     row, k, (int)id, (int)expected[k], seed);
        check_value("log_probabilities", ref_get(&c->values.view, at), id < 0 ? -INFINITY : y[id],
                    id < 0 ? 0 : error[id] + alike, seed);
    }
    for (size_t m = 0; c->options.wanted && m < c->M; m++) {
        const size_t id = (size_t)ref_get(&c->wanted.view, &m);
        if (x[id] > -INFINITY) // a row of only -inf has no probabilities
            check_value("wanted", ref_get(&c->wanted_values.view, (size_t[]){row, m}), y[id],
                        error[id] + alike, seed);
    }
}

static void one_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    topk_case c = random_case(&rng);
    bool *excluded = ref_alloc(c.V, sizeof *excluded);
    memset(excluded, 0, c.V * sizeof *excluded);
    for (size_t i = 0; c.options.excluded && i < c.X; i++)
        excluded[(size_t)ref_get(&c.excluded.view, &i)] = true;
    double *x = ref_load(&c.logits.view);
    double *y = ref_alloc(c.N * c.V, sizeof *y), *error = ref_alloc(c.N * c.V, sizeof *error);
    ref_softmax(&c.logits.view, 1, true, y, error);
    test_ok(context,
            mh_log_softmax_topk(context, &c.options, &c.logits.view, &c.ids.view, &c.values.view));
    for (size_t row = 0; row < c.N; row++)
        check_row(&c, excluded, row, x + row * c.V, y + row * c.V, error + row * c.V, seed);
    assert_true(test_guards_intact(&c.ids) && test_guards_intact(&c.values) &&
                test_guards_intact(&c.wanted_values));
    free(excluded);
    free(x);
    free(y);
    free(error);
    free_case(&c);
}

static void random_cases(void **state)
{
    (void)state;
    test_run_cases(CASES, one_case);
}

static void bits(void **state)
{
    (void)state;
    enum { N = 90, V = 1777, K = 5 };
    static float x[N][V];
    static int32_t ids[N][K], first_ids[N][K];
    static double values[N][K], first_values[N][K];
    test_rng rng = {4};
    for (size_t i = 0; i < N * V; i++)
        x[i / V][i % V] = (float)test_normal(&rng);
    const mh_tensor in = mh_tensor_2d(x, MH_F32, N, V);
    mh_tensor to = mh_tensor_2d(ids, MH_I32, N, K), values_to = mh_tensor_2d(values, MH_F64, N, K);
    for (size_t level = 0; test_level(level); level++)
        for (size_t threads = 1; threads <= 8; threads++) {
            mh_context *context = test_context(test_level(level), threads);
            test_ok(context, mh_log_softmax_topk(context, NULL, &in, &to, &values_to));
            if (threads == 1) {
                memcpy(first_ids, ids, sizeof ids);
                memcpy(first_values, values, sizeof values);
            }
            assert_memory_equal(first_ids, ids, sizeof ids);
            assert_memory_equal(first_values, values, sizeof values);
            mh_context_free(context);
        }
}

static void special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    float x[4][3] = {{-inf, 1, -inf}, {-inf, -inf, -inf}, {NAN, 1, 2}, {0, inf, 0}};
    int32_t ids[4][2], id = 1;
    double values[4][2], ends[4];
    const mh_tensor in = mh_tensor_2d(x, MH_F32, 4, 3), wanted = mh_tensor_1d(&id, MH_I32, 1);
    mh_tensor to = mh_tensor_2d(ids, MH_I32, 4, 2), values_to = mh_tensor_2d(values, MH_F64, 4, 2),
              end = mh_tensor_2d(ends, MH_F64, 4, 1);
    mh_topk_options o = mh_topk_options_default();
    o.wanted = &wanted;
    o.wanted_log_probabilities = &end;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        test_ok(context, mh_log_softmax_topk(context, &o, &in, &to, &values_to));
        assert_true(ids[0][0] == 1 && values[0][0] == 0 && ends[0] == 0);
        assert_true(ids[0][1] == -1 && values[0][1] == -INFINITY);
        assert_true(ids[1][0] == -1 && !isfinite(ends[1]));
        assert_true(ids[2][0] == 2 && ids[2][1] == 1 && isnan(values[2][0]) && isnan(ends[2]));
        assert_true(ids[3][0] == 1 && isnan(values[3][0]));
        mh_context_free(context);
    }
}

static void empty_shapes(void **state)
{
    mh_context *context = *state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    int32_t ids[6];
    double values[6];
    const size_t shapes[][3] = {{0, 3, 2}, {2, 3, 0}, {2, 0, 3}, {0, 0, 0}}; // N, V, K
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t N = shapes[i][0], V = shapes[i][1], K = shapes[i][2];
        mh_tensor in = mh_tensor_2d(x, MH_F32, N, V), to = mh_tensor_2d(ids, MH_I32, N, K),
                  values_to = mh_tensor_2d(values, MH_F64, N, K);
        test_ok(context, mh_log_softmax_topk(context, NULL, &in, &to, &values_to));
        for (size_t k = 0; V == 0 && k < N * K; k++)
            assert_true(ids[k] == -1 && values[k] == -INFINITY);
    }
}

// ---- refusals -----------------------------------------------------------------------------------

typedef struct refusal {
    mh_tensor in, to, values;
    mh_topk_options o;
    mh_status status;
    const char *word;
} refusal;

static void refusals(void **state)
{
    mh_context *context = *state;
    float x[4][3] = {{0}};
    int32_t ids[4][3], outside[2] = {0, 3};
    double values[4][3], ends[4];
    const mh_tensor in = mh_tensor_2d(x, MH_F32, 4, 3), to = mh_tensor_2d(ids, MH_I32, 4, 3),
                    values_to = mh_tensor_2d(values, MH_F64, 4, 3);
    const mh_tensor list = mh_tensor_1d(outside, MH_I32, 2), floats = mh_tensor_1d(x, MH_F32, 1),
                    one = mh_tensor_1d(outside, MH_I32, 1);
    mh_tensor end = mh_tensor_2d(ends, MH_F64, 2, 1);
    const mh_topk_options o = mh_topk_options_default();
    mh_topk_options excluded = o, wrong_type = o, wanted = o, alone = o, short_end = o;
    excluded.excluded = &list;
    wrong_type.excluded = &floats;
    wanted.wanted = &list;
    wanted.wanted_log_probabilities = &end;
    alone.wanted = &one;
    short_end.wanted = &one;
    short_end.wanted_log_probabilities = &end;
    refusal cases[] = {
        {mh_tensor_1d(x, MH_F32, 3), to, values_to, o, MH_ERROR_ARGUMENT, "logits"},
        {mh_tensor_2d(x, MH_I32, 4, 3), to, values_to, o, MH_ERROR_UNSUPPORTED, "logits"},
        {in, mh_tensor_2d(ids, MH_F32, 4, 3), values_to, o, MH_ERROR_UNSUPPORTED, "ids"},
        {in, mh_tensor_2d(ids, MH_I32, 3, 3), values_to, o, MH_ERROR_ARGUMENT, "ids"},
        {in, to, mh_tensor_2d(values, MH_F32, 4, 3), o, MH_ERROR_UNSUPPORTED, "log_prob"},
        {in, to, mh_tensor_2d(values, MH_F64, 4, 2), o, MH_ERROR_ARGUMENT, "log_prob"},
        {in, to, values_to, excluded, MH_ERROR_ARGUMENT, "excluded: element 1 is 3"},
        {in, to, values_to, wrong_type, MH_ERROR_UNSUPPORTED, "excluded"},
        {in, to, values_to, wanted, MH_ERROR_ARGUMENT, "wanted: element 1 is 3"},
        {in, to, values_to, alone, MH_ERROR_ARGUMENT, "both"},
        {in, to, values_to, short_end, MH_ERROR_ARGUMENT, "wanted_log_probabilities"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refusal *r = &cases[i];
        test_refused(context, mh_log_softmax_topk(context, &r->o, &r->in, &r->to, &r->values),
                     r->status, r->word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases),
        cmocka_unit_test(bits),
        cmocka_unit_test(special_values),
        cmocka_unit_test_setup_teardown(empty_shapes, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(refusals, test_open_context, test_close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
