// SPDX-License-Identifier: MIT
// The reference gradient, proven: for random small calls with every option, derivatives of the
// reference forward by central differences, all in double, beside what ref_attention_backward
// says. What the library computes is then compared with that reference in test_attention_grad.
//
// Differences over +-h and +-2h, combined so that the error is of order h^4: with h = 2^-12 and
// slopes up to about 24 in the exponent that is 1e-10, and rounding comes to some 1e-11.
#include "attention_case.h"
#include "ref/ref_attention.h"
#include "ref/ref_attention_grad.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>

enum { CASES = 500, WORK = 1500, SAMPLES = 12 }; // multiplications; elements of each gradient

static const double step = 0x1p-12;

// ---- a call in double ---------------------------------------------------------------------------

// Replaces a tensor by a dense one of f64 that holds the same numbers, or new ones.
static void widen(test_rng *rng, test_tensor *t, bool fresh)
{
    size_t index[MH_MAX_RANK] = {0};
    test_tensor wide = test_tensor_dense(MH_F64, t->view.rank, t->view.shape);
    if (ref_count(&t->view))
        do
            ref_set(&wide.view, index, fresh ? test_normal(rng) : ref_get(&t->view, index));
        while (ref_next(&t->view, index));
    test_tensor_free(t);
    *t = wide;
}

// Sinks are floats: on a grid of which the step is a multiple, so that their steps are exact.
static void create(attention_case *c, uint64_t seed)
{
    attention_case_create_backward(c, seed, WORK);
    test_tensor *inputs[] = {&c->q, &c->k, &c->v, &c->dout};
    for (size_t i = 0; i < 4; i++)
        widen(&c->rng, inputs[i], true);
    for (size_t m = 0; m < c->options.mask_count; m++)
        if (c->masks[m].kind == MH_MASK_ADD) {
            widen(&c->rng, &c->mask[m], false);
            c->masks[m].tensor = c->mask[m].view;
        }
    for (size_t h = 0; h < c->H; h++)
        c->sinks[h] = (float)(round((double)c->sinks[h] / step) * step);
}

// sum of dout * out, without the rows that are empty and asked to be NaN
static double loss(const attention_case *c)
{
    ref_attention ref;
    double sum = 0;
    ref_attention_forward(&c->options, &c->q.view, &c->k.view, &c->v.view, false, &ref);
    for (size_t n = 0; n < ref.N; n++) {
        ref_sequence s = ref_sequence_get(&c->options, &c->q.view, &c->k.view, n);
        for (size_t h = 0; h < ref.H; h++)
            for (size_t i = 0; i < s.T; i++)
                for (size_t e = 0; e < ref.Ev; e++) {
                    double out = ref.out[((n * ref.H + h) * ref.T + i) * ref.Ev + e];
                    size_t at[4] = {s.batch, h, s.query_start + i, e};
                    sum += isnan(out) ? 0 : out * ref_get(&c->dout.view, at);
                }
    }
    ref_attention_free(&ref);
    return sum;
}

// ---- differences --------------------------------------------------------------------------------

static double loss_at(const attention_case *c, double *x, float *narrow, double value)
{
    if (narrow)
        *narrow = (float)value;
    else
        *x = value;
    return loss(c);
}

// The derivative of the loss by *x, or by the float *narrow if there is one.
static double difference(const attention_case *c, double *x, float *narrow)
{
    double usual = narrow ? (double)*narrow : *x;
    double near = loss_at(c, x, narrow, usual + step) - loss_at(c, x, narrow, usual - step);
    double far = loss_at(c, x, narrow, usual + 2 * step) - loss_at(c, x, narrow, usual - 2 * step);
    if (narrow)
        *narrow = (float)usual;
    else
        *x = usual;
    return (8 * near - far) / (12 * step);
}

typedef struct tally {
    size_t derivatives;
    double worst; // |found - expected| / (1e-6 |expected| + 1e-10): fine up to 1
} tally;

