// SPDX-License-Identifier: MIT
// Numbers that attention must not stumble over: NaN and infinities in dead and in live places,
// denormals, huge scores, rows without keys, sizes 0 and 1. Every check runs at every
// instruction-set level and for each dtype that can hold the numbers.
//
// Most cases use one head with T = S = 130 keys: two tiles of 64 and a rest, so that a dead key
// can be in the first, in a middle and in the last tile.
#include "ref/ref_attention.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <float.h>

enum { N = 130, E = 9 }; // T = S, and the width of a head

typedef struct fixture {
    mh_context *context;
    mh_attention_options options;
    test_tensor q, k, v, out, lse, weights;
} fixture;

// T queries and S keys of one head, filled with ordinary numbers; lse and weights asked for.
static fixture setup(mh_context *context, mh_dtype dtype, size_t T, size_t S, size_t width)
{
    test_rng rng = {7};
    fixture f = {.context = context, .options = mh_attention_options_default()};
    f.q = test_tensor_dense(dtype, 4, (size_t[]){1, 1, T, width});
    f.k = test_tensor_dense(dtype, 4, (size_t[]){1, 1, S, width});
    f.v = test_tensor_dense(dtype, 4, (size_t[]){1, 1, S, width});
    f.out = test_tensor_dense(dtype, 4, (size_t[]){1, 1, T, width});
    f.lse = test_tensor_dense(MH_F32, 3, (size_t[]){1, 1, T});
    f.weights = test_tensor_dense(MH_F32, 4, (size_t[]){1, 1, T, S});
    test_fill_normal(&rng, &f.q.view, 1);
    test_fill_normal(&rng, &f.k.view, 1);
    test_fill_normal(&rng, &f.v.view, 1);
    return f;
}

static void teardown(fixture *f)
{
    test_tensor *all[] = {&f->q, &f->k, &f->v, &f->out, &f->lse, &f->weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
}

static void run(fixture *f)
{
    f->options.lse = &f->lse.view;
    f->options.weights = &f->weights.view;
    test_ok(f->context, mh_attention_forward(f->context, &f->options, &f->q.view, &f->k.view,
                                             &f->v.view, &f->out.view));
}

static double out_at(const fixture *f, size_t i, size_t e)
{
    return ref_get(&f->out.view, (size_t[]){0, 0, i, e});
}

static double lse_at(const fixture *f, size_t i)
{
    return ref_get(&f->lse.view, (size_t[]){0, 0, i});
}

static double weight_at(const fixture *f, size_t i, size_t j)
{
    return ref_get(&f->weights.view, (size_t[]){0, 0, i, j});
}

static void poison_row(const mh_tensor *t, size_t row, double value)
{
    for (size_t e = 0; e < t->shape[3]; e++)
        ref_set(t, (size_t[]){0, 0, row, e}, value);
}

static void near(double found, double expected, double bound)
{
    if (!(fabs(found - expected) <= bound) && found != expected)
        fail_msg("found %.9g, expected %.9g within %.3g", found, expected, bound);
}

static void compare(const fixture *f, const char *what, size_t i, size_t column, double found,
                    double expected, double bound, mh_dtype dtype)
{
    if (test_error_ratio(found, expected, bound, dtype) > 1)
        fail_msg("%s %s: %s (%zu, %zu): found %.9g, expected %.9g +- %.3g",
                 mh_context_isa(f->context), mh_dtype_name(f->q.view.dtype), what, i, column, found,
                 expected, bound);
}

// Everything the call wrote, against the reference.
static void agrees_with_reference(fixture *f)
{
    run(f);
    ref_attention ref;
    ref_attention_forward(&f->options, &f->q.view, &f->k.view, &f->v.view, true, &ref);
    for (size_t i = 0; i < ref.T; i++) {
        compare(f, "lse", i, 0, lse_at(f, i), ref.lse[i], ref.lse_error[i], MH_F32);
        for (size_t e = 0; e < ref.Ev; e++)
            compare(f, "out", i, e, out_at(f, i, e), ref.out[i * ref.Ev + e],
                    ref.out_error[i * ref.Ev + e], f->out.view.dtype);
        for (size_t j = 0; j < ref.S; j++)
            compare(f, "weights", i, j, weight_at(f, i, j), ref.weights[0][i * ref.S + j],
                    ref.weights_error[0][i * ref.S + j], MH_F32);
    }
    ref_attention_free(&ref);
}

// Runs a check at every level and for each dtype.
typedef void (*check)(mh_context *context, mh_dtype dtype);

// ---- dead keys cannot leak ----------------------------------------------------------------------

// Keys 0..2, 64..66 and 127..129 are dead for every query, by each kind of mask in turn.
static bool is_dead(size_t j) { return j < 3 || (j >= 64 && j < 67) || j >= 127; }

static void poison_dead(fixture *f, double value)
{
    for (size_t j = 0; j < N; j++)
        if (is_dead(j)) {
            poison_row(&f->k.view, j, value);
            poison_row(&f->v.view, j, value);
        }
}

static void dead_keys_by_mask(mh_context *context, mh_dtype dtype)
{
    static const double poisons[] = {NAN, INFINITY, -INFINITY};
    static const mh_mask_kind kinds[] = {MH_MASK_KEEP, MH_MASK_DROP, MH_MASK_ADD};
    for (int kind = 0; kind < 3; kind++)
        for (int poison = 0; poison < 3; poison++) {
            fixture f = setup(context, dtype, N, N, E);
            mh_dtype mask_dtype = kinds[kind] == MH_MASK_ADD ? MH_F32 : MH_BOOL;
            test_tensor mask = test_tensor_dense(mask_dtype, 1, (size_t[]){N});
            for (size_t j = 0; j < N; j++)
                ref_set(&mask.view, &j,
                        kinds[kind] == MH_MASK_ADD ? (is_dead(j) ? -INFINITY : 0)
                                                   : is_dead(j) == (kinds[kind] == MH_MASK_DROP));
            mh_mask masks = mh_mask_make(kinds[kind], mask.view);
            f.options.masks = &masks;
            f.options.mask_count = 1;
            poison_dead(&f, poisons[poison]);
            agrees_with_reference(&f);
            for (size_t i = 0; i < N; i++)
                assert_true(isfinite(out_at(&f, i, 0)));
            test_tensor_free(&mask);
            teardown(&f);
        }
}

static void dead_keys_by_documents(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, N, N, E);
    int32_t queries[N], keys[N];
    for (size_t j = 0; j < N; j++) {
        queries[j] = 5;
        keys[j] = is_dead(j) ? -1 : 5;
    }
    mh_tensor query_ids = mh_tensor_2d(queries, MH_I32, 1, N);
    mh_tensor key_ids = mh_tensor_2d(keys, MH_I32, 1, N);
    f.options.query_documents = &query_ids;
    f.options.key_documents = &key_ids;
    poison_dead(&f, NAN);
    agrees_with_reference(&f);
    teardown(&f);
}

