// SPDX-License-Identifier: MIT
// Operations on every element alone: mh_activate, mh_swiglu, mh_glu, mh_add, mh_dropout. Random
// shapes, strides and dtypes against the double reference at every instruction-set level; equal
// bits for 1..8 threads, any cut and in place; NaN and infinities; size 0; refusals.
#include "base/philox.h"
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { CASES = 200 };

static const double eps = FLT_EPSILON;

typedef struct operands {
    int rank;
    size_t shape[4];
    test_tensor t[5];
} operands;

// `inputs` filled inputs, then outputs, all of one random shape.
static void create(operands *o, test_rng *rng, int inputs, int outputs)
{
    *o = (operands){.rank = (int)test_between(rng, 0, 4)};
    for (int d = 0; d < o->rank; d++)
        o->shape[d] = test_chance(rng, 0.03) ? 0 : test_between(rng, 1, 6);
    if (o->rank == 1 || (o->rank == 2 && test_chance(rng, 0.3)))
        o->shape[o->rank - 1] = test_between(rng, 1000, 2100);
    for (int i = 0; i < inputs + outputs; i++) {
        o->t[i] = test_tensor_random(rng, test_float_dtype(rng), o->rank, o->shape, i < inputs);
        if (i < inputs)
            test_fill_normal(rng, &o->t[i].view, test_chance(rng, 0.5) ? 1 : 5);
    }
}

// The last `outputs` of `count` were written, and nothing beside them.
static void destroy(operands *o, int count, int outputs)
{
    for (int i = 0; i < count; i++) {
        assert_true(i < count - outputs || test_guards_intact(&o->t[i]));
        test_tensor_free(&o->t[i]);
    }
}

static void expect(const test_tensor *t, const size_t *index, double expected, double bound,
                   const char *what, uint64_t seed)
{
    double found = ref_get(&t->view, index);
    if (!(test_error_ratio(found, expected, bound, t->view.dtype) <= 1))
        fail_msg("%s: found %.9g, expected %.9g within %.3g\n  MH_TEST_SEED=%" PRIu64
                 " MH_TEST_CASES=1",
                 what, found, expected, bound, seed);
}

static void activate_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    operands o;
    mh_activation kind = (mh_activation)test_between(&rng, 0, 3);
    create(&o, &rng, 2, 2); // x, dy, y, dx
    test_ok(context, mh_activate(context, kind, &o.t[0].view, &o.t[2].view));
    test_ok(context, mh_activate_backward(context, kind, &o.t[0].view, &o.t[1].view, &o.t[3].view));
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(&o.t[0].view))
        do {
            double x = ref_get(&o.t[0].view, index), dy = ref_get(&o.t[1].view, index);
            expect(&o.t[2], index, ref_activation(kind, x), ref_activation_error(kind, x),
                   mh_activation_name(kind), seed);
            expect(&o.t[3], index, dy * ref_activation_slope(kind, x),
                   fabs(dy) * ref_activation_slope_error(kind, x) + 0x1p-140, "slope", seed);
        } while (ref_next(&o.t[0].view, index));
    destroy(&o, 4, 2);
}

static void swiglu_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    operands o, forward;
    create(&o, &rng, 3, 2); // gate, up, dy, dgate, dup
    forward = o;
    forward.t[2] = test_tensor_random(&rng, test_float_dtype(&rng), o.rank, o.shape, false);
    test_ok(context, mh_swiglu(context, &o.t[0].view, &o.t[1].view, &forward.t[2].view));
    test_ok(context, mh_swiglu_backward(context, &o.t[0].view, &o.t[1].view, &o.t[2].view,
                                        &o.t[3].view, &o.t[4].view));
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(&o.t[0].view))
        do {
            double gate = ref_get(&o.t[0].view, index), up = ref_get(&o.t[1].view, index);
            double dy = ref_get(&o.t[2].view, index), f = ref_activation(MH_SILU, gate);
            expect(&forward.t[2], index, f * up, 4 * eps * fabs(f * up), "swiglu", seed);
            expect(&o.t[3], index, dy * up * ref_activation_slope(MH_SILU, gate),
                   fabs(dy * up) * (eps + ref_activation_slope_error(MH_SILU, gate)), "dgate",
                   seed);
            expect(&o.t[4], index, dy * f, 4 * eps * fabs(dy * f), "dup", seed);
        } while (ref_next(&o.t[0].view, index));
    test_tensor_free(&forward.t[2]);
    destroy(&o, 5, 2);
}

