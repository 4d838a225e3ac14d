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

enum { CASES = 60 };

static const double step = 1e-5, bound = 4e-5;

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
    const mh_tensor dx = block_case_view(c, 0, f->dsrc), dy = block_case_view(c, 1, f->dtgt);
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
                  const double *expected, double *worst)
{
    const double distance = nn_distance_floats(n, f, expected);
    *worst = fmax(*worst, distance);
    if (distance <= bound)
        return;
    block_case_print(c);
    fail_msg("MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1: %s is off by %.3g, expected %.3g", seed,
             what, distance, bound);
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
    o.recompute = o.fresh_gradients = true;
    test_ok(context, block_case_forward(context, t, c, &o, src, tgt, out));
    backward(context, t, c, &o, src, tgt, dout, &g);
    same(c, a, f, &g, "recompute and fresh gradients");
    found_free(&g);
}

static void check_level(mh_context *context, uint64_t seed, const block_case *c, const arrays *a,
                        float *src, float *tgt, float *dout, double *worst)
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
        judge(c, seed, p->name, p->count, f.gradients + p->offset, a->dvalues + p->offset, worst);
    }
    judge(c, seed, "dsrc", a->src, f.dsrc, a->dx, worst);
    if (c->has[1])
        judge(c, seed, "dtgt", a->tgt, f.dtgt, a->dy, worst);
    check_repeats(context, t, c, o, src, tgt, out, dout, a, &f);
    found_free(&f);
    free(out);
    mh_tape_free(o.tape);
    mh_transformer_free(t);
}

// Whether the case was checked: not one on a ReLU's kink.
static bool check_case(mh_context *contexts[], uint64_t seed, double *worst)
{
    test_rng rng = {seed};
    block_case c;
    block_case_create(&rng, true, &c);
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
            check_level(contexts[i], seed, &c, &a, src, tgt, dout, worst);
    }
    void *all[] = {src, tgt, dout, a.values, a.x, a.y, a.dout, a.dvalues, a.dx, a.dy, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(t);
    return smooth;
}

static void gradients(void **state)
{
    (void)state;
    mh_context *contexts[16] = {NULL};
    double worst = 0;
    size_t checked = 0;
    const size_t count = test_cases(CASES);
    for (size_t i = 0; test_level(i); i++)
        contexts[i] = test_context(test_level(i), 1 + i % 3);
    for (size_t n = 0; n < count; n++)
        checked += check_case(contexts, test_seed() + n, &worst);
    print_message("%zu cases, worst distance %.2g\n", checked, worst);
    assert_true(checked >= count / 2);
    for (size_t i = 0; contexts[i]; i++)
        mh_context_free(contexts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
