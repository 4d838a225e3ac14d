// SPDX-License-Identifier: MIT
// mh_attention_forward against the double reference: thousands of random calls with all options
// combined freely, at every instruction-set level; then the size of the error beside that of the
// plain f32 loop on ordinary shapes.
//
// A failing case prints its seed; MH_TEST_SEED=<it> MH_TEST_CASES=1 runs it alone.
#include "attention_case.h"
#include "ref/ref_attention.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>

enum { CASES = 3000, MAX_LEVELS = 8 };

typedef struct verdict {
    double worst;     // largest error / bound
    const char *what; // the output in which it was
    size_t index[4];
    double found, expected;
} verdict;

static void judge(verdict *v, const char *what, const size_t index[4], double found,
                  double expected, double bound, mh_dtype dtype)
{
    double ratio = test_error_ratio(found, expected, bound, dtype);
    if (ratio > v->worst) {
        *v = (verdict){ratio, what, {0}, found, expected};
        memcpy(v->index, index, sizeof v->index);
    }
}

// ---- comparing one call with the reference ------------------------------------------------------

static void check_rows(const attention_case *c, const ref_attention *ref, verdict *v)
{
    for (size_t n = 0; n < ref->N; n++) {
        ref_sequence s = ref_sequence_get(&c->options, &c->q.view, &c->k.view, n);
        for (size_t h = 0; h < ref->H; h++)
            for (size_t i = 0; i < s.T; i++) {
                size_t row = (n * ref->H + h) * ref->T + i;
                size_t at[4] = {s.batch, h, s.query_start + i, 0};
                if (c->options.lse)
                    judge(v, "lse", at, ref_get(&c->lse.view, at), ref->lse[row],
                          ref->lse_error[row], MH_F32);
                for (; at[3] < ref->Ev; at[3]++)
                    judge(v, "out", at, ref_get(&c->out.view, at), ref->out[row * ref->Ev + at[3]],
                          ref->out_error[row * ref->Ev + at[3]], c->out.view.dtype);
            }
    }
}

// The value at (n, head, row, j) of the weights output, which may show chosen heads and rows, or
// the mean over the heads; the softmax before or after dropout.
static double expected_weight(const mh_attention_options *o, const ref_attention *ref,
                              const size_t at[4], double *bound)
{
    size_t shown = o->weights_heads ? o->weights_head_count : ref->H;
    size_t first = o->weights_average ? 0 : at[1], count = o->weights_average ? shown : 1;
    size_t i = o->weights_rows ? o->weights_rows[at[2]] : at[2];
    bool dropped = o->weights_dropped && o->weights_stage == MH_WEIGHTS_SOFTMAX;
    double sum = 0, magnitude = 0;
    *bound = 0;
    for (size_t l = first; l < first + count; l++) {
        size_t h = o->weights_heads ? o->weights_heads[l] : l;
        size_t index = ((at[0] * ref->H + h) * ref->T + i) * ref->S + at[3];
        double factor = dropped ? ref->factor[index] : 1;
        double weight = factor * ref->weights[o->weights_stage][index];
        sum += weight;
        magnitude += fabs(weight);
        *bound += factor * ref->weights_error[o->weights_stage][index] / (double)count;
    }
    if (count > 1 && isfinite(magnitude))
        *bound += 0x1p-24 * magnitude;
    return sum / (double)count;
}

static void check_weights(const attention_case *c, const ref_attention *ref, verdict *v)
{
    size_t at[4] = {0};
    if (ref_count(&c->weights.view))
        do {
            double bound, expected = expected_weight(&c->options, ref, at, &bound);
            judge(v, "weights", at, ref_get(&c->weights.view, at), expected, bound,
                  c->weights.view.dtype);
        } while (ref_next(&c->weights.view, at));
}

static void report(const attention_case *c, const char *level, const char *what)
{
    char text[1024];
    fail_msg("%s at %s: %s\n  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1", what, level,
             attention_case_describe(c, text, sizeof text), c->seed);
}

static double run_case(attention_case *c, mh_context *context, const ref_attention *ref)
{
    const char *level = mh_context_isa(context);
    test_tensor *outputs[] = {&c->out, &c->lse, &c->weights};
    for (size_t i = 0; i < 3; i++)
        if (outputs[i]->bytes)
            test_paint(outputs[i]);
    if (mh_attention_forward(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                             &c->out.view) != MH_OK)
        report(c, level, mh_error_message(context));

    verdict v = {0};
    check_rows(c, ref, &v);
    if (c->options.weights)
        check_weights(c, ref, &v);
    if (v.worst > 1) {
        char text[256];
        snprintf(text, sizeof text,
                 "%s (%zu, %zu, %zu, %zu): found %.9g, expected %.9g, %.3g x the bound", v.what,
                 v.index[0], v.index[1], v.index[2], v.index[3], v.found, v.expected, v.worst);
        report(c, level, text);
    }
    for (size_t i = 0; i < 3; i++)
        if (outputs[i]->bytes && !test_guards_intact(outputs[i]))
            report(c, level, "wrote outside its outputs");
    return v.worst;
}

