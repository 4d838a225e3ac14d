// SPDX-License-Identifier: MIT
// mh_attention_backward against the double reference that test_gradcheck proves: thousands of
// random calls with all options combined freely, any subset of gradients, at every
// instruction-set level; the size of the error beside that of the plain f32 loops on ordinary
// shapes; numbers that must not leak; calls that make no sense.
//
// A failing case prints its seed; MH_TEST_SEED=<it> MH_TEST_CASES=1 runs it alone.
#include "attention_case.h"
#include "ref/ref_attention_grad.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>

enum { CASES = 2000, WORK = 250000, MAX_LEVELS = 8 };

// ---- comparing one gradient with the reference ------------------------------------------------

typedef struct verdict {
    double worst; // largest error / bound
    const char *what;
    size_t element; // in C order
    double found, expected;
} verdict;

static void judge(verdict *v, const char *what, const mh_tensor *t, const ref_gradient *expected)
{
    size_t index[MH_MAX_RANK] = {0}, n = 0;
    if (!t || !ref_count(t))
        return;
    do {
        double found = ref_get(t, index), value = expected->value[n];
        bool overflows = t->dtype == MH_F16 && fabs(value) > 65000; // whether it does is a detail
        double ratio = overflows ? 0 : test_error_ratio(found, value, expected->error[n], t->dtype);
        if (ratio > v->worst)
            *v = (verdict){ratio, what, n, found, value};
        n++;
    } while (ref_next(t, index));
}

static verdict judge_all(const mh_attention_gradients *g, const ref_attention_grad *ref)
{
    verdict v = {0};
    judge(&v, "dq", g->dq, &ref->dq);
    judge(&v, "dk", g->dk, &ref->dk);
    judge(&v, "dv", g->dv, &ref->dv);
    judge(&v, "dsinks", g->dsinks, &ref->dsinks);
    for (size_t m = 0; g->dmasks && m < ref->mask_count; m++)
        judge(&v, "dmasks", g->dmasks[m], &ref->dmasks[m]);
    return v;
}

// ---- random cases -----------------------------------------------------------------------------

static void report(const attention_case *c, mh_context *context, const char *what)
{
    char text[1024];
    fail_msg("%s at %s, %zu threads: %s\n  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1", what,
             mh_context_isa(context), mh_context_threads(context),
             attention_case_describe(c, text, sizeof text), c->seed);
}

static double run_case(attention_case *c, mh_context *context, const ref_attention_grad *ref)
{
    test_tensor *outputs[] = {&c->dq,     &c->dk,       &c->dv,       &c->dmask[0],
                              &c->dsinks, &c->dmask[1], &c->dmask[2], &c->weights};
    enum { OUTPUTS = sizeof outputs / sizeof *outputs };
    if (mh_attention_forward(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                             &c->out.view) != MH_OK)
        report(c, context, mh_error_message(context));
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->bytes)
            test_paint(outputs[i]);
    if (mh_attention_backward(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                              &c->out.view, &c->dout.view, &c->gradients) != MH_OK)
        report(c, context, mh_error_message(context));

    verdict v = judge_all(&c->gradients, ref);
    if (v.worst > 1) {
        char text[256];
        snprintf(text, sizeof text, "%s[%zu]: found %.9g, expected %.9g, %.3g x the bound", v.what,
                 v.element, v.found, v.expected, v.worst);
        report(c, context, text);
    }
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->bytes && !test_guards_intact(outputs[i]))
            report(c, context, "wrote outside its outputs");
    if (c->weights.bytes && !test_untouched(&c->weights))
        report(c, context, "wrote forward's weights");
    return v.worst;
}

