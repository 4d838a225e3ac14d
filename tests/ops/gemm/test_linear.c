// SPDX-License-Identifier: MIT
// mh_linear and mh_linear_backward against the double reference: random shapes, strides, dtypes,
// precisions and options at every instruction-set level. test_linear_bits.c has what must not
// change a bit, test_linear_errors.c what is refused.
#include "ops/gemm/gemm_internal.h"
#include "ref/ref_linear.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <inttypes.h>

enum { CASES = 400, MOST_LEVELS = 8 };

static mh_context *contexts[MOST_LEVELS]; // one for each level, of 1 or 3 threads

static int make_contexts(void **state)
{
    (void)state;
    for (size_t i = 0; test_level(i); i++)
        contexts[i] = test_context(test_level(i), i % 2 ? 3 : 1);
    return 0;
}

static int free_contexts(void **state)
{
    (void)state;
    for (size_t i = 0; i < MOST_LEVELS; i++)
        mh_context_free(contexts[i]);
    return 0;
}

// ---- sizes and numbers --------------------------------------------------------------------------

typedef struct sizes {
    size_t M, K, N;
} sizes;

static size_t random_size(test_rng *rng)
{
    double kind = test_uniform(rng, 0, 1);
    return kind < 0.05 ? 0 : kind < 0.15 ? 1 : test_between(rng, 1, kind < 0.7 ? 20 : 140);
}

// Beyond what one task takes (128 rows, 12 panels of 64 columns, a depth of 1024), and next to
// nothing.
static const sizes given_sizes[] = {{130, 1030, 70}, {3, 1030, 800}, {260, 40, 780}, {1, 2100, 130},
                                    {1, 1, 1},       {0, 3, 4},      {3, 0, 4},      {3, 4, 0}};

// Calls `check` for these, and for random sizes, each a function of its seed; prints how near to
// the bound the errors came.
static void all_cases(void (*check)(uint64_t seed, sizes s, double *worst))
{
    double worst = 0;
    for (size_t i = 0; i < sizeof given_sizes / sizeof *given_sizes; i++)
        check(1 + i, given_sizes[i], &worst);
    for (size_t n = 0; n < test_cases(CASES); n++) {
        test_rng rng = {~(test_seed() + n)};
        const size_t M = random_size(&rng), K = random_size(&rng), N = random_size(&rng);
        check(test_seed() + n, (sizes){M, K, N}, &worst);
    }
    print_message("largest error / bound: %.2f\n", worst);
}

static mh_precision random_precision(test_rng *rng)
{
    static const mh_precision all[] = {MH_PRECISION_WEIGHTS, MH_PRECISION_F32, MH_PRECISION_BF16};
    return all[test_between(rng, 0, 2)];
}

static bool rounds(mh_precision precision, mh_dtype weight)
{
    return precision == MH_PRECISION_BF16 ||
           (precision == MH_PRECISION_WEIGHTS && weight == MH_BF16);
}

static test_tensor random_matrix(test_rng *rng, mh_dtype dtype, size_t rows, size_t columns,
                                 bool input)
{
    test_tensor t = test_tensor_random(rng, dtype, 2, (size_t[]){rows, columns}, input);
    if (input)
        test_fill_normal(rng, &t.view, 1);
    return t;
}

// Two inputs that are not both broadcast along a sum, where errors of equal terms would add up
// instead of walking at random.
static test_tensor random_partner(test_rng *rng, const mh_tensor *other, size_t rows,
                                  size_t columns)
{
    test_tensor t = {0};
    do {
        test_tensor_free(&t);
        t = random_matrix(rng, test_float_dtype(rng), rows, columns, true);
    } while ((other->stride[0] == 0 || other->stride[1] == 0) &&
             (t.view.stride[0] == 0 || t.view.stride[1] == 0));
    return t;
}

static void put(const mh_tensor *t, const double *values)
{
    size_t index[2] = {0}, n = 0;
    if (ref_count(t))
        do
            ref_set(t, index, values[n++]);
        while (ref_next(t, index));
}

// What ReLU makes of it.
static void clip(const mh_tensor *t)
{
    double *values = ref_load(t);
    for (size_t i = 0; i < ref_count(t); i++)
        values[i] = fmax(values[i], 0);
    put(t, values);
    free(values);
}

static double worst_ratio(const mh_tensor *t, const double *expected, const double *error)
{
    double worst = 0, *found = ref_load(t);
    for (size_t i = 0; i < ref_count(t); i++)
        worst = fmax(worst, test_error_ratio(found[i], expected[i], error[i], t->dtype));
    free(found);
    return worst;
}