static void check_plan(attention_case *c, mh_context *context, const ref_attention *ref)
{
    mh_attention_plan plan = mh_attention_plan_default();
    if (mh_attention_explain(context, &c->options, &c->q.view, &c->k.view, &c->v.view, &c->out.view,
                             &plan) != MH_OK)
        report(c, mh_context_isa(context), mh_error_message(context));
    if (plan.live_pairs != ref->live_pairs)
        report(c, mh_context_isa(context), "the plan's live pairs are wrong");
    double flops = 2 * (double)(c->E + c->Ev) * (double)ref->live_pairs;
    if (fabs(plan.flops - flops) > 1e-9 * flops || plan.dead_tiles + plan.edge_tiles > plan.tiles)
        report(c, mh_context_isa(context), "the plan's counts are wrong");
}

// ---- random cases -------------------------------------------------------------------------------

// Two contexts for each level, with one thread and with three, taken in turns.
static size_t make_contexts(mh_context *contexts[MAX_LEVELS][2])
{
    size_t levels = 0;
    for (; test_level(levels) && levels < MAX_LEVELS; levels++) {
        contexts[levels][0] = test_context(test_level(levels), 1);
        contexts[levels][1] = test_context(test_level(levels), 3);
    }
    return levels;
}

static void random_cases(void **state)
{
    (void)state;
    mh_context *contexts[MAX_LEVELS][2];
    size_t levels = make_contexts(contexts), cases = test_cases(CASES), runs = 0;
    double worst[MAX_LEVELS] = {0};
    static attention_case c;
    for (size_t n = 0; n < cases; n++) {
        attention_case_create(&c, test_seed() + n);
        ref_attention ref;
        ref_attention_forward(&c.options, &c.q.view, &c.k.view, &c.v.view,
                              c.options.weights != NULL, &ref);
        for (size_t level = 0; level < levels; level++, runs++)
            worst[level] = fmax(worst[level], run_case(&c, contexts[level][n % 2], &ref));
        if (n % 4 == 0)
            check_plan(&c, contexts[levels - 1][n % 2], &ref);
        ref_attention_free(&ref);
        attention_case_free(&c);
    }
    print_message("%zu cases, %zu runs; largest error / bound:", cases, runs);
    for (size_t level = 0; level < levels; level++) {
        print_message(" %s %.2f", test_level(level), worst[level]);
        mh_context_free(contexts[level][0]);
        mh_context_free(contexts[level][1]);
    }
    print_message("\n");
}

// ---- the error beside the plain loop's ----------------------------------------------------------

typedef struct shape {
    size_t N, E;
} shape;

static double *reference_of(const shape *s, float *q, float *k, float *v)
{
    mh_attention_options options = mh_attention_options_default();
    mh_tensor tq = mh_tensor_4d(q, MH_F32, 1, 1, s->N, s->E);
    mh_tensor tk = mh_tensor_4d(k, MH_F32, 1, 1, s->N, s->E);
    mh_tensor tv = mh_tensor_4d(v, MH_F32, 1, 1, s->N, s->E);
    ref_attention ref;
    ref_attention_forward(&options, &tq, &tk, &tv, false, &ref);
    double *out = ref.out;
    ref.out = NULL;
    ref_attention_free(&ref);
    return out;
}

// Raises *worst to the largest ratios seen.
static void compare_errors(const shape *s, float *q, float *k, float *v, float *out,
                           test_error *worst)
{
    size_t count = s->N * s->E;
    double *expected = reference_of(s, q, k, v);
    ref_attention_f32(s->N, s->N, s->E, s->E, 1 / sqrtf((float)s->E), q, k, v, out);
    test_error plain = test_error_of(count, out, expected);

    mh_tensor tq = mh_tensor_4d(q, MH_F32, 1, 1, s->N, s->E);
    mh_tensor tk = mh_tensor_4d(k, MH_F32, 1, 1, s->N, s->E);
    mh_tensor tv = mh_tensor_4d(v, MH_F32, 1, 1, s->N, s->E);
    mh_tensor to = mh_tensor_4d(out, MH_F32, 1, 1, s->N, s->E);
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        test_ok(context, mh_attention_forward(context, NULL, &tq, &tk, &tv, &to));
        test_error ours = test_error_of(count, out, expected);
        print_message("T=S=%-4zu E=%-3zu %-8s rms %.3g (%.2f x the plain loop) max %.3g (%.2f x)\n",
                      s->N, s->E, test_level(level), ours.rms, ours.rms / plain.rms, ours.max,
                      ours.max / plain.max);
        assert_true(isfinite(ours.rms)); // fmax would pass over a NaN
        worst->rms = fmax(worst->rms, ours.rms / plain.rms);
        worst->max = fmax(worst->max, ours.max / plain.max);
        mh_context_free(context);
    }
    free(expected);
}