static void random_cases(void **state)
{
    (void)state;
    static attention_case c;
    mh_context *contexts[MAX_LEVELS][2]; // with one thread and with three, taken in turns
    size_t levels = 0, cases = test_cases(CASES);
    double worst[MAX_LEVELS] = {0};
    for (; test_level(levels) && levels < MAX_LEVELS; levels++)
        for (size_t i = 0; i < 2; i++)
            contexts[levels][i] = test_context(test_level(levels), i ? 3 : 1);
    for (size_t n = 0; n < cases; n++) {
        attention_case_create_backward(&c, test_seed() + n, WORK);
        ref_attention_grad ref;
        ref_attention_backward(&c.options, &c.q.view, &c.k.view, &c.v.view, c.out.view.dtype,
                               &c.dout.view, &ref);
        for (size_t level = 0; level < levels; level++)
            worst[level] = fmax(worst[level], run_case(&c, contexts[level][n % 2], &ref));
        ref_attention_grad_free(&ref);
        attention_case_free(&c);
    }
    print_message("%zu cases; largest error / bound:", cases);
    for (size_t level = 0; level < levels; level++) {
        print_message(" %s %.2f", test_level(level), worst[level]);
        mh_context_free(contexts[level][0]);
        mh_context_free(contexts[level][1]);
    }
    print_message("\n");
}

// ---- one head ---------------------------------------------------------------------------------

// A call for one head, dense; every gradient but dmasks and dsinks.
typedef struct fixture {
    mh_context *context;
    mh_attention_options options;
    mh_attention_gradients gradients;
    test_tensor q, k, v, out, lse, dout, dq, dk, dv;
} fixture;

static fixture setup(mh_context *context, mh_dtype dtype, size_t T, size_t S, size_t width)
{
    test_rng rng = {7 + T + width};
    fixture f = {.context = context, .options = mh_attention_options_default()};
    f.gradients = mh_attention_gradients_default();
    const size_t queries[4] = {1, 1, T, width}, keys[4] = {1, 1, S, width};
    test_tensor *query_shaped[] = {&f.q, &f.out, &f.dout, &f.dq};
    test_tensor *key_shaped[] = {&f.k, &f.v, &f.dk, &f.dv};
    for (size_t i = 0; i < 4; i++) {
        *query_shaped[i] = test_tensor_dense(dtype, 4, queries);
        *key_shaped[i] = test_tensor_dense(dtype, 4, keys);
    }
    f.lse = test_tensor_dense(MH_F32, 3, queries);
    test_fill_normal(&rng, &f.q.view, 1);
    test_fill_normal(&rng, &f.k.view, 1);
    test_fill_normal(&rng, &f.v.view, 1);
    test_fill_normal(&rng, &f.dout.view, 1);
    return f;
}

static void teardown(fixture *f)
{
    test_tensor *all[] = {&f->q, &f->k, &f->v, &f->out, &f->lse, &f->dout, &f->dq, &f->dk, &f->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
}

static mh_status backward(fixture *f)
{
    return mh_attention_backward(f->context, &f->options, &f->q.view, &f->k.view, &f->v.view,
                                 &f->out.view, &f->dout.view, &f->gradients);
}

// The fixture is returned by value, so that its views get their addresses here.
static void connect(fixture *f)
{
    f->options.lse = &f->lse.view;
    f->gradients.dq = &f->dq.view;
    f->gradients.dk = &f->dk.view;
    f->gradients.dv = &f->dv.view;
}

static void run(fixture *f)
{
    connect(f);
    test_ok(f->context, mh_attention_forward(f->context, &f->options, &f->q.view, &f->k.view,
                                             &f->v.view, &f->out.view));
    test_ok(f->context, backward(f));
    assert_true(test_guards_intact(&f->dq) && test_guards_intact(&f->dk) &&
                test_guards_intact(&f->dv));
}

static ref_attention_grad reference_of(const fixture *f)
{
    ref_attention_grad ref;
    ref_attention_backward(&f->options, &f->q.view, &f->k.view, &f->v.view, f->out.view.dtype,
                           &f->dout.view, &ref);
    return ref;
}

static void agrees_with_reference(fixture *f)
{
    run(f);
    ref_attention_grad ref = reference_of(f);
    verdict v = judge_all(&f->gradients, &ref);
    if (v.worst > 1)
        fail_msg("%s %s: %s[%zu]: found %.9g, expected %.9g, %.3g x the bound",
                 mh_context_isa(f->context), mh_dtype_name(f->q.view.dtype), v.what, v.element,
                 v.found, v.expected, v.worst);
    ref_attention_grad_free(&ref);
}

// ---- the error beside the plain loops' ----------------------------------------------------------

static double worse(double a, double b) { return isnan(a) || a > b ? a : b; }

// Prints and returns the largest ratio of errors, of dq, dk and dv, maximum and root mean square.
static double compare_errors(fixture *f, const test_error plain[3], const ref_attention_grad *ref)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    const ref_gradient *expected[] = {&ref->dq, &ref->dk, &ref->dv};
    const test_tensor *found[] = {&f->dq, &f->dk, &f->dv};
    double worst = 0;
    print_message("T=S=%-4zu E=%-3zu %-7s", f->q.view.shape[2], f->q.view.shape[3],
                  mh_context_isa(f->context));
    for (size_t i = 0; i < 3; i++) {
        test_error ours =
            test_error_of(expected[i]->count, found[i]->view.data, expected[i]->value);
        double rms = ours.rms / plain[i].rms, max = ours.max / plain[i].max;
        print_message("  %s rms %.2g (%.2f x) max %.2g (%.2f x)", names[i], ours.rms, rms, ours.max,
                      max);
        worst = worse(worse(rms, max), worst);
    }
    print_message("\n");
    return worst;
}