// The last keys are dead by the interval of keys a query may see: lengths, causal rule, window.
static void dead_keys_by_interval(mh_context *context, mh_dtype dtype)
{
    for (int way = 0; way < 4; way++) {
        fixture f = setup(context, dtype, N, N, E);
        int64_t length = 70, prefix = 20;
        if (way == 0)
            f.options.key_lengths = &length;
        if (way == 1 || way == 2) {
            f.options.causal = MH_CAUSAL_OFFSET;
            f.options.offset = 70 - N; // the last query sees keys 0..69
        }
        if (way == 2)
            f.options.prefix_lengths = &prefix;
        if (way == 3) {
            f.options.offset = 69 - (N - 1); // positions up to 69, nothing to the right
            f.options.window_right = 0;
        }
        for (size_t j = 70; j < N; j++) {
            poison_row(&f.k.view, j, NAN);
            poison_row(&f.v.view, j, INFINITY);
        }
        agrees_with_reference(&f);
        for (size_t i = 0; i < N; i++)
            assert_true(isfinite(out_at(&f, i, 0)));
        teardown(&f);
    }
}

// A query whose causal edge is inside a tile must not see the NaN that its neighbour sees.
static void dead_for_some(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, N, N, E);
    f.options.causal = MH_CAUSAL;
    poison_row(&f.v.view, 70, NAN);
    poison_row(&f.k.view, 100, NAN);
    agrees_with_reference(&f);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(isnan(out_at(&f, i, 0)), i >= 70);
    teardown(&f);
}

// ---- NaN and infinities in live places ----------------------------------------------------------