// Any activation of the gate; that of mh_swiglu has the same bits.
static void glu_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    operands o, forward;
    const mh_activation kind = (mh_activation)test_between(&rng, 0, 3);
    create(&o, &rng, 3, 2); // gate, up, dy, dgate, dup
    const mh_tensor *gate = &o.t[0].view, *up = &o.t[1].view, *dy = &o.t[2].view;
    forward = o;
    forward.t[2] = test_tensor_random(&rng, test_float_dtype(&rng), o.rank, o.shape, false);
    test_ok(context, mh_glu(context, kind, gate, up, &forward.t[2].view));
    test_ok(context, mh_glu_backward(context, kind, gate, up, dy, &o.t[3].view, &o.t[4].view));
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(gate))
        do {
            const double x = ref_get(gate, index), u = ref_get(up, index), d = ref_get(dy, index);
            const double f = ref_activation(kind, x), slope = ref_activation_slope(kind, x);
            const double error = ref_activation_error(kind, x) + eps * fabs(f);
            expect(&forward.t[2], index, f * u, fabs(u) * error + 0x1p-140, "glu", seed);
            expect(&o.t[3], index, d * u * slope,
                   fabs(d * u) * (2 * eps * fabs(slope) + ref_activation_slope_error(kind, x)) +
                       0x1p-140,
                   "dgate", seed);
            expect(&o.t[4], index, d * f, fabs(d) * error + 0x1p-140, "dup", seed);
        } while (ref_next(gate, index));
    assert_true(test_guards_intact(&forward.t[2]));
    test_tensor_free(&forward.t[2]);
    destroy(&o, 5, 2);
}

static void add_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    operands o;
    create(&o, &rng, 1, 1); // a, y
    int rank = o.rank > 0 ? (int)test_between(&rng, 0, (size_t)o.rank) : 0;
    size_t shape[4];
    for (int d = 0; d < rank; d++)
        shape[d] = test_chance(&rng, 0.3) ? 1 : o.shape[o.rank - rank + d];
    test_tensor b = test_tensor_random(&rng, test_float_dtype(&rng), rank, shape, true);
    test_fill_normal(&rng, &b.view, 1);
    test_ok(context, mh_add(context, &o.t[0].view, &b.view, &o.t[1].view));
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(&o.t[0].view))
        do {
            double sum = ref_get(&o.t[0].view, index) + ref_get_broadcast(&b.view, o.rank, index);
            expect(&o.t[1], index, sum, 0.5 * eps * fabs(sum), "add", seed);
        } while (ref_next(&o.t[0].view, index));
    test_tensor_free(&b);
    destroy(&o, 2, 1);
}

// Element i is kept if its 16 bits of the documented counter are at least p * 2^16.
static void dropout_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    operands o;
    create(&o, &rng, 1, 1);
    mh_dropout_options options = mh_dropout_options_default();
    options.probability = test_chance(&rng, 0.2) ? 0 : (float)test_uniform(&rng, 0, 0.99);
    options.seed = test_random(&rng);
    options.step = (uint32_t)test_random(&rng);
    options.stream = (uint32_t)test_random(&rng);
    options.first_index = test_chance(&rng, 0.5) ? 0 : test_random(&rng) >> 20;
    test_ok(context, mh_dropout(context, &options, &o.t[0].view, &o.t[1].view));
    size_t index[MH_MAX_RANK] = {0};
    uint64_t i = options.first_index;
    if (ref_count(&o.t[0].view))
        do {
            const uint32_t key[2] = {(uint32_t)options.seed,
                                     (uint32_t)(options.seed >> 32) ^ 0x44524F50u};
            const uint32_t at[4] = {(uint32_t)(i / 8), (uint32_t)(i / 8 >> 32), options.step,
                                    options.stream};
            uint32_t words[4];
            mh_philox(at, key, words);
            bool keep = (uint16_t)(words[i % 8 / 2] >> 16 * (i % 2)) >=
                        (uint16_t)((double)options.probability * 0x1p16);
            double x = ref_get(&o.t[0].view, index), p = (double)options.probability;
            expect(&o.t[1], index, keep ? x / (1 - p) : 0, keep ? 2 * eps * fabs(x) / (1 - p) : 0,
                   "dropout", seed);
            i++;
        } while (ref_next(&o.t[0].view, index));
    destroy(&o, 2, 1);
}

static void activations(void **state)
{
    (void)state;
    test_run_cases(CASES, activate_case);
}

static void swiglus(void **state)
{
    (void)state;
    test_run_cases(CASES, swiglu_case);
}

static void glus(void **state)
{
    (void)state;
    test_run_cases(CASES, glu_case);
}