static void error_ratio(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{128, 64},  {256, 64},  {512, 64},
                                       {128, 128}, {256, 128}, {512, 128}};
    double worst = 0;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        size_t N = shapes[n][0], E = shapes[n][1];
        fixture f = setup(NULL, MH_F32, N, N, E);
        ref_attention_grad ref = reference_of(&f);
        ref_attention_backward_f32(N, N, E, E, 1 / sqrtf((float)E), f.q.view.data, f.k.view.data,
                                   f.v.view.data, f.dout.view.data, f.dq.view.data, f.dk.view.data,
                                   f.dv.view.data);
        test_error plain[3] = {test_error_of(N * E, f.dq.view.data, ref.dq.value),
                               test_error_of(N * E, f.dk.view.data, ref.dk.value),
                               test_error_of(N * E, f.dv.view.data, ref.dv.value)};
        for (size_t level = 0; test_level(level); level++) {
            f.context = test_context(test_level(level), 1);
            run(&f);
            worst = worse(compare_errors(&f, plain, &ref), worst);
            mh_context_free(f.context);
        }
        ref_attention_grad_free(&ref);
        teardown(&f);
    }
    assert_true(worst <= 1.5); // the aim of the project
}

// ---- numbers that must not leak -----------------------------------------------------------------

// Most checks use T = S = 130: two tiles of 64 and a rest. They run at every level and dtype.
enum { N = 130, E = 9 };

typedef void (*check)(mh_context *context, mh_dtype dtype);

static void everywhere(check body)
{
    static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        for (size_t d = 0; d < 3; d++)
            body(context, dtypes[d]);
        mh_context_free(context);
    }
}

static void fill_row(const mh_tensor *t, size_t row, double value)
{
    for (size_t e = 0; e < t->shape[3]; e++)
        ref_set(t, (size_t[]){0, 0, row, e}, value);
}

static bool row_is(const mh_tensor *t, size_t row, bool (*property)(double))
{
    bool all = true;
    for (size_t e = 0; e < t->shape[3]; e++)
        all &= property(ref_get(t, (size_t[]){0, 0, row, e}));
    return all;
}

static bool is_zero(double x) { return x == 0; }
static bool is_finite(double x) { return isfinite(x); }
static bool is_nan(double x) { return isnan(x); }

// Rows [begin, end) of a gradient.
static void rows_are(const test_tensor *t, size_t begin, size_t end, bool (*property)(double))
{
    for (size_t row = begin; row < end; row++)
        assert_true(row_is(&t->view, row, property));
}

// Keys 0..2, 64..66 and 127..129, dead for every query.
static bool is_dead(size_t j) { return j < 3 || (j >= 64 && j < 67) || j >= 127; }