static void error_ratio(void **state)
{
    (void)state;
    test_error worst = {0, 0};
    static const shape shapes[] = {{256, 64},  {512, 64},  {1024, 64},
                                   {256, 128}, {512, 128}, {1024, 128}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        test_rng rng = {1000 + n}; // a fixed set, whatever MH_TEST_SEED says
        size_t count = shapes[n].N * shapes[n].E;
        float *data[4];
        for (int i = 0; i < 4; i++) {
            data[i] = ref_alloc(count, sizeof(float));
            for (size_t l = 0; l < count; l++)
                data[i][l] = (float)test_normal(&rng);
        }
        compare_errors(&shapes[n], data[0], data[1], data[2], data[3], &worst);
        for (int i = 0; i < 4; i++)
            free(data[i]);
    }
    assert_true(worst.rms <= 1.0 && worst.max <= 1.5); // the aims of the project
}

// ---- sums of weights ----------------------------------------------------------------------------

typedef struct weighing {
    size_t T, S, E;
    mh_causal causal;
    int64_t window_left;
    bool additive; // of another dtype than f32, whose rows are converted
} weighing;

// Large scores, in which the rounding of queries and keys to bf16 shows.
static void check_sums(mh_context *context, const weighing *w)
{
    enum { H = 2 };
    test_rng rng = {test_seed()};
    const size_t rows[4] = {1, H, w->T, w->E}, keys[4] = {1, H, w->S, w->E};
    test_tensor q = test_tensor_dense(MH_F32, 4, rows), k = test_tensor_dense(MH_F32, 4, keys);
    test_tensor v = test_tensor_dense(MH_F32, 4, keys), out = test_tensor_dense(MH_F32, 4, rows);
    test_tensor weights = test_tensor_dense(MH_F32, 4, (size_t[]){1, H, w->T, w->S});
    test_fill_normal(&rng, &q.view, 3);
    test_fill_normal(&rng, &k.view, 3);
    test_fill_normal(&rng, &v.view, 1);
    mh_attention_options options = mh_attention_options_default();
    options.precision = MH_PRECISION_BF16;
    options.causal = w->causal;
    options.window_left = w->window_left;
    options.weights = &weights.view;
    test_tensor bias = test_tensor_dense(MH_BF16, 4, (size_t[]){1, 1, w->T, w->S});
    test_fill_normal(&rng, &bias.view, 1);
    mh_mask mask = mh_mask_make(MH_MASK_ADD, bias.view);
    options.masks = &mask;
    options.mask_count = w->additive;
    test_ok(context, mh_attention_forward(context, &options, &q.view, &k.view, &v.view, &out.view));
    const float *row = weights.view.data;
    for (size_t r = 0; r < H * w->T; r++, row += w->S) {
        double sum = 0;
        for (size_t j = 0; j < w->S; j++)
            sum += (double)row[j];
        if (!(fabs(sum - 1) < 1e-5))
            fail_msg("%s: T=%zu S=%zu E=%zu: row %zu sums to %.9g", mh_context_isa(context), w->T,
                     w->S, w->E, r, sum);
    }
    test_tensor_free(&q);
    test_tensor_free(&k);
    test_tensor_free(&v);
    test_tensor_free(&out);
    test_tensor_free(&weights);
    test_tensor_free(&bias);
}

// The second pass has the scores of the first, whichever path a row took.
static void bf16_sums(void **state)
{
    (void)state;
    static const weighing all[] = {
        {6, 6, 64, MH_CAUSAL_NONE, -1, false},        {1, 16, 64, MH_CAUSAL_NONE, -1, false},
        {40, 17, 64, MH_CAUSAL_NONE, -1, false},      {100, 100, 64, MH_CAUSAL_TOP_LEFT, -1, false},
        {600, 600, 32, MH_CAUSAL_TOP_LEFT, 8, false}, {30, 30, 136, MH_CAUSAL_TOP_LEFT, -1, false},
        {600, 600, 32, MH_CAUSAL_TOP_LEFT, 8, true}};
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check_sums(context, &all[i]);
        mh_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases),
        cmocka_unit_test(error_ratio),
        cmocka_unit_test(bf16_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
