// SPDX-License-Identifier: MIT
// The backward pass on nasty numbers and senseless calls: nothing of dead keys and empty rows
// leaks, NaN in live input comes out, sizes 0 and 1 work, every refusal names what it refuses and
// writes nothing.
#include "grad_fixture.h"
#include "ref/ref_tensor.h"

#include <math.h>

// ---- numbers that must not leak -----------------------------------------------------------------

// Most checks use T = S = 130: two tiles of 64 and a rest. They run at every level and dtype,
// without and with a softcap, whose slope is one more factor that NaN could come in by.
enum { N = 130, E = 9 };

typedef void (*check)(mh_context *context, mh_dtype dtype);

static float softcap; // of the check at hand

static grad_fixture setup(mh_context *context, mh_dtype dtype, size_t T, size_t S, size_t width)
{
    grad_fixture f = grad_setup(context, dtype, T, S, width);
    f.options.softcap = softcap;
    return f;
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
            grad_fixture f = setup(context, dtype, N, N, E);
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
            mh_mask masks = mh_mask_make(kinds[kind], mask.view);
            f.options.masks = &masks;
            f.options.mask_count = 1;
            grad_agrees(&f);
            for (size_t j = 0; j < N; j++)
                if (is_dead(j))
                    assert_true(row_is(&f.dk.view, j, is_zero) && row_is(&f.dv.view, j, is_zero));
            test_tensor_free(&mask);
            grad_teardown(&f);
        }
}

// Every query sees the same keys and none behind them, so that nothing in front has to be masked:
// products that take keys in steps of 32 must not meet the NaN in the rest of a step.
static void dead_tail(mh_context *context, mh_dtype dtype)
{
    static const size_t lives[] = {1, 31, 32, 33, 48, 63, 64, 65, 97, 120, 129};
    for (size_t n = 0; n < sizeof lives / sizeof *lives; n++) {
        grad_fixture f = setup(context, dtype, N, N, E);
        test_tensor mask = test_tensor_dense(MH_BOOL, 1, (size_t[]){N});
        for (size_t j = 0; j < N; j++)
            ref_set(&mask.view, &j, j >= lives[n]);
        for (size_t j = lives[n]; j < N; j++) {
            fill_row(&f.k.view, j, NAN);
            fill_row(&f.v.view, j, INFINITY);
        }
        mh_mask masks = mh_mask_make(MH_MASK_DROP, mask.view);
        f.options.masks = &masks;
        f.options.mask_count = 1;
        grad_agrees(&f);
        rows_are(&f.out, 0, N, is_finite);
        rows_are(&f.dq, 0, N, is_finite);
        rows_are(&f.dk, lives[n], N, is_zero);
        rows_are(&f.dv, lives[n], N, is_zero);
        test_tensor_free(&mask);
        grad_teardown(&f);
    }
}

// Keys 3, 40 and 64 belong to a document that no query is of.
static void dead_by_document(mh_context *context, mh_dtype dtype)
{
    grad_fixture f = setup(context, dtype, N, N, E);
    test_tensor ids[2];
    for (int i = 0; i < 2; i++) {
        ids[i] = test_tensor_dense(MH_I32, 2, (size_t[]){1, N});
        for (size_t j = 0; j < N; j++)
            ref_set(&ids[i].view, (size_t[]){0, j}, i && (j == 3 || j == 40 || j == 64) ? 9 : 1);
    }
    f.options.query_documents = &ids[0].view;
    f.options.key_documents = &ids[1].view;
    for (size_t j = 3; j < N; j = j == 3 ? 40 : j == 40 ? 64 : N) {
        fill_row(&f.k.view, j, j == 40 ? INFINITY : NAN);
        fill_row(&f.v.view, j, NAN);
    }
    grad_agrees(&f);
    rows_are(&f.dq, 0, N, is_finite);
    rows_are(&f.dk, 0, N, is_finite);
    assert_true(row_is(&f.dk.view, 3, is_zero) && row_is(&f.dk.view, 40, is_zero) &&
                row_is(&f.dk.view, 64, is_zero));
    test_tensor_free(&ids[0]);
    test_tensor_free(&ids[1]);
    grad_teardown(&f);
}

// A window's left side leaves dead keys in front of live ones.
static void dead_by_window(mh_context *context, mh_dtype dtype)
{
    grad_fixture f = setup(context, dtype, N, N, E);
    f.options.window_left = 20;
    f.options.offset = 30; // key 9 is dead for every query, key 10 for all but the first
    for (size_t j = 0; j < 10; j++) {
        fill_row(&f.k.view, j, j % 2 ? NAN : -INFINITY);
        fill_row(&f.v.view, j, INFINITY);
    }
    grad_agrees(&f);
    rows_are(&f.dq, 0, N, is_finite);
    rows_are(&f.dk, 0, 10, is_zero);
    rows_are(&f.dv, 0, 10, is_zero);
    grad_teardown(&f);
}