// mh_swiglu is mh_glu with MH_SILU; the gradients may be written over gate and up.
static void glu_in_place(void **state)
{
    (void)state;
    enum { COUNT = 1500 };
    static float gate[COUNT], up[COUNT], dy[COUNT], one[COUNT], two[COUNT], other[COUNT];
    test_rng rng = {11};
    for (size_t i = 0; i < COUNT; i++) {
        gate[i] = (float)test_normal(&rng);
        up[i] = (float)test_normal(&rng);
        dy[i] = (float)test_normal(&rng);
    }
    const mh_tensor g = mh_tensor_1d(gate, MH_F32, COUNT), u = mh_tensor_1d(up, MH_F32, COUNT);
    mh_tensor d = mh_tensor_1d(dy, MH_F32, COUNT), a = mh_tensor_1d(one, MH_F32, COUNT);
    mh_tensor b = mh_tensor_1d(two, MH_F32, COUNT), x = mh_tensor_1d(other, MH_F32, COUNT);
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        test_ok(context, mh_swiglu(context, &g, &u, &a));
        test_ok(context, mh_glu(context, MH_SILU, &g, &u, &b));
        assert_memory_equal(one, two, sizeof one);
        for (mh_activation kind = MH_RELU; kind <= MH_SILU; kind++) {
            float kept[2][COUNT];
            memcpy(kept[0], gate, sizeof gate);
            memcpy(kept[1], up, sizeof up);
            mh_tensor k = mh_tensor_1d(kept[0], MH_F32, COUNT);
            mh_tensor l = mh_tensor_1d(kept[1], MH_F32, COUNT);
            test_ok(context, mh_glu_backward(context, kind, &g, &u, &d, &a, &b));
            test_ok(context, mh_glu_backward(context, kind, &k, &l, &d, &l, &k));
            assert_memory_equal(one, kept[1], sizeof one);
            assert_memory_equal(two, kept[0], sizeof two);
            test_ok(context, mh_glu(context, kind, &g, &u, &x));
            memcpy(kept[1], up, sizeof up);
            test_ok(context, mh_glu(context, kind, &g, &l, &l));
            assert_memory_equal(other, kept[1], sizeof other);
        }
        mh_context_free(context);
    }
}

static void additions(void **state)
{
    (void)state;
    test_run_cases(CASES, add_case);
}

static void dropouts(void **state)
{
    (void)state;
    test_run_cases(CASES, dropout_case);
}

// ---- bits ---------------------------------------------------------------------------------------

enum { ROWS = 57, WIDTH = 700 };

static float x[ROWS][WIDTH], first[ROWS][WIDTH], y[ROWS][WIDTH];

// Operation `which` on rows begin..begin+rows-1.
static void apply(mh_context *context, int which, size_t begin, size_t rows, float *from, float *to)
{
    mh_tensor in = mh_tensor_2d(from + begin * WIDTH, MH_F32, rows, WIDTH);
    mh_tensor out = mh_tensor_2d(to + begin * WIDTH, MH_F32, rows, WIDTH);
    mh_dropout_options options = mh_dropout_options_default();
    options.probability = 0.3f;
    options.first_index = begin * WIDTH;
    if (which < 4)
        test_ok(context, mh_activate(context, (mh_activation)which, &in, &out));
    else if (which < 8)
        test_ok(context, mh_activate_backward(context, (mh_activation)(which - 4), &in, &in, &out));
    else if (which == 8)
        test_ok(context, mh_swiglu(context, &in, &in, &out));
    else if (which == 9)
        test_ok(context, mh_add(context, &in, &in, &out));
    else if (which > 10)
        test_ok(context, mh_glu(context, (mh_activation)(which - 11), &in, &in, &out));
    else
        test_ok(context, mh_dropout(context, &options, &in, &out));
}

static void bits(void **state)
{
    (void)state;
    test_rng rng = {3};
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        x[i / WIDTH][i % WIDTH] = (float)(3 * test_normal(&rng));
    for (size_t level = 0; test_level(level); level++)
        for (int which = 0; which <= 14; which++)
            for (size_t threads = 1; threads <= 8; threads++) {
                mh_context *context = test_context(test_level(level), threads);
                apply(context, which, 0, ROWS, *x, threads == 1 ? *first : *y);
                if (threads > 1)
                    assert_memory_equal(first, y, sizeof y);
                for (size_t row = 0; row < ROWS; row += threads)
                    apply(context, which, row, ROWS - row < threads ? ROWS - row : threads, *x, *y);
                assert_memory_equal(first, y, sizeof y);
                memcpy(y, x, sizeof y);
                apply(context, which, 0, ROWS, *y, *y); // in place
                assert_memory_equal(first, y, sizeof y);
                mh_context_free(context);
            }
}

// ---- dropout's statistics, special values, refusals ---------------------------------------------

