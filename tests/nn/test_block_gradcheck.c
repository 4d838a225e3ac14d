// SPDX-License-Identifier: MIT
// The backward pass of general blocks against central differences of the double reference, for
// every parameter and input of random stacks that have every setting of block.h; at every
// instruction-set level. The same bits with recompute, with gradients written over anything instead
// of added, and from a second backward pass of one forward pass.
//
// An error is judged relative to the largest number of its tensor, as in test_transformer; the
// bound is about twice what is seen, which the test prints.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 40 };

static const double step = 1e-5;

typedef struct distances {
    double bound, worst, sum; // the mean says more about bf16 than the worst
    size_t count;
} distances;

typedef struct arrays {
    size_t floats, src, tgt, out; // elements
    double *values, *x, *y;       // parameters, src, tgt
    double *dvalues, *dx, *dy;    // their gradients
    double *dout;
} arrays;

static double loss(const block_case *c, const mh_parameters *list, const arrays *a, double *out)
{
    double sum = 0;
    block_case_reference(c, list, a->values, false, a->x, a->y, out, NULL, NULL);
    for (size_t i = 0; i < a->out; i++)
        sum += out[i] * a->dout[i];
    return sum;
}

static void differences(const block_case *c, const mh_parameters *list, const arrays *a, size_t n,
                        double *x, double *gradient)
{
    double *out = ref_alloc(a->out, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        const double middle = x[i];
        x[i] = middle + step;
        const double above = loss(c, list, a, out);
        x[i] = middle - step;
        const double below = loss(c, list, a, out);
        x[i] = middle;
        gradient[i] = (above - below) / (2 * step);
    }
    free(out);
}

// Parts of a bias that a block lacks are constants.
static void clear_missing(const block_case *c, const mh_parameters *list, double *gradients)
{
    for (size_t i = 0; i < list->count; i++) {
        const mh_parameter *p = &list->list[i];
        const char *layer = strstr(p->name, "layers.");
        if (!layer || !strstr(p->name, "in_proj_bias"))
            continue;
        const int stack = !c->has[0] || strncmp(p->name, "decoder.", 8) == 0;
        const mh_block_config *b = &c->blocks[stack][layer[7] - '0'];
        const size_t G = ref_kv_heads(b), E = ref_head_dim(b);
        const size_t sizes[3] = {b->num_heads * E, G * E, G * ref_value_dim(b)};
        double *at = gradients + p->offset;
        for (int k = 0; k < 3; at += sizes[k++])
            for (size_t n = 0; n < sizes[k] && b->missing_bias & 1u << k; n++)
                at[n] = 0;
    }
}

typedef struct found {
    float *gradients, *dsrc, *dtgt;
} found;

static found found_create(const arrays *a)
{
    return (found){ref_alloc(a->floats, sizeof(float)), ref_alloc(a->src, sizeof(float)),
                   ref_alloc(a->tgt, sizeof(float))};
}

static void found_free(found *f)
{
    free(f->gradients);
    free(f->dsrc);
    free(f->dtgt);
}

static void backward(mh_context *context, const mh_transformer *t, const block_case *c,
                     const mh_transformer_options *o, float *src, float *tgt, float *dout, found *f)
{
    const mh_tensor x = block_case_view(c, 0, src), y = block_case_view(c, 1, tgt);
    mh_tensor dx = block_case_view(c, 0, f->dsrc), dy = block_case_view(c, 1, f->dtgt);
    const mh_tensor d = block_case_view(c, block_case_output(c), dout);
    test_ok(context, mh_transformer_backward(context, t, o, &x, c->has[1] ? &y : NULL, &d,
                                             f->gradients, &dx, c->has[1] ? &dy : NULL));
}

static void same(const block_case *c, const arrays *a, const found *f, const found *g,
                 const char *what)
{
    nn_same_bits(what, a->floats, f->gradients, g->gradients);
    nn_same_bits(what, a->src, f->dsrc, g->dsrc);
    if (c->has[1])
        nn_same_bits(what, a->tgt, f->dtgt, g->dtgt);
}

static void judge(const block_case *c, uint64_t seed, const char *what, size_t n, const float *f,
                  const double *expected, distances *all)
{
    const double distance = nn_distance_floats(n, f, expected);
    all->worst = fmax(all->worst, distance);
    all->sum += distance;
    all->count++;
    if (distance <= all->bound)
        return;
    block_case_print(c);
    fail_msg("MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1: %s is off by %.3g, expected %.3g", seed,
             what, distance, all->bound);
}