static void live_nan(mh_context *context, mh_dtype dtype)
{
    static const size_t places[] = {0, 63, 64, 129};
    for (int p = 0; p < 4; p++) {
        size_t at = places[p];
        fixture f = setup(context, dtype, N, N, E);
        ref_set(&f.q.view, (size_t[]){0, 0, at, 3}, NAN);
        agrees_with_reference(&f); // that row only
        for (size_t i = 0; i < N; i++)
            assert_int_equal(isnan(out_at(&f, i, 0)), i == at);
        teardown(&f);

        f = setup(context, dtype, N, N, E);
        ref_set(&f.k.view, (size_t[]){0, 0, at, 3}, NAN);
        agrees_with_reference(&f); // every row
        assert_true(isnan(out_at(&f, 5, 0)) && isnan(lse_at(&f, 5)));
        teardown(&f);

        f = setup(context, dtype, N, N, E);
        ref_set(&f.v.view, (size_t[]){0, 0, at, 3}, NAN);
        agrees_with_reference(&f); // that column only
        for (size_t e = 0; e < E; e++)
            assert_int_equal(isnan(out_at(&f, 7, e)), e == 3);
        teardown(&f);
    }
}

// inf in a live v is inf in that column: p is positive.
static void live_infinite_value(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, N, N, E);
    ref_set(&f.v.view, (size_t[]){0, 0, 77, 2}, -INFINITY);
    agrees_with_reference(&f);
    assert_true(out_at(&f, 0, 2) == -INFINITY);
    teardown(&f);
}

// q = 1 everywhere, so that the score of a key has the sign of its elements.
static void infinite_scores(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, 4, N, E);
    test_fill_constant(&f.q.view, 1);
    poison_row(&f.k.view, 80, INFINITY);
    run(&f);
    for (size_t i = 0; i < 4; i++) {
        assert_true(isnan(out_at(&f, i, 0)));
        assert_true(!isfinite(lse_at(&f, i)));
        assert_true(isnan(weight_at(&f, i, 80)));
    }
    poison_row(&f.k.view, 80, -INFINITY); // one of many: its weight is 0, and that is all
    agrees_with_reference(&f);
    assert_true(weight_at(&f, 0, 80) == 0 && isfinite(out_at(&f, 0, 0)));

    test_fill_constant(&f.k.view, -INFINITY); // live, but nothing to divide by: 0 / 0
    run(&f);
    for (size_t i = 0; i < 4; i++) {
        assert_true(isnan(out_at(&f, i, 0)));
        assert_true(!isfinite(lse_at(&f, i)));
    }
    float sink = 1; // now there is: the weights are 0, the sum is exp(1)
    f.options.sinks = &sink;
    agrees_with_reference(&f);
    assert_true(out_at(&f, 0, 0) == 0);
    teardown(&f);
}

static void infinite_bias(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, 3, N, E);
    test_tensor bias = test_tensor_dense(MH_F32, 1, (size_t[]){N});
    mh_mask mask = mh_mask_make(MH_MASK_ADD, bias.view);
    f.options.masks = &mask;
    f.options.mask_count = 1;
    test_fill_constant(&bias.view, 0);
    ref_set(&bias.view, (size_t[]){66}, INFINITY);
    run(&f);
    for (size_t i = 0; i < 3; i++)
        assert_true(isnan(out_at(&f, i, 0)));
    ref_set(&bias.view, (size_t[]){66}, NAN); // NaN is not -inf: the key is live
    run(&f);
    for (size_t i = 0; i < 3; i++)
        assert_true(isnan(out_at(&f, i, 0)));
    test_tensor_free(&bias);
    teardown(&f);
}

// ---- large, small and equal numbers -------------------------------------------------------------

// Adding the same large number to all scores changes nothing but their last bits: -1e9 and
// -FLT_MAX are numbers, not masks.
static void large_bias_is_a_number(mh_context *context, mh_dtype dtype)
{
    static const double values[] = {-1e9, -(double)FLT_MAX, 1e30};
    for (int n = 0; n < 3; n++) {
        fixture f = setup(context, dtype, 5, N, E);
        test_tensor bias = test_tensor_dense(MH_F32, 1, (size_t[]){N});
        test_fill_constant(&bias.view, values[n]);
        mh_mask mask = mh_mask_make(MH_MASK_ADD, bias.view);
        f.options.masks = &mask;
        f.options.mask_count = 1;
        f.options.scale = 0; // the sums are exact: plain means
        run(&f);
        for (size_t e = 0; e < E; e++) {
            double mean = 0;
            for (size_t j = 0; j < N; j++)
                mean += ref_get(&f.v.view, (size_t[]){0, 0, j, e}) / N;
            near(out_at(&f, 2, e), mean, 1e-6 + test_rounding(dtype, mean));
        }
        near(weight_at(&f, 4, 99), 1.0 / N, 1e-8);
        // With one key at 0 the others are out of sight, but still not masked.
        ref_set(&bias.view, (size_t[]){64}, values[n] > 0 ? 2 * values[n] : 0);
        run(&f);
        near(out_at(&f, 1, 0), ref_get(&f.v.view, (size_t[]){0, 0, 64, 0}), 0);
        test_tensor_free(&bias);
        teardown(&f);
    }
}