static void share_of_zeros(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 2);
    static float ones[200000], out[200000];
    enum { N = 200000 };
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    mh_tensor in = mh_tensor_1d(ones, MH_F32, N), to = mh_tensor_1d(out, MH_F32, N);
    mh_dropout_options options = mh_dropout_options_default();
    options.probability = 0.1f;
    double sum[3] = {0};
    static float before[N];
    for (uint32_t step = 0; step < 3; step++) {
        options.step = step;
        test_ok(context, mh_dropout(context, &options, &in, &to));
        size_t same = 0;
        for (int i = 0; i < N; i++) {
            sum[step] += (double)out[i] / N;
            same += out[i] == before[i];
        }
        assert_true(fabs(sum[step] - 1) < 0.004); // some five standard deviations
        assert_true(step == 0 || (same > 81 * N / 100 && same < 83 * N / 100)); // independent steps
        memcpy(before, out, sizeof before);
    }
    mh_context_free(context);
}

static void special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        float in[5] = {NAN, inf, -inf, 3e38f, -3e38f}, out[5], dy[5] = {1, 1, 1, 1, 1};
        mh_tensor a = mh_tensor_1d(in, MH_F32, 5), b = mh_tensor_1d(out, MH_F32, 5);
        mh_tensor g = mh_tensor_1d(dy, MH_F32, 5);
        for (mh_activation kind = MH_RELU; kind <= MH_SILU; kind++) {
            test_ok(context, mh_activate(context, kind, &a, &b));
            assert_true(isnan(out[0]) && out[1] == inf && out[2] == 0 && out[3] == 3e38f &&
                        out[4] == 0);
            test_ok(context, mh_activate_backward(context, kind, &a, &g, &b));
            assert_true(out[1] == 1 && out[2] == 0 && out[3] == 1 && out[4] == 0);
            assert_true(kind == MH_RELU || isnan(out[0]));
        }
        dy[4] = inf; // what ReLU cut off does not leak
        test_ok(context, mh_activate_backward(context, MH_RELU, &a, &g, &b));
        assert_true(out[4] == 0);
        mh_context_free(context);
    }
}

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float data[12] = {0};
    test_tensor out = test_tensor_dense(MH_F32, 2, (size_t[]){3, 4});
    mh_tensor a = mh_tensor_2d(data, MH_F32, 3, 4), wrong = mh_tensor_2d(data, MH_F32, 4, 3);
    mh_tensor integers = mh_tensor_2d(data, MH_I64, 3, 1);
    mh_dropout_options options = mh_dropout_options_default();
    test_refused(context, mh_activate(context, (mh_activation)5, &a, &out.view), MH_ERROR_ARGUMENT,
                 "activation");
    test_refused(context, mh_activate(context, MH_GELU, &wrong, &out.view), MH_ERROR_ARGUMENT, "y");
    test_refused(context, mh_activate(context, MH_GELU, &integers, &out.view), MH_ERROR_UNSUPPORTED,
                 "x");
    test_refused(context, mh_activate_backward(context, MH_GELU, &a, &wrong, &out.view),
                 MH_ERROR_ARGUMENT, "dy");
    test_refused(context, mh_swiglu(context, &a, &wrong, &out.view), MH_ERROR_ARGUMENT, "up");
    test_refused(context, mh_swiglu_backward(context, &a, &a, &a, &out.view, &wrong),
                 MH_ERROR_ARGUMENT, "dup");
    test_refused(context, mh_glu(context, (mh_activation)5, &a, &a, &out.view), MH_ERROR_ARGUMENT,
                 "activation");
    test_refused(context, mh_glu(context, MH_RELU, &a, &wrong, &out.view), MH_ERROR_ARGUMENT, "up");
    test_refused(context, mh_glu_backward(context, MH_GELU, &a, &a, &wrong, &out.view, &out.view),
                 MH_ERROR_ARGUMENT, "dy");
    test_refused(context, mh_add(context, &a, &wrong, &out.view), MH_ERROR_ARGUMENT, "dimension");
    options.probability = 1;
    test_refused(context, mh_dropout(context, &options, &a, &out.view), MH_ERROR_ARGUMENT,
                 "probability");
    options.probability = NAN;
    test_refused(context, mh_dropout(context, &options, &a, &out.view), MH_ERROR_ARGUMENT,
                 "probability");
    options.struct_size = 3;
    test_refused(context, mh_dropout(context, &options, &a, &out.view), MH_ERROR_ARGUMENT,
                 "struct_size");
    assert_int_equal(mh_activate(NULL, MH_RELU, &a, &out.view), MH_ERROR_ARGUMENT);
    assert_true(test_untouched(&out));
    test_tensor_free(&out);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),    cmocka_unit_test(swiglus),
        cmocka_unit_test(glus),           cmocka_unit_test(glu_in_place),
        cmocka_unit_test(additions),      cmocka_unit_test(dropouts),
        cmocka_unit_test(bits),           cmocka_unit_test(share_of_zeros),
        cmocka_unit_test(special_values), cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