// Fails the test unless t is as expected and nothing beside it has been written.
static double judge(const char *what, const char *level, sizes s, uint64_t seed,
                    const test_tensor *t, const double *expected, const double *error)
{
    double ratio = worst_ratio(&t->view, expected, error);
    bool intact = test_guards_intact(t);
    if (ratio > 1 || !intact)
        fail_msg("%s at %s, M%zu K%zu N%zu: %.3g x the bound, guards %d\n  MH_TEST_SEED=%" PRIu64
                 " MH_TEST_CASES=1",
                 what, level, s.M, s.K, s.N, ratio, intact, seed);
    return ratio;
}

// ---- forward ------------------------------------------------------------------------------------

typedef struct layer {
    test_tensor x, weight, bias, residual, before, relu, y;
    mh_activation activation;
    mh_linear_options options;
    const mh_tensor *relu_output; // `relu`, or NULL
    bool own_residual, packed;
    double *held; // what y holds before
} layer;

static void choose_options(test_rng *rng, sizes s, layer *l)
{
    mh_linear_options *o = &l->options;
    *o = mh_linear_options_default();
    o->precision = random_precision(rng);
    l->packed = test_chance(rng, 0.3);
    if (test_chance(rng, 0.5)) {
        l->bias = test_tensor_dense(MH_F32, 1, &s.N);
        test_fill_normal(rng, &l->bias.view, 2);
        o->bias = &l->bias.view;
    }
    l->activation = (mh_activation)test_between(rng, 0, 3);
    if (test_chance(rng, 0.6))
        o->activation = &l->activation;
    if (test_chance(rng, 0.5)) {
        l->before = random_matrix(rng, MH_F32, s.M, s.N, false);
        o->preactivation = &l->before.view;
    }
    l->own_residual = test_chance(rng, 0.2);
    if (!l->own_residual && test_chance(rng, 0.4)) {
        l->residual = random_matrix(rng, test_float_dtype(rng), s.M, s.N, true);
        o->residual = &l->residual.view;
    }
    o->accumulate = test_chance(rng, 0.3);
    if (test_chance(rng, 0.3)) {
        l->relu = random_matrix(rng, test_float_dtype(rng), s.M, s.N, true);
        clip(&l->relu.view);
        l->relu_output = &l->relu.view;
    }
}

// In place: the options point into the layer.
static void make_layer(test_rng *rng, sizes s, layer *l)
{
    *l = (layer){0};
    l->x = random_matrix(rng, test_float_dtype(rng), s.M, s.K, true);
    l->weight = random_partner(rng, &l->x.view, s.N, s.K);
    choose_options(rng, s, l);
    l->y = random_matrix(rng, test_float_dtype(rng), s.M, s.N, false);
    test_fill_normal(rng, &l->y.view, 1);
    l->held = ref_load(&l->y.view);
}