// Two masks, each at the type's minimum as padding and causal masks often are: still numbers.
static void added_biases_are_a_number(mh_context *context, mh_dtype dtype)
{
    float least = -FLT_MAX;
    mh_mask masks[2] = {mh_mask_make(MH_MASK_ADD, mh_tensor_1d(&least, MH_F32, 1)),
                        mh_mask_make(MH_MASK_ADD, mh_tensor_1d(&least, MH_F32, 1))};
    fixture f = setup(context, dtype, 5, N, E);
    f.options.masks = masks;
    f.options.mask_count = 2;
    run(&f);
    for (size_t i = 0; i < 5; i++) {
        near(weight_at(&f, i, 99), 1.0 / N, 1e-8);
        assert_true(isfinite(out_at(&f, i, 0)));
    }
    teardown(&f);
}

// A score of -1e38 and a mask of -FLT_MAX are numbers, but their sum is -inf. One such key has
// weight 0; a row of them has no softmax, which is not the same as a row without live keys.
static void bias_that_overflows(mh_context *context, mh_dtype dtype)
{
    if (dtype == MH_F16)
        return; // ends at 65504
    fixture f = setup(context, dtype, 4, N, 1);
    test_tensor bias = test_tensor_dense(MH_F32, 1, (size_t[]){N});
    mh_mask mask = mh_mask_make(MH_MASK_ADD, bias.view);
    f.options.masks = &mask;
    f.options.mask_count = 1;
    f.options.scale = 1;
    test_fill_constant(&f.q.view, 1e19);
    test_fill_constant(&f.k.view, -1e19);
    test_fill_constant(&bias.view, 0);
    ref_set(&bias.view, (size_t[]){70}, -(double)FLT_MAX);
    run(&f);
    assert_true(weight_at(&f, 1, 70) == 0 && isfinite(out_at(&f, 1, 0)));
    near(weight_at(&f, 1, 71), 1.0 / (N - 1), 1e-8);
    test_fill_constant(&bias.view, -(double)FLT_MAX);
    run(&f);
    for (size_t i = 0; i < 4; i++)
        assert_true(isnan(out_at(&f, i, 0)) && isnan(weight_at(&f, i, 99)) &&
                    lse_at(&f, i) == -INFINITY);
    test_fill_constant(&bias.view, -INFINITY); // masked: now the row has no live key
    run(&f);
    assert_true(out_at(&f, 1, 0) == 0 && weight_at(&f, 1, 99) == 0 && lse_at(&f, 1) == -INFINITY);
    test_tensor_free(&bias);
    teardown(&f);
}

// Weights are divided by their sum after they have met the values: |v| times the sum must be
// finite.
static void huge_values(mh_context *context, mh_dtype dtype)
{
    if (dtype == MH_F16)
        return;
    enum { KEYS = 1000 };
    fixture f = setup(context, dtype, 2, KEYS, E);
    f.options.scale = 0; // equal scores: the sum is 1000
    test_fill_constant(&f.v.view, 3e35);
    run(&f);
    const double value = ref_get(&f.v.view, (size_t[]){0, 0, 0, 0});
    near(out_at(&f, 1, 0), value, 1e-5 * value + test_rounding(dtype, value));
    test_fill_constant(&f.v.view, 1e36);
    run(&f);
    assert_true(out_at(&f, 1, 0) == INFINITY);
    teardown(&f);
}