// Once more: a second backward, which adds; then a tape that keeps less, gradients over NaN.
static void check_repeats(mh_context *context, const mh_transformer *t, const block_case *c,
                          mh_transformer_options o, float *src, float *tgt, float *out, float *dout,
                          const arrays *a, const found *f)
{
    found g = found_create(a);
    backward(context, t, c, &o, src, tgt, dout, &g);
    same(c, a, f, &g, "a second backward");
    backward(context, t, c, &o, src, tgt, dout, &g);
    for (size_t i = 0; i < a->floats; i++)
        if (!(fabs((double)g.gradients[i] - 2 * (double)f->gradients[i]) <=
              1e-5 * (fabs((double)f->gradients[i]) + 1)))
            fail_msg("gradient %zu: found %.9g, expected twice %.9g", i, (double)g.gradients[i],
                     (double)f->gradients[i]);
    for (size_t i = 0; i < a->floats; i++)
        g.gradients[i] = NAN;
    o.recompute = o.overwrite_gradients = true;
    test_ok(context, block_case_forward(context, t, c, &o, src, tgt, out));
    backward(context, t, c, &o, src, tgt, dout, &g);
    same(c, a, f, &g, "recompute and fresh gradients");
    found_free(&g);
}

static void check_level(mh_context *context, uint64_t seed, const block_case *c, const arrays *a,
                        float *src, float *tgt, float *dout, distances *all)
{
    mh_transformer *t = block_case_module(context, c, true);
    const mh_parameters *list = mh_transformer_parameters(t);
    mh_transformer_options o = block_case_options(c);
    found f = found_create(a);
    float *out = ref_alloc(a->out, sizeof *out);
    block_case_randomise(c, list, seed);
    test_ok(context, mh_tape_create(context, &o.tape));
    test_ok(context, block_case_forward(context, t, c, &o, src, tgt, out));
    backward(context, t, c, &o, src, tgt, dout, &f);
    for (size_t i = 0; i < list->count; i++) {
        const mh_parameter *p = &list->list[i];
        judge(c, seed, p->name, p->count, f.gradients + p->offset, a->dvalues + p->offset, all);
    }
    judge(c, seed, "dsrc", a->src, f.dsrc, a->dx, all);
    if (c->has[1])
        judge(c, seed, "dtgt", a->tgt, f.dtgt, a->dy, all);
    check_repeats(context, t, c, o, src, tgt, out, dout, a, &f);
    found_free(&f);
    free(out);
    mh_tape_free(o.tape);
    mh_transformer_free(t);
}

// bf16 would round across ReLU's kink.
static void set_precision(block_case *c, mh_precision precision)
{
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < c->stacks[s].layers; i++) {
            mh_block_config *b = &c->blocks[s][i];
            b->precision = precision;
            if (precision == MH_PRECISION_BF16 && b->activation == MH_RELU)
                b->activation = MH_GELU;
        }
}