static void free_layer(layer *l)
{
    test_tensor *all[] = {&l->x, &l->weight, &l->bias, &l->residual, &l->before, &l->relu, &l->y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
    free(l->held);
}

static void run_layer(mh_context *context, layer *l)
{
    mh_linear_options o = l->options;
    mh_packed_matrix *packed = NULL;
    if (l->before.bytes)
        test_paint(&l->before);
    test_paint(&l->y);
    put(&l->y.view, l->held);
    if (l->own_residual)
        o.residual = &l->y.view;
    if (l->packed) {
        const mh_tensor transposed = mh_tensor_swap(l->weight.view, 0, 1);
        test_ok(context, mh_matrix_pack(context, o.precision, &transposed, &packed));
        o.packed = packed;
    }
    test_ok(context, mh_linear_masked(context, &o, l->relu_output, &l->x.view,
                                      packed ? NULL : &l->weight.view, &l->y.view));
    mh_packed_matrix_free(packed);
}

static void forward_case(uint64_t seed, sizes s, double *worst)
{
    test_rng rng = {seed};
    const size_t count = s.M * s.N;
    layer l;
    make_layer(&rng, s, &l);
    ref_layer expected = {ref_alloc(count, sizeof(double)), ref_alloc(count, sizeof(double)),
                          ref_load(&l.y.view), ref_alloc(count, sizeof(double))};
    const mh_dtype weight = l.weight.view.dtype;
    const bool rounded = rounds(l.options.precision, weight);
    ref_linear(&l.options, l.relu_output, rounded, l.own_residual, &l.x.view, &l.weight.view,
               &expected);
    for (size_t i = 0; test_level(i); i++) {
        run_layer(contexts[i], &l);
        *worst =
            fmax(*worst, judge("y", test_level(i), s, seed, &l.y, expected.y, expected.y_error));
        if (l.options.preactivation)
            *worst = fmax(*worst, judge("preactivation", test_level(i), s, seed, &l.before,
                                        expected.before, expected.before_error));
    }
    free(expected.before);
    free(expected.before_error);
    free(expected.y);
    free(expected.y_error);
    free_layer(&l);
}

static void forward_cases(void **state)
{
    (void)state;
    all_cases(forward_case);
}

// ---- backward -----------------------------------------------------------------------------------

// One gradient: where it goes, what it held before, what it should be.
typedef struct gradient {
    test_tensor t;
    bool wanted;
    double *held, *expected, *error;
} gradient;

static gradient make_gradient(test_rng *rng, test_tensor t)
{
    gradient g = {.t = t, .wanted = test_chance(rng, 0.8)};
    test_fill_normal(rng, &t.view, 1);
    g.held = ref_load(&t.view);
    g.expected = ref_alloc(ref_count(&t.view), sizeof(double));
    g.error = ref_alloc(ref_count(&t.view), sizeof(double));
    return g;
}

static mh_tensor *wanted(gradient *g)
{
    test_paint(&g->t);
    put(&g->t.view, g->held);
    return g->wanted ? &g->t.view : NULL;
}

static void add_held(gradient *g)
{
    for (size_t i = 0; i < ref_count(&g->t.view); i++) {
        g->expected[i] += g->held[i];
        g->error[i] += 0x1p-23 * (fabs(g->expected[i]) + fabs(g->held[i]));
    }
}

// A gradient that nobody wants keeps what it held.
static double judge_gradient(const char *what, const char *level, sizes s, uint64_t seed,
                             const gradient *g)
{
    return judge(what, level, s, seed, &g->t, g->wanted ? g->expected : g->held, g->error);
}

static void free_gradient(gradient *g)
{
    test_tensor_free(&g->t);
    free(g->held);
    free(g->expected);
    free(g->error);
}

static void backward_case(uint64_t seed, sizes s, double *worst)
{
    test_rng rng = {seed};
    test_tensor dy = random_matrix(&rng, test_float_dtype(&rng), s.M, s.N, true);
    test_tensor x = random_partner(&rng, &dy.view, s.M, s.K);
    test_tensor weight = random_partner(&rng, &dy.view, s.N, s.K);
    mh_linear_options o = mh_linear_options_default();
    o.precision = random_precision(&rng);
    o.accumulate = test_chance(&rng, 0.5);
    const bool rounded = rounds(o.precision, weight.view.dtype);
    gradient dx = make_gradient(&rng, random_matrix(&rng, test_float_dtype(&rng), s.M, s.K, false));
    gradient dweight = make_gradient(&rng, random_matrix(&rng, MH_F32, s.N, s.K, false));
    gradient dbias = make_gradient(&rng, test_tensor_dense(MH_F32, 1, &s.N));

    const mh_tensor transposed = mh_tensor_swap(dy.view, 0, 1);
    float one = 1; // dbias = dy^T (1, 1, ...)
    const mh_tensor ones = {.data = &one, .rank = 2, .shape = {s.M, 1}};
    ref_gemm(&dy.view, &weight.view, rounded, dx.expected, dx.error);
    ref_gemm(&transposed, &x.view, rounded, dweight.expected, dweight.error);
    ref_gemm(&transposed, &ones, false, dbias.expected, dbias.error);
    if (o.accumulate) {
        add_held(&dweight);
        add_held(&dbias);
    }
    for (size_t i = 0; test_level(i); i++) {
        test_ok(contexts[i], mh_linear_backward(contexts[i], &o, &x.view, &weight.view, &dy.view,
                                                wanted(&dx), wanted(&dweight), wanted(&dbias)));
        *worst = fmax(*worst, judge_gradient("dx", test_level(i), s, seed, &dx));
        *worst = fmax(*worst, judge_gradient("dweight", test_level(i), s, seed, &dweight));
        *worst = fmax(*worst, judge_gradient("dbias", test_level(i), s, seed, &dbias));
    }
    test_tensor_free(&dy);
    test_tensor_free(&x);
    test_tensor_free(&weight);
    free_gradient(&dx);
    free_gradient(&dweight);
    free_gradient(&dbias);
}

static void backward_cases(void **state)
{
    (void)state;
    all_cases(backward_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_cases),
        cmocka_unit_test(backward_cases),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