// A packed batch: masked keys of two sequences, and one in between that has keys but no query.
static void dead_packed(mh_context *context, mh_dtype dtype)
{
    enum { SEQUENCES = 3 };
    static const int64_t query_starts[SEQUENCES + 1] = {0, 50, 50, N};
    static const int64_t key_starts[SEQUENCES + 1] = {0, 40, 45, N};
    grad_fixture f = setup(context, dtype, N, N, E);
    test_tensor mask = test_tensor_dense(MH_BOOL, 2, (size_t[]){1, 85});
    for (size_t j = 0; j < 85; j++)
        ref_set(&mask.view, (size_t[]){0, j}, j % 40 != 2);
    mh_mask masks = mh_mask_make(MH_MASK_KEEP, mask.view);
    f.options.masks = &masks;
    f.options.mask_count = 1;
    f.options.sequences = SEQUENCES;
    f.options.query_starts = query_starts;
    f.options.key_starts = key_starts;
    static const size_t dead[] = {2, 40, 41, 42, 43, 44, 47, 87, 127};
    for (size_t n = 0; n < sizeof dead / sizeof *dead; n++) {
        fill_row(&f.k.view, dead[n], NAN);
        fill_row(&f.v.view, dead[n], INFINITY);
    }
    grad_agrees(&f);
    rows_are(&f.dq, 0, N, is_finite);
    rows_are(&f.dk, 0, N, is_finite);
    rows_are(&f.dv, 0, N, is_finite);
    test_tensor_free(&mask);
    grad_teardown(&f);
}

// Sequences of a few keys, which may take other code than long ones; the gradient of the mask too.
static void dead_short(mh_context *context, mh_dtype dtype)
{
    static const size_t keys[] = {2, 7, 15, 16, 17};
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) {
        grad_fixture f = setup(context, dtype, 5, keys[n], E);
        test_tensor mask = test_tensor_dense(MH_F32, 1, &keys[n]);
        test_tensor dmask = test_tensor_dense(MH_F32, 1, &keys[n]);
        for (size_t j = 0; j < keys[n]; j++)
            ref_set(&mask.view, &j, j == 0 ? -INFINITY : 0.25 * (double)j);
        fill_row(&f.k.view, 0, NAN);
        fill_row(&f.v.view, 0, NAN);
        mh_mask masks = mh_mask_make(MH_MASK_ADD, mask.view);
        mh_tensor *dmasks = &dmask.view;
        f.options.masks = &masks;
        f.options.mask_count = 1;
        f.options.alibi = n % 2;
        f.gradients.dmasks = &dmasks;
        grad_agrees(&f);
        rows_are(&f.dq, 0, 5, is_finite);
        rows_are(&f.dk, 0, 1, is_zero);
        assert_true(ref_get(&dmask.view, (size_t[]){0}) == 0);
        test_tensor_free(&mask);
        test_tensor_free(&dmask);
        grad_teardown(&f);
    }
}

// The keys from 70 on are dead by length, by the causal rule or by the window.
static void dead_by_interval(mh_context *context, mh_dtype dtype)
{
    for (int way = 0; way < 3; way++) {
        grad_fixture f = setup(context, dtype, N, N, E);
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
        grad_agrees(&f);
        rows_are(&f.dk, 70, N, is_zero);
        rows_are(&f.dv, 70, N, is_zero);
        grad_teardown(&f);
    }
}

// The first 40 queries see nothing: whatever their q and dout hold goes nowhere, also if their
// outputs are asked to be NaN, and also if there is a sink.
static void empty_rows(mh_context *context, mh_dtype dtype)
{
    for (int way = 0; way < 3; way++) {
        grad_fixture f = setup(context, dtype, N, N, E);
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
        grad_agrees(&f);
        rows_are(&f.dq, 0, 40, is_zero);
        rows_are(&f.dq, 40, N, is_finite);
        rows_are(&f.dk, 0, N, is_finite);
        rows_are(&f.dv, 0, N, is_finite);
        assert_true(isfinite(dsink));
        grad_teardown(&f);
    }
}