static void compare(const attention_case *c, const char *what, const ref_gradient *gradient,
                    double *values, float *narrow, tally *t)
{
    test_rng rng = {c->seed};
    for (size_t n = 0; n < SAMPLES && gradient->count; n++, t->derivatives++) {
        size_t at = gradient->count <= SAMPLES ? n % gradient->count
                                               : test_between(&rng, 0, gradient->count - 1);
        double found = gradient->value[at];
        double expected = difference(c, values ? values + at : NULL, narrow ? narrow + at : NULL);
        double ratio = fabs(found - expected) / (1e-6 * fabs(expected) + 1e-10);
        t->worst = fmax(t->worst, ratio);
        if (!(ratio <= 1)) {
            char text[1024];
            fail_msg("%s[%zu]: found %.15g, by differences %.15g: %s\n"
                     "  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1",
                     what, at, found, expected, attention_case_describe(c, text, sizeof text),
                     c->seed);
        }
    }
}

static void check(attention_case *c, tally *t)
{
    ref_attention_grad ref;
    ref_attention_backward(&c->options, &c->q.view, &c->k.view, &c->v.view, MH_F32, &c->dout.view,
                           &ref);
    compare(c, "dq", &ref.dq, c->q.view.data, NULL, t);
    compare(c, "dk", &ref.dk, c->k.view.data, NULL, t);
    compare(c, "dv", &ref.dv, c->v.view.data, NULL, t);
    compare(c, "dsinks", &ref.dsinks, NULL, c->sinks, t);
    for (size_t m = 0; m < ref.mask_count; m++)
        compare(c, "dmasks", &ref.dmasks[m], c->mask[m].view.data, NULL, t);
    ref_attention_grad_free(&ref);
}

// ---- that every option was among the cases ------------------------------------------------------

enum { OPTIONS = 18 };

static void count_options(const attention_case *c, size_t seen[OPTIONS])
{
    const mh_attention_options *o = &c->options;
    bool additive = false, hiding = false;
    for (size_t m = 0; m < o->mask_count; m++)
        *(o->masks[m].kind == MH_MASK_ADD ? &additive : &hiding) = true;
    const bool used[OPTIONS] = {
        !isnan(o->scale),
        o->softcap > 0,
        o->causal == MH_CAUSAL,
        o->causal == MH_CAUSAL_TOP_LEFT,
        o->causal == MH_CAUSAL_BOTTOM_RIGHT,
        o->causal == MH_CAUSAL_OFFSET,
        o->window_left >= 0 || o->window_right >= 0,
        o->prefix_lengths,
        o->key_lengths,
        o->query_documents,
        additive,
        hiding,
        o->alibi,
        o->sinks,
        o->sequences > 1,
        o->dropout > 0.01f,
        c->H > c->G,
        c->E != c->Ev,
    };
    for (size_t i = 0; i < OPTIONS; i++)
        seen[i] += used[i];
}

static void central_differences(void **state)
{
    (void)state;
    static attention_case c;
    size_t cases = test_cases(CASES), seen[OPTIONS] = {0}, least = SIZE_MAX;
    tally t = {0, 0};
    for (size_t n = 0; n < cases; n++) {
        create(&c, test_seed() + n);
        check(&c, &t);
        count_options(&c, seen);
        attention_case_free(&c);
    }
    for (size_t i = 0; i < OPTIONS; i++)
        least = seen[i] < least ? seen[i] : least;
    print_message("%zu cases, %zu derivatives; largest error / bound %.2g; the rarest option in "
                  "%zu cases\n",
                  cases, t.derivatives, t.worst, least);
    assert_true(least > 0 || cases < 200);
}

// Where there is nothing to differ by, the gradient is 0 to the bit: dead keys, empty rows.
static void dead_is_zero(void **state)
{
    (void)state;
    static attention_case c;
    for (size_t n = 0; n < 100; n++) {
        create(&c, test_seed() + n);
        int64_t none[CASE_SEQUENCES] = {0};
        c.options.key_lengths = none;
        ref_attention_grad ref;
        ref_attention_backward(&c.options, &c.q.view, &c.k.view, &c.v.view, MH_F32, &c.dout.view,
                               &ref);
        const ref_gradient *all[] = {&ref.dq, &ref.dk, &ref.dv, &ref.dsinks};
        for (size_t i = 0; i < 4; i++)
            for (size_t l = 0; l < all[i]->count; l++)
                assert_true(all[i]->value[l] == 0);
        ref_attention_grad_free(&ref);
        attention_case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(central_differences),
        cmocka_unit_test(dead_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