// Whether the case was checked: not one on a ReLU's kink.
static bool check_case(mh_context *contexts[], uint64_t seed, mh_precision precision,
                       distances *distances_of)
{
    test_rng rng = {seed};
    block_case c;
    block_case_create(&rng, true, &c);
    set_precision(&c, precision);
    mh_transformer *t = block_case_module(contexts[0], &c, true);
    const mh_parameters *list = mh_transformer_parameters(t);
    block_case_randomise(&c, list, seed);
    arrays a = {.floats = list->floats,
                .src = block_case_rows(&c, 0) * c.D,
                .tgt = block_case_rows(&c, 1) * c.D};
    a.out = block_case_output(&c) ? a.tgt : a.src;
    float *src = nn_floats(seed + 1, a.src), *tgt = nn_floats(seed + 2, a.tgt);
    float *dout = nn_floats(seed + 3, a.out);
    a.values = block_widen(a.floats, list->values);
    a.x = block_widen(a.src, src), a.y = block_widen(a.tgt, tgt);
    a.dout = block_widen(a.out, dout);
    a.dvalues = ref_alloc(a.floats, sizeof(double));
    a.dx = ref_alloc(a.src, sizeof(double)), a.dy = ref_alloc(a.tgt, sizeof(double));
    double *out = ref_alloc(a.out, sizeof *out);
    const bool smooth =
        block_case_reference(&c, list, a.values, false, a.x, a.y, out, NULL, NULL) > 2e-4;
    if (smooth) {
        differences(&c, list, &a, a.floats, a.values, a.dvalues);
        differences(&c, list, &a, a.src, a.x, a.dx);
        differences(&c, list, &a, a.tgt, a.y, a.dy);
        clear_missing(&c, list, a.dvalues);
        for (size_t i = 0; contexts[i]; i++)
            check_level(contexts[i], seed, &c, &a, src, tgt, dout, distances_of);
    }
    void *all[] = {src, tgt, dout, a.values, a.x, a.y, a.dout, a.dvalues, a.dx, a.dy, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(t);
    return smooth;
}

static void everywhere(const char *what, mh_precision precision, size_t usual, distances *all)
{
    mh_context *contexts[16] = {NULL};
    size_t checked = 0;
    const size_t count = test_cases(usual);
    for (size_t i = 0; test_level(i); i++)
        contexts[i] = test_context(test_level(i), 1 + i % 3);
    for (size_t n = 0; n < count; n++)
        checked += check_case(contexts, test_seed() + n, precision, all);
    print_message("%s: %zu cases, worst distance %.2g, mean %.2g\n", what, checked, all->worst,
                  all->sum / (double)all->count);
    assert_true(checked >= count / 2);
    for (size_t i = 0; contexts[i]; i++)
        mh_context_free(contexts[i]);
}

static void gradients(void **state)
{
    (void)state;
    distances all = {.bound = 6e-5};
    everywhere("f32", MH_PRECISION_F32, CASES, &all);
}

static void gradients_bf16(void **state)
{
    (void)state;
    distances all = {.bound = 1};
    everywhere("bf16", MH_PRECISION_BF16, CASES / 3, &all);
    assert_true(all.sum <= 0.04 * (double)all.count);
}

// ---- dropout ------------------------------------------------------------------------------------

// The module itself in f32, whose dropout is a function of the seed: its slope in one random
// direction of all parameters and inputs is the gradient's product with it. Not precise, but a mask
// that differs between forward and backward is off by much more.
static double loss_at(mh_context *context, mh_transformer *t, const block_case *c,
                      const mh_transformer_options *o, const arrays *a, double h,
                      const float *directions, float *out)
{
    const mh_parameters *list = mh_transformer_parameters(t);
    float *src = ref_alloc(a->src, sizeof *src), *tgt = ref_alloc(a->tgt, sizeof *tgt);
    double sum = 0;
    for (size_t i = 0; i < a->floats; i++)
        list->values[i] = (float)(a->values[i] + h * (double)directions[i]);
    for (size_t i = 0; i < a->src; i++)
        src[i] = (float)(a->x[i] + h * (double)directions[a->floats + i]);
    for (size_t i = 0; i < a->tgt; i++)
        tgt[i] = (float)(a->y[i] + h * (double)directions[a->floats + a->src + i]);
    test_ok(context, block_case_forward(context, t, c, o, src, tgt, out));
    for (size_t i = 0; i < a->out; i++)
        sum += (double)out[i] * a->dout[i];
    free(src);
    free(tgt);
    return sum;
}

static double product(size_t n, const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void dropout_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    block_case c;
    block_case_create(&rng, true, &c);
    set_precision(&c, MH_PRECISION_F32);
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < c.stacks[s].layers; i++) {
            mh_block_config *b = &c.blocks[s][i];
            b->dropout = 0.3f;
            b->missing_bias = 0;
            b->activation = b->activation == MH_RELU ? MH_SILU : b->activation;
        }
    mh_transformer *t = block_case_module(context, &c, true);
    const mh_parameters *list = mh_transformer_parameters(t);
    block_case_randomise(&c, list, seed);
    arrays a = {.floats = list->floats,
                .src = block_case_rows(&c, 0) * c.D,
                .tgt = block_case_rows(&c, 1) * c.D};
    a.out = block_case_output(&c) ? a.tgt : a.src;
    float *src = nn_floats(seed + 1, a.src), *tgt = nn_floats(seed + 2, a.tgt);
    float *dout = nn_floats(seed + 3, a.out), *out = ref_alloc(a.out, sizeof *out);
    float *directions = nn_floats(seed + 4, a.floats + a.src + a.tgt);
    a.values = block_widen(a.floats, list->values);
    a.x = block_widen(a.src, src), a.y = block_widen(a.tgt, tgt);
    a.dout = block_widen(a.out, dout);
    mh_transformer_options o = block_case_options(&c);
    o.training = true;
    o.seed = seed;
    test_ok(context, mh_tape_create(context, &o.tape));
    found f = found_create(&a);
    test_ok(context, block_case_forward(context, t, &c, &o, src, tgt, out));
    backward(context, t, &c, &o, src, tgt, dout, &f);
    check_repeats(context, t, &c, o, src, tgt, out, dout, &a, &f);
    double expected = product(a.floats, f.gradients, directions);
    expected += product(a.src, f.dsrc, directions + a.floats);
    if (c.has[1])
        expected += product(a.tgt, f.dtgt, directions + a.floats + a.src);
    const double h = 2e-4;
    double slope = 0;
    for (int side = -2; side <= 2; side++) {
        static const double weights[5] = {1. / 12, -8. / 12, 0, 8. / 12, -1. / 12};
        slope += weights[side + 2] * loss_at(context, t, &c, &o, &a, side * h, directions, out) / h;
    }
    if (!(fabs(slope - expected) <= 0.02 * fabs(expected) + 0.1)) {
        block_case_print(&c);
        fail_msg("MH_TEST_SEED=%" PRIu64 ": slope %.6g, gradient %.6g", seed, slope, expected);
    }
    void *all[] = {src, tgt, dout, out, directions, a.values, a.x, a.y, a.dout};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    found_free(&f);
    mh_tape_free(o.tape);
    mh_transformer_free(t);
}

static void dropout(void **state)
{
    (void)state;
    test_run_cases(CASES, dropout_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_bf16),
        cmocka_unit_test(dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