// q.k of 1e30 and more: one key takes all, the sum must not overflow.
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
    for (size_t i = 0; i < 3; i++) {
        assert_true(out_at(&f, i, 0) == ref_get(&f.v.view, (size_t[]){0, 0, 70, 0}));
        near(lse_at(&f, i) / 2e30, 1, 0.02);
        assert_true(weight_at(&f, i, 70) == 1 && weight_at(&f, i, 71) == 0);
    }
    f.options.scale = 0.3f; // the product with it is rounded
    run(&f);
    assert_true(out_at(&f, 1, 0) == ref_get(&f.v.view, (size_t[]){0, 0, 70, 0}));
    f.options.scale = -1; // now key 0 is the largest, in another tile
    run(&f);
    assert_true(out_at(&f, 1, 0) == ref_get(&f.v.view, (size_t[]){0, 0, 0, 0}));
    teardown(&f);
}

static void denormals(mh_context *context, mh_dtype dtype)
{
    double tiny = dtype == MH_F16 ? 0x1p-24 : 0x1p-130;
    fixture f = setup(context, dtype, 5, N, E);
    test_fill_constant(&f.q.view, tiny);
    test_fill_constant(&f.k.view, tiny);
    test_fill_constant(&f.v.view, 8 * tiny);
    run(&f);
    const bool flushed = dtype == MH_BF16 && mh_context_native_bf16(context);
    for (size_t i = 0; i < 5; i++) {
        near(out_at(&f, i, 0), 8 * tiny,
             flushed ? 8 * tiny : 0x1p-147 + test_rounding(dtype, 8 * tiny));
        near(weight_at(&f, i, 3), 1.0 / N, 1e-8);
    }
    f.options.scale = 0x1p100f; // tiny numbers may have large products with the scale
    if (!flushed)
        agrees_with_reference(&f);
    teardown(&f);
}

static void scale_zero_and_negative(mh_context *context, mh_dtype dtype)
{
    static const float scales[] = {0, -0.0f, -0.7f, 100};
    for (int n = 0; n < 4; n++) {
        fixture f = setup(context, dtype, N, N, E);
        f.options.scale = scales[n];
        agrees_with_reference(&f);
        f.options.softcap = 0.1f;
        agrees_with_reference(&f);
        teardown(&f);
    }
}

// ---- sizes 0 and 1, rows without keys -----------------------------------------------------------

static void small_sizes(mh_context *context, mh_dtype dtype)
{
    static const size_t sizes[][3] = {{0, 5, 4}, {0, 0, 3}, {5, 1, 4}, {1, 1, 1},
                                      {7, 3, 1}, {1, N, 1}, {N, 1, 2}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        fixture f = setup(context, dtype, sizes[n][0], sizes[n][1], sizes[n][2]);
        agrees_with_reference(&f);
        assert_true(test_guards_intact(&f.out) && test_guards_intact(&f.lse));
        teardown(&f);
    }
    fixture f = setup(context, dtype, 4, 1, E); // one key: its value, to the bit
    run(&f);
    for (size_t e = 0; e < E; e++)
        assert_true(out_at(&f, 3, e) == ref_get(&f.v.view, (size_t[]){0, 0, 0, e}));
    teardown(&f);
}

// v narrower and wider than q and k, down to 1.
static void value_widths(mh_context *context, mh_dtype dtype)
{
    static const size_t widths[][2] = {{1, 40}, {40, 1}, {17, 3}};
    test_rng rng = {3};
    for (int n = 0; n < 3; n++) {
        fixture f = setup(context, dtype, 9, N, widths[n][0]);
        test_tensor_free(&f.v);
        test_tensor_free(&f.out);
        f.v = test_tensor_dense(dtype, 4, (size_t[]){1, 1, N, widths[n][1]});
        f.out = test_tensor_dense(dtype, 4, (size_t[]){1, 1, 9, widths[n][1]});
        test_fill_normal(&rng, &f.v.view, 1);
        agrees_with_reference(&f);
        teardown(&f);
    }
}