static void dead_keys(mh_context *context, mh_dtype dtype)
{
    static const double poisons[] = {NAN, INFINITY, -INFINITY};
    static const mh_mask_kind kinds[] = {MH_MASK_KEEP, MH_MASK_DROP, MH_MASK_ADD};
    for (int kind = 0; kind < 3; kind++)
        for (int poison = 0; poison < 3; poison++) {
            fixture f = setup(context, dtype, N, N, E);
            bool add = kinds[kind] == MH_MASK_ADD;
            test_tensor mask = test_tensor_dense(add ? MH_F32 : MH_BOOL, 1, (size_t[]){N});
            for (size_t j = 0; j < N; j++) {
                bool flag = is_dead(j) == (kinds[kind] == MH_MASK_DROP);
                ref_set(&mask.view, &j, add ? (is_dead(j) ? -INFINITY : 0) : flag);
            }
            for (size_t j = 0; j < N; j++)
                if (is_dead(j)) {
                    fill_row(&f.k.view, j, poisons[poison]);
                    fill_row(&f.v.view, j, poisons[poison]);
                }
            mh_mask masks = {kinds[kind], mask.view};
            f.options.masks = &masks;
            f.options.mask_count = 1;
            agrees_with_reference(&f);
            for (size_t j = 0; j < N; j++)
                if (is_dead(j))
                    assert_true(row_is(&f.dk.view, j, is_zero) && row_is(&f.dv.view, j, is_zero));
            test_tensor_free(&mask);
            teardown(&f);
        }
}

// The keys from 70 on are dead by length, by the causal rule or by the window.
static void dead_by_interval(mh_context *context, mh_dtype dtype)
{
    for (int way = 0; way < 3; way++) {
        fixture f = setup(context, dtype, N, N, E);
        int64_t length = 70;
        if (way == 0)
            f.options.key_lengths = &length;
        f.options.causal = way == 1 ? MH_CAUSAL_OFFSET : MH_CAUSAL_NONE;
        f.options.offset = way > 0 ? 70 - N : 0; // the last query stands at key 69
        f.options.window_right = way == 2 ? 0 : -1;
        for (size_t j = 70; j < N; j++) {
            fill_row(&f.k.view, j, NAN);
            fill_row(&f.v.view, j, INFINITY);
        }
        agrees_with_reference(&f);
        rows_are(&f.dk, 70, N, is_zero);
        rows_are(&f.dv, 70, N, is_zero);
        teardown(&f);
    }
}

// The first 40 queries see nothing: whatever their q and dout hold goes nowhere, also if their
// outputs are asked to be NaN, and also if there is a sink.
static void empty_rows(mh_context *context, mh_dtype dtype)
{
    for (int way = 0; way < 3; way++) {
        fixture f = setup(context, dtype, N, N, E);
        float sink = 0.5f, dsink = 0;
        mh_tensor dsinks = mh_tensor_1d(&dsink, MH_F32, 1);
        f.options.causal = MH_CAUSAL_OFFSET;
        f.options.offset = -40;
        if (way == 1)
            f.options.empty_row = MH_EMPTY_ROW_NAN;
        if (way == 2) {
            f.options.sinks = &sink;
            f.gradients.dsinks = &dsinks;
        }
        for (size_t i = 0; i < 40; i++) {
            fill_row(&f.q.view, i, i % 2 ? NAN : INFINITY);
            fill_row(&f.dout.view, i, i % 3 ? NAN : -INFINITY);
        }
        agrees_with_reference(&f);
        rows_are(&f.dq, 0, 40, is_zero);
        rows_are(&f.dq, 40, N, is_finite);
        rows_are(&f.dk, 0, N, is_finite);
        rows_are(&f.dv, 0, N, is_finite);
        assert_true(isfinite(dsink));
        teardown(&f);
    }
}

// Under the causal rule keys after `at` do not meet query `at`: its NaN stays away from them.
static void masked_pairs(mh_context *context, mh_dtype dtype)
{
    static const size_t places[] = {5, 63, 64, 100};
    for (int p = 0; p < 4; p++)
        for (int input = 0; input < 2; input++) {
            size_t at = places[p];
            fixture f = setup(context, dtype, N, N, E);
            f.options.causal = MH_CAUSAL;
            fill_row(input ? &f.dout.view : &f.q.view, at, NAN);
            run(&f);
            for (size_t i = 0; i < N; i++)
                assert_true(row_is(&f.dq.view, i, i == at ? is_nan : is_finite));
            rows_are(&f.dk, 0, at + 1, is_nan);
            rows_are(&f.dv, 0, at + 1, is_nan);
            rows_are(&f.dk, at + 1, N, is_finite);
            rows_are(&f.dv, at + 1, N, is_finite);
            teardown(&f);
        }
}