// Under the causal rule keys after `at` do not meet query `at`: its NaN stays away from them.
static void masked_pairs(mh_context *context, mh_dtype dtype)
{
    static const size_t places[] = {5, 63, 64, 100};
    for (int p = 0; p < 4; p++)
        for (int input = 0; input < 2; input++) {
            size_t at = places[p];
            grad_fixture f = setup(context, dtype, N, N, E);
            f.options.causal = MH_CAUSAL;
            fill_row(input ? &f.dout.view : &f.q.view, at, NAN);
            grad_run(&f);
            for (size_t i = 0; i < N; i++)
                assert_true(row_is(&f.dq.view, i, i == at ? is_nan : is_finite));
            rows_are(&f.dk, 0, at + 1, is_nan);
            rows_are(&f.dv, 0, at + 1, is_nan);
            rows_are(&f.dk, at + 1, N, is_finite);
            rows_are(&f.dv, at + 1, N, is_finite);
            grad_teardown(&f);
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
            grad_fixture f = setup(context, dtype, N, N, E);
            f.options.causal = MH_CAUSAL;
            ref_set(input ? &f.v.view : &f.k.view, (size_t[]){0, 0, at, 3}, NAN);
            grad_run(&f);
            rows_are(&f.dq, 0, at, is_finite);
            rows_are(&f.dq, at, N, is_nan);
            rows_are(&f.dk, 0, N, is_nan);
            rows_are(&f.dv, 0, N, input ? is_finite : is_nan); // dv does not depend on v
            grad_teardown(&f);
        }
}

// ---- sizes 0 and 1, large numbers ---------------------------------------------------------------

static void small_sizes(mh_context *context, mh_dtype dtype)
{
    static const size_t sizes[][3] = {{0, 5, 4}, {5, 0, 4}, {0, 0, 3}, {5, 1, 4},
                                      {1, 1, 1}, {7, 3, 1}, {1, N, 1}, {N, 1, 2}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        grad_fixture f = setup(context, dtype, sizes[n][0], sizes[n][1], sizes[n][2]);
        grad_agrees(&f);
        if (sizes[n][0] == 0 || sizes[n][1] == 0) {
            rows_are(&f.dq, 0, sizes[n][0], is_zero);
            rows_are(&f.dk, 0, sizes[n][1], is_zero);
            rows_are(&f.dv, 0, sizes[n][1], is_zero);
        }
        grad_teardown(&f);
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

// Keys that no head of a group looks at have gradients of 0.
static void no_heads(mh_context *context, mh_dtype dtype)
{
    static const size_t lengths[][2] = {{2, 5}, {N, N}};
    for (size_t n = 0; n < 2; n++) {
        const size_t T = lengths[n][0], S = lengths[n][1];
        grad_fixture f = setup(context, dtype, T, S, E);
        mh_tensor none = mh_tensor_4d(NULL, dtype, 1, 0, T, E);
        mh_tensor no_lse = mh_tensor_3d(NULL, MH_F32, 1, 0, T);
        grad_connect(&f);
        f.options.lse = &no_lse;
        f.gradients.dq = &none;
        test_ok(context, mh_attention_backward(context, &f.options, &none, &f.k.view, &f.v.view,
                                               &none, &none, &f.gradients));
        rows_are(&f.dk, 0, S, is_zero);
        rows_are(&f.dv, 0, S, is_zero);
        grad_teardown(&f);
    }
}

// Scores and biases of 1e30 are numbers: one key takes all, the others' gradients are 0, not NaN. A
// softcap makes them equal, and its slope is 0.
static void huge_scores(mh_context *context, mh_dtype dtype)
{
    if (dtype == MH_F16)
        return; // ends at 65504
    grad_fixture f = setup(context, dtype, 3, N, 1);
    f.options.scale = 1;
    test_fill_constant(&f.q.view, 1e15);
    for (size_t j = 0; j < N; j++)
        ref_set(&f.k.view, (size_t[]){0, 0, j, 0}, 1e15 * (j == 70 ? 2 : (double)j / N - 0.5));
    grad_run(&f);
    rows_are(&f.dv, 0, 70, softcap > 0 ? is_finite : is_zero);
    rows_are(&f.dv, 70, 71, is_finite);
    rows_are(&f.dv, 71, N, softcap > 0 ? is_finite : is_zero);
    rows_are(&f.dq, 0, 3, softcap > 0 ? is_zero : is_finite);
    rows_are(&f.dk, 0, N, is_finite);
    assert_false(row_is(&f.dv.view, 70, is_zero));
    grad_teardown(&f);
}

static void saturated_softcap(mh_context *context, mh_dtype dtype)
{
    grad_fixture f = setup(context, dtype, N, N, E);
    f.options.softcap = 0.5f;
    f.options.scale = 100; // tanh is 1 to the last bit almost everywhere
    grad_agrees(&f);
    f.options.softcap = 1e30f; // and here it is no cap at all
    f.options.scale = 0.3f;
    grad_agrees(&f);
    grad_teardown(&f);
}

// ---- refusals -----------------------------------------------------------------------------------

typedef struct call {
    grad_fixture f;
    float bias[N], flags[N], sink;
    mh_mask masks[2]; // additive, keep
    test_tensor dmask, dsinks;
    mh_tensor *dmasks[2];
} call;

static void call_create(call *c, mh_context *context)
{
    memset(c, 0, sizeof *c);
    c->f = grad_setup(context, MH_F32, 5, N, E);
    grad_connect(&c->f);
    c->masks[0] = mh_mask_make(MH_MASK_ADD, mh_tensor_1d(c->bias, MH_F32, N));
    c->masks[1] = mh_mask_make(MH_MASK_DROP, mh_tensor_1d(c->flags, MH_BOOL, N));
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
    grad_teardown(&c->f);
    test_tensor_free(&c->dmask);
    test_tensor_free(&c->dsinks);
}

static void expect(call *c, mh_status status, const char *word)
{
    size_t bytes = 0;
    grad_fixture *f = &c->f;
    test_refused(f->context, grad_backward(f), status, word);
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
            test_refused(c.f.context, grad_backward(&c.f), MH_ERROR_ARGUMENT, names[i]);
            call_free(&c);
        }
        static const mh_dtype dtypes[] = {MH_F64, MH_I32, MH_BOOL, MH_BF16, (mh_dtype)99};
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            bool any_float = i >= 1 && i <= 4;
            call c;
            call_create(&c, *state);
            view_named(&c, names[i])->dtype = dtypes[d];
            if (dtypes[d] != MH_BF16 || !any_float)
                test_refused(c.f.context, grad_backward(&c.f), MH_ERROR_UNSUPPORTED, names[i]);
            call_free(&c);
        }
        call c;
        call_create(&c, *state);
        view_named(&c, names[i])->data = NULL;
        test_refused(c.f.context, grad_backward(&c.f), MH_ERROR_ARGUMENT, names[i]);
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
    grad_fixture *f = &c.f;
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
    test_refused(*state, grad_backward(f), MH_ERROR_ARGUMENT, "workspace");
    assert_true(test_untouched(&f->dq) && test_untouched(&f->dk) && test_untouched(&f->dv));
    f->options.workspace = NULL; // after all those refusals the same context still works
    test_ok(*state, grad_backward(f));
    call_free(&c);
}