static void empty_batch(mh_context *context, mh_dtype dtype)
{
    size_t shape[4] = {0, 2, 3, 4};
    mh_tensor nothing = mh_tensor_view(NULL, dtype, 4, shape);
    test_ok(context, mh_attention_forward(context, NULL, &nothing, &nothing, &nothing, &nothing));
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

// The first rows of the output and their weights are all `value` (0 or NaN).
static void assert_rows(const fixture *f, size_t rows, double value, double lse)
{
    for (size_t i = 0; i < rows; i++) {
        assert_true(lse_at(f, i) == lse);
        for (size_t e = 0; e < f->out.view.shape[3]; e++)
            assert_true(same(out_at(f, i, e), value));
        for (size_t j = 0; j < f->weights.view.shape[3]; j++)
            assert_true(same(weight_at(f, i, j), value));
    }
}

static void empty_rows(mh_context *context, mh_dtype dtype)
{
    static const size_t keys[] = {0, N}; // no key at all, or none that is live
    for (int n = 0; n < 2; n++) {
        fixture f = setup(context, dtype, 6, keys[n], E);
        int64_t length = 0;
        float sink = -2.5f;
        f.options.key_lengths = &length;
        run(&f);
        assert_rows(&f, 6, 0, -INFINITY);
        f.options.empty_row = MH_EMPTY_ROW_NAN;
        run(&f);
        assert_rows(&f, 6, NAN, -INFINITY);
        f.options.sinks = &sink; // a sink takes it all: nothing is empty
        run(&f);
        assert_rows(&f, 6, 0, -2.5);
        f.options.empty_row = MH_EMPTY_ROW_ZERO;
        run(&f);
        assert_rows(&f, 6, 0, -2.5);
        teardown(&f);
    }
}

// Some rows of a tile are empty, their neighbours are not: causal with a negative offset, and a
// mask that hides the whole first tile.
static void empty_neighbours(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, N, N, E);
    f.options.causal = MH_CAUSAL_OFFSET;
    f.options.offset = -40;
    agrees_with_reference(&f);
    assert_rows(&f, 40, 0, -INFINITY);
    f.options.empty_row = MH_EMPTY_ROW_NAN;
    run(&f);
    assert_rows(&f, 40, NAN, -INFINITY);
    assert_true(isfinite(out_at(&f, 40, 0)));

    f.options = mh_attention_options_default();
    test_tensor hidden = test_tensor_dense(MH_U8, 1, (size_t[]){N});
    for (size_t j = 0; j < N; j++)
        ref_set(&hidden.view, &j, j < 64);
    mh_mask mask = mh_mask_make(MH_MASK_DROP, hidden.view);
    f.options.masks = &mask;
    f.options.mask_count = 1;
    agrees_with_reference(&f);
    test_tensor_free(&hidden);
    teardown(&f);
}

// Windows and offsets at the ends of int64 must not wrap around.
static void far_positions(mh_context *context, mh_dtype dtype)
{
    fixture f = setup(context, dtype, 5, N, E);
    run(&f);
    double open = out_at(&f, 3, 4);
    f.options.window_left = INT64_MAX;
    f.options.window_right = INT64_MAX;
    run(&f);
    assert_true(out_at(&f, 3, 4) == open);
    f.options.window_left = -1;
    f.options.causal = MH_CAUSAL_OFFSET;
    f.options.offset = INT64_MAX;
    run(&f);
    assert_true(out_at(&f, 3, 4) == open);
    f.options.offset = INT64_MIN;
    run(&f);
    assert_rows(&f, 5, 0, -INFINITY);
    teardown(&f);
}

// ---- the list -----------------------------------------------------------------------------------

// cmocka hands a test its initial state: the check to run everywhere.
static void run_check(void **state) { test_everywhere(1, *(check *)*state); }

int main(void)
{
    static struct {
        const char *name;
        check body;
    } checks[] = {
        {"dead_keys_by_mask", dead_keys_by_mask},
        {"dead_keys_by_documents", dead_keys_by_documents},
        {"dead_keys_by_interval", dead_keys_by_interval},
        {"dead_for_some", dead_for_some},
        {"live_nan", live_nan},
        {"live_infinite_value", live_infinite_value},
        {"infinite_scores", infinite_scores},
        {"infinite_bias", infinite_bias},
        {"bias_that_overflows", bias_that_overflows},
        {"huge_values", huge_values},
        {"large_bias_is_a_number", large_bias_is_a_number},
        {"added_biases_are_a_number", added_biases_are_a_number},
        {"huge_scores", huge_scores},
        {"denormals", denormals},
        {"scale_zero_and_negative", scale_zero_and_negative},
        {"small_sizes", small_sizes},
        {"value_widths", value_widths},
        {"empty_batch", empty_batch},
        {"empty_rows", empty_rows},
        {"empty_neighbours", empty_neighbours},
        {"far_positions", far_positions},
    };
    enum { COUNT = sizeof checks / sizeof *checks };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){checks[i].name, run_check, NULL, NULL, &checks[i].body};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