// NaN in key or value `at`: the queries before it do not see it, all others have it in every
// weight's gradient and hand it on to every key they see.
static void live_nan(mh_context *context, mh_dtype dtype)
{
    static const size_t places[] = {0, 63, 64, 129};
    for (int p = 0; p < 4; p++)
        for (int input = 0; input < 2; input++) {
            size_t at = places[p];
            fixture f = setup(context, dtype, N, N, E);
            f.options.causal = MH_CAUSAL;
            ref_set(input ? &f.v.view : &f.k.view, (size_t[]){0, 0, at, 3}, NAN);
            run(&f);
            rows_are(&f.dq, 0, at, is_finite);
            rows_are(&f.dq, at, N, is_nan);
            rows_are(&f.dk, 0, N, is_nan);
            rows_are(&f.dv, 0, N, input ? is_finite : is_nan); // dv does not depend on v
            teardown(&f);
        }
}

// ---- sizes 0 and 1, large numbers
// -----------------------------------------------------------------

static void small_sizes(mh_context *context, mh_dtype dtype)
{
    static const size_t sizes[][3] = {{0, 5, 4}, {5, 0, 4}, {0, 0, 3}, {5, 1, 4},
                                      {1, 1, 1}, {7, 3, 1}, {1, N, 1}, {N, 1, 2}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        fixture f = setup(context, dtype, sizes[n][0], sizes[n][1], sizes[n][2]);
        agrees_with_reference(&f);
        if (sizes[n][0] == 0 || sizes[n][1] == 0) {
            rows_are(&f.dq, 0, sizes[n][0], is_zero);
            rows_are(&f.dk, 0, sizes[n][1], is_zero);
            rows_are(&f.dv, 0, sizes[n][1], is_zero);
        }
        teardown(&f);
    }
}

static void empty_batch(mh_context *context, mh_dtype dtype)
{
    mh_attention_options options = mh_attention_options_default();
    mh_attention_gradients gradients = mh_attention_gradients_default();
    mh_tensor nothing = mh_tensor_4d(NULL, dtype, 0, 2, 3, 4);
    mh_tensor no_lse = mh_tensor_3d(NULL, MH_F32, 0, 2, 3);
    options.lse = &no_lse;
    gradients.dq = gradients.dk = gradients.dv = &nothing;
    test_ok(context, mh_attention_backward(context, &options, &nothing, &nothing, &nothing,
                                           &nothing, &nothing, &gradients));
}

// Scores and biases of 1e30 are numbers: one key takes all, the others' gradients are 0, not NaN.
static void huge_scores(mh_context *context, mh_dtype dtype)
{
    if (dtype == MH_F16)
        return; // ends at 65504
    fixture f = setup(context, dtype, 3, N, 1);
    f.options.scale = 1;
    test_fill_constant(&f.q.view, 1e15);
    for (size_t j = 0; j < N; j++)
        ref_set(&f.k.view, (size_t[]){0, 0, j, 0}, 1e15 * (j == 70 ? 2 : (double)j / N - 0.5));
    run(&f);
    rows_are(&f.dv, 0, 70, is_zero);
    rows_are(&f.dv, 70, 71, is_finite);
    rows_are(&f.dv, 71, N, is_zero);
    rows_are(&f.dq, 0, 3, is_finite);
    rows_are(&f.dk, 0, N, is_finite);
    assert_false(row_is(&f.dv.view, 70, is_zero));
    teardown(&f);
}

static void saturated_softcap(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, N, N, E);
    f.options.softcap = 0.5f;
    f.options.scale = 100; // tanh is 1 to the last bit almost everywhere
    agrees_with_reference(&f);
    f.options.softcap = 1e30f; // and here it is no cap at all
    f.options.scale = 0.3f;
    agrees_with_reference(&f);
    teardown(&f);
}

// ---- refusals
// -------------------------------------------------------------------------------------

typedef struct call {
    fixture f;
    float bias[N], flags[N], sink;
    mh_mask masks[2]; // additive, keep
    test_tensor dmask, dsinks;
    const mh_tensor *dmasks[2];
} call;