// ---- the list -----------------------------------------------------------------------------------

// cmocka hands a test its initial state: the check to run everywhere.
static void run_check(void **state)
{
    static const float softcaps[] = {0, 30, 1.5f};
    for (size_t i = 0; i < sizeof softcaps / sizeof *softcaps; i++) {
        softcap = softcaps[i];
        test_everywhere(1, *(check *)*state);
    }
}

int main(void)
{
    static check checks[] = {dead_keys,         dead_by_interval, empty_rows,  masked_pairs,
                             live_nan,          small_sizes,      empty_batch, huge_scores,
                             saturated_softcap, dead_tail,        no_heads,    dead_by_document,
                             dead_by_window,    dead_packed,      dead_short};
    const struct CMUnitTest tests[] = {
        {"dead_keys", run_check, NULL, NULL, &checks[0]},
        {"dead_by_interval", run_check, NULL, NULL, &checks[1]},
        {"empty_rows", run_check, NULL, NULL, &checks[2]},
        {"masked_pairs", run_check, NULL, NULL, &checks[3]},
        {"live_nan", run_check, NULL, NULL, &checks[4]},
        {"small_sizes", run_check, NULL, NULL, &checks[5]},
        {"empty_batch", run_check, NULL, NULL, &checks[6]},
        {"huge_scores", run_check, NULL, NULL, &checks[7]},
        {"saturated_softcap", run_check, NULL, NULL, &checks[8]},
        {"dead_tail", run_check, NULL, NULL, &checks[9]},
        {"no_heads", run_check, NULL, NULL, &checks[10]},
        {"dead_by_document", run_check, NULL, NULL, &checks[11]},
        {"dead_by_window", run_check, NULL, NULL, &checks[12]},
        {"dead_packed", run_check, NULL, NULL, &checks[13]},
        {"dead_short", run_check, NULL, NULL, &checks[14]},
        cmocka_unit_test_setup_teardown(wrong_tensors, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(wrong_options, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(missing_arguments, test_open_context, test_close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