static void call_create(call *c, mh_context *context)
{
    memset(c, 0, sizeof *c);
    c->f = setup(context, MH_F32, 5, N, E);
    connect(&c->f);
    c->masks[0] = (mh_mask){MH_MASK_ADD, mh_tensor_1d(c->bias, MH_F32, N)};
    c->masks[1] = (mh_mask){MH_MASK_DROP, mh_tensor_1d(c->flags, MH_BOOL, N)};
    c->f.options.masks = c->masks;
    c->f.options.mask_count = 2;
    c->f.options.sinks = &c->sink;
    c->dmask = test_tensor_dense(MH_F32, 1, (size_t[]){N});
    c->dsinks = test_tensor_dense(MH_F32, 1, (size_t[]){1});
    c->dmasks[0] = &c->dmask.view;
    c->f.gradients.dmasks = c->dmasks;
    c->f.gradients.dsinks = &c->dsinks.view;
    test_fill_constant(&c->f.out.view, 0);
    test_fill_constant(&c->f.lse.view, 0);
}

static void call_free(call *c)
{
    teardown(&c->f);
    test_tensor_free(&c->dmask);
    test_tensor_free(&c->dsinks);
}

static void expect(call *c, mh_status status, const char *word)
{
    size_t bytes = 0;
    fixture *f = &c->f;
    test_refused(f->context, backward(f), status, word);
    const test_tensor *outputs[] = {&f->dq, &f->dk, &f->dv, &c->dmask, &c->dsinks};
    for (size_t i = 0; i < 5; i++)
        if (!test_untouched(outputs[i]))
            fail_msg("refused because of %s, but gradient %zu was written", word, i);
    assert_int_equal(mh_attention_backward_workspace(f->context, &f->options, &f->q.view,
                                                     &f->k.view, &f->v.view, &f->out.view,
                                                     &f->dout.view, &f->gradients, &bytes),
                     status);
}

static mh_tensor *view_named(call *c, const char *name)
{
    const struct {
        const char *name;
        mh_tensor *view;
    } all[] = {{"q", &c->f.q.view},       {"out", &c->f.out.view},    {"lse", &c->f.lse.view},
               {"dout", &c->f.dout.view}, {"dq", &c->f.dq.view},      {"dk", &c->f.dk.view},
               {"dv", &c->f.dv.view},     {"dmasks", &c->dmask.view}, {"dsinks", &c->dsinks.view}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].view;
    return NULL;
}

// Each tensor that backward adds to forward's: a dimension one too small, another rank, a dtype
// that it cannot have, no data.
static void wrong_tensors(void **state)
{
    static const char *const names[] = {"lse", "dout", "dq", "dk", "dv", "dmasks", "dsinks"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int rank = i == 0 ? 3 : i < 5 ? 4 : 1;
        for (int d = 0; d < rank; d++) {
            call c;
            call_create(&c, *state);
            view_named(&c, names[i])->shape[d] -= 1;
            expect(&c, MH_ERROR_ARGUMENT, names[i]);
            call_free(&c);
        }
        static const int ranks[] = {-1, 0, 2, 5, 9};
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
            call c;
            call_create(&c, *state);
            view_named(&c, names[i])->rank = ranks[r];
            test_refused(c.f.context, backward(&c.f), MH_ERROR_ARGUMENT, names[i]);
            call_free(&c);
        }
        static const mh_dtype dtypes[] = {MH_F64, MH_I32, MH_BOOL, MH_BF16, (mh_dtype)99};
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            bool any_float = i >= 1 && i <= 4;
            call c;
            call_create(&c, *state);
            view_named(&c, names[i])->dtype = dtypes[d];
            if (dtypes[d] != MH_BF16 || !any_float)
                test_refused(c.f.context, backward(&c.f), MH_ERROR_UNSUPPORTED, names[i]);
            call_free(&c);
        }
        call c;
        call_create(&c, *state);
        view_named(&c, names[i])->data = NULL;
        test_refused(c.f.context, backward(&c.f), MH_ERROR_ARGUMENT, names[i]);
        call_free(&c);
    }
}

typedef struct spoiled {
    const char *word;
    void (*spoil)(call *c);
} spoiled;

static void no_lse(call *c) { c->f.options.lse = NULL; }
static void options_size(call *c) { c->f.options.struct_size = 0; }
static void gradients_size(call *c) { c->f.gradients.struct_size = 0; }
static void gradients_large(call *c) { c->f.gradients.struct_size += 1; }
static void keep_mask(call *c)
{
    c->masks[1].kind = MH_MASK_KEEP;
    c->dmasks[1] = &c->dmask.view;
}
static void drop_mask(call *c) { c->dmasks[1] = &c->dmask.view; }
static void dropout_one(call *c) { c->f.options.dropout = 1; }
static void dropout_negative(call *c) { c->f.options.dropout = -0.1f; }
static void dropout_nan(call *c) { c->f.options.dropout = NAN; }
static void causal_unaligned(call *c) { c->f.options.causal = MH_CAUSAL; }

static void wrong_options(void **state)
{
    static const spoiled all[] = {
        {"lse", no_lse},
        {"struct_size", options_size},
        {"struct_size", gradients_size},
        {"struct_size", gradients_large},
        {"dmasks", keep_mask},
        {"dmasks", drop_mask},
        {"dropout", dropout_one},
        {"dropout", dropout_negative},
        {"dropout", dropout_nan},
        {"causal", causal_unaligned},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        call c;
        call_create(&c, *state);
        all[i].spoil(&c);
        expect(&c, MH_ERROR_ARGUMENT, all[i].word);
        call_free(&c);
    }
}

static void missing_arguments(void **state)
{
    call c;
    call_create(&c, *state);
    fixture *f = &c.f;
    const mh_tensor *q = &f->q.view, *k = &f->k.view, *v = &f->v.view, *out = &f->out.view;
    const mh_tensor *dout = &f->dout.view;
    test_refused(*state, mh_attention_backward(*state, NULL, q, k, v, out, dout, &f->gradients),
                 MH_ERROR_ARGUMENT, "lse");
    test_refused(*state,
                 mh_attention_backward(*state, &f->options, NULL, k, v, out, dout, &f->gradients),
                 MH_ERROR_ARGUMENT, "q");
    test_refused(*state,
                 mh_attention_backward(*state, &f->options, q, k, v, out, NULL, &f->gradients),
                 MH_ERROR_ARGUMENT, "dout");
    test_refused(*state, mh_attention_backward(*state, &f->options, q, k, v, out, dout, NULL),
                 MH_ERROR_ARGUMENT, "gradients");
    unsigned char small[1];
    f->options.workspace = small;
    f->options.workspace_size = sizeof small;
    test_refused(*state, backward(f), MH_ERROR_ARGUMENT, "workspace");
    assert_true(test_untouched(&f->dq) && test_untouched(&f->dk) && test_untouched(&f->dv));
    f->options.workspace = NULL; // after all those refusals the same context still works
    test_ok(*state, backward(f));
    call_free(&c);
}

// ---- the list ---------------------------------------------------------------------------------

// cmocka hands a test its initial state: the check to run everywhere.
static void run_check(void **state) { everywhere(*(check *)*state); }

static int open_context(void **state)
{
    *state = test_context(NULL, 1);
    return 0;
}

static int close_context(void **state)
{
    mh_context_free(*state);
    return 0;
}

int main(void)
{
    static check checks[] = {dead_keys,   dead_by_interval, empty_rows,  masked_pairs,     live_nan,
                             small_sizes, empty_batch,      huge_scores, saturated_softcap};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases),
        cmocka_unit_test(error_ratio),
        {"dead_keys", run_check, NULL, NULL, &checks[0]},
        {"dead_by_interval", run_check, NULL, NULL, &checks[1]},
        {"empty_rows", run_check, NULL, NULL, &checks[2]},
        {"masked_pairs", run_check, NULL, NULL, &checks[3]},
        {"live_nan", run_check, NULL, NULL, &checks[4]},
        {"small_sizes", run_check, NULL, NULL, &checks[5]},
        {"empty_batch", run_check, NULL, NULL, &checks[6]},
        {"huge_scores", run_check, NULL, NULL, &checks[7]},
        {"saturated_softcap", run_check, NULL, NULL, &checks[8]},
        cmocka_unit_test_setup_teardown(wrong_tensors, open_context, close_context),
        cmocka_unit_test_setup_teardown(wrong_options, open_context, close_context),
        cmocka_unit_test_setup_teardown(missing_arguments, open_context, close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
