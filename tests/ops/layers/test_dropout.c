// SPDX-License-Identifier: MIT
// Dropout: which weights are dropped is a function of the seed and of the weight's place alone,
// the others are scaled, the rate is the one asked for, and the mean over many seeds is what
// there would be without. Every check runs at every instruction-set level.
//
// The sizes cross tiles of 64 keys and chunks of 512.
#include "ref/ref_attention.h"
#include "ref/ref_tensor.h"
#include "support.h"

enum { B = 3, H = 4, G = 2, T = 37, S = 1100, E = 8, Ev = 5 };

typedef struct problem {
    mh_context *context;
    mh_attention_options options;
    test_tensor q, k, v; // (B, H, T, E), (B, G, S, E), (B, G, S, Ev)
} problem;

static problem setup(mh_context *context)
{
    test_rng rng = {23};
    problem p = {.context = context, .options = mh_attention_options_default()};
    p.q = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, T, E});
    p.k = test_tensor_dense(MH_F32, 4, (size_t[]){B, G, S, E});
    p.v = test_tensor_dense(MH_F32, 4, (size_t[]){B, G, S, Ev});
    test_fill_normal(&rng, &p.q.view, 1);
    test_fill_normal(&rng, &p.k.view, 1);
    test_fill_normal(&rng, &p.v.view, 1);
    p.options.dropout = 0.3f;
    p.options.dropout_seed = 0x0123456789ABCDEFu;
    return p;
}

static void teardown(problem *p)
{
    test_tensor_free(&p->q);
    test_tensor_free(&p->k);
    test_tensor_free(&p->v);
}

// Output and softmax weights of a call; the caller frees both.
typedef struct result {
    test_tensor out, weights;
} result;

static result attend(const problem *p, mh_tensor q, mh_tensor k, mh_tensor v, bool dropped)
{
    mh_attention_options options = p->options;
    size_t sequences = options.sequences ? options.sequences : q.shape[0];
    result r = {
        test_tensor_dense(MH_F32, 4, (size_t[]){q.shape[0], q.shape[1], q.shape[2], v.shape[3]}),
        test_tensor_dense(MH_F32, 4, (size_t[]){sequences, q.shape[1], q.shape[2], k.shape[2]})};
    options.weights = &r.weights.view;
    options.weights_dropped = dropped;
    if (options.sequences) { // the longest ones
        r.weights.view.shape[2] = T;
        r.weights.view.shape[3] = S;
    }
    test_ok(p->context, mh_attention_forward(p->context, &options, &q, &k, &v, &r.out.view));
    return r;
}

static result attend_all(const problem *p, bool dropped)
{
    return attend(p, p->q.view, p->k.view, p->v.view, dropped);
}

static void result_free(result *r)
{
    test_tensor_free(&r->out);
    test_tensor_free(&r->weights);
}

static void same_bits(const char *what, const problem *p, const mh_tensor *a, const mh_tensor *b)
{
    size_t index[MH_MAX_RANK] = {0};
    assert_true(mh_tensor_same_shape(a, b));
    do {
        float x = (float)ref_get(a, index), y = (float)ref_get(b, index);
        if (memcmp(&x, &y, sizeof x) != 0)
            fail_msg("%s, %s: bits differ at (%zu, %zu, %zu, %zu): %.9g, %.9g", what,
                     mh_context_isa(p->context), index[0], index[1], index[2], index[3], (double)x,
                     (double)y);
    } while (ref_next(a, index));
}

typedef void (*check)(mh_context *context);

static void everywhere(check body)
{
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        body(context);
        mh_context_free(context);
    }
}

// ---- which ones ---------------------------------------------------------------------------------

// Each weight after dropout is 0, or the one before in f32 times the factor in f32.
static void check_weights(const problem *p, const mh_tensor *before, const mh_tensor *after)
{
    size_t at[4] = {0};
    do {
        float factor = (float)ref_dropout_factor(&p->options, at[0], at[1], at[2], at[3]);
        float expected = factor * (float)ref_get(before, at), found = (float)ref_get(after, at);
        if (found != expected)
            fail_msg("%s, dropout %g: weight (%zu, %zu, %zu, %zu): found %.9g, expected %.9g",
                     mh_context_isa(p->context), (double)p->options.dropout, at[0], at[1], at[2],
                     at[3], (double)found, (double)expected);
    } while (ref_next(before, at));
}

static void places(mh_context *context)
{
    static const struct {
        float dropout;
        uint64_t seed, sequence;
    } all[] = {{0.1f, 1, 0},
               {0.5f, UINT64_MAX, 7},
               {0.9f, (uint64_t)1 << 32, UINT32_MAX}, // the sequence's number wraps
               {0x1p-32f, 5, UINT64_MAX - 1},
               {0x1.fffffep-1f, 5, 3}};
    problem p = setup(context);
    result before = attend_all(&p, false);
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        p.options.dropout = all[n].dropout;
        p.options.dropout_seed = all[n].seed;
        p.options.dropout_sequence = all[n].sequence;
        result undropped = attend_all(&p, false), after = attend_all(&p, true);
        same_bits("weights before dropout", &p, &before.weights.view, &undropped.weights.view);
        same_bits("weights asked for or not", &p, &undropped.out.view, &after.out.view);
        check_weights(&p, &before.weights.view, &after.weights.view);
        result_free(&undropped);
        result_free(&after);
    }
    result_free(&before);
    teardown(&p);
}

// Other stages of the weights are on this side of dropout.
static void other_stages(mh_context *context)
{
    problem p = setup(context);
    for (int stage = MH_WEIGHTS_SCALED; stage <= MH_WEIGHTS_BIASED; stage++) {
        p.options.weights_stage = (mh_weights_stage)stage;
        result before = attend_all(&p, false), after = attend_all(&p, true);
        same_bits("stages before the softmax", &p, &before.weights.view, &after.weights.view);
        result_free(&before);
        result_free(&after);
    }
    teardown(&p);
}

// One query: dv_j = w_j dout, which shows the weights that backward has used.
static void backward_drops_the_same(mh_context *context)
{
    problem p = setup(context);
    mh_tensor q = mh_tensor_slice(p.q.view, 2, 0, 1);
    test_tensor lse = test_tensor_dense(MH_F32, 3, (size_t[]){B, H, 1});
    test_tensor dout = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, 1, Ev});
    test_tensor dv = test_tensor_dense(MH_F32, 4, p.v.view.shape);
    mh_attention_gradients gradients = mh_attention_gradients_default();
    gradients.dv = &dv.view;
    p.options.lse = &lse.view;
    test_fill_constant(&dout.view, 1);
    for (size_t h = 0; h < H; h += H / G) // the other heads of the group have no part in the loss
        for (size_t b = 0; b < B; b++)
            for (size_t e = 0; e < Ev; e++)
                ref_set(&dout.view, (size_t[]){b, h, 0, e}, 0);
    result r = attend(&p, q, p.k.view, p.v.view, true);
    test_ok(context, mh_attention_backward(context, &p.options, &q, &p.k.view, &p.v.view,
                                           &r.out.view, &dout.view, &gradients));
    size_t at[4] = {0};
    do {
        size_t h = at[1] * (H / G) + 1;
        double weight = ref_get(&r.weights.view, (size_t[]){at[0], h, 0, at[2]});
        double found = ref_get(&dv.view, at);
        assert_true(fabs(found - weight) <= 1e-5 * weight);
    } while (ref_next(&dv.view, at));
    result_free(&r);
    test_tensor_free(&lse);
    test_tensor_free(&dout);
    test_tensor_free(&dv);
    teardown(&p);
}

// ---- whatever surrounds a weight ----------------------------------------------------------------

static void threads(mh_context *context)
{
    problem p = setup(context);
    result expected = attend_all(&p, true);
    for (size_t n = 1; n <= 8; n++) {
        p.context = test_context(mh_context_isa(context), n);
        result found = attend_all(&p, true);
        same_bits("threads", &p, &expected.out.view, &found.out.view);
        same_bits("threads, weights", &p, &expected.weights.view, &found.weights.view);
        result_free(&found);
        mh_context_free(p.context);
    }
    p.context = context;
    result_free(&expected);
    teardown(&p);
}

// The first rows alone: they are tiled otherwise, down to the only one.
static void rows(mh_context *context)
{
    static const size_t counts[] = {1, 2, 7, 16, 17, 36};
    problem p = setup(context);
    result whole = attend_all(&p, true);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        mh_tensor out = mh_tensor_slice(whole.out.view, 2, 0, counts[n]);
        mh_tensor weights = mh_tensor_slice(whole.weights.view, 2, 0, counts[n]);
        result some =
            attend(&p, mh_tensor_slice(p.q.view, 2, 0, counts[n]), p.k.view, p.v.view, true);
        same_bits("the first rows", &p, &out, &some.out.view);
        same_bits("the first rows, weights", &p, &weights, &some.weights.view);
        result_free(&some);
    }
    result_free(&whole);
    teardown(&p);
}

// With fewer keys the weights are others, but those that are dropped are the same.
static void keys(mh_context *context)
{
    static const size_t counts[] = {1, 3, 63, 64, 65, 511, 513, 1099};
    problem p = setup(context);
    result whole = attend_all(&p, true);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        result some = attend(&p, p.q.view, mh_tensor_slice(p.k.view, 2, 0, counts[n]),
                             mh_tensor_slice(p.v.view, 2, 0, counts[n]), true);
        size_t at[4] = {0};
        do
            assert_int_equal(ref_get(&some.weights.view, at) == 0,
                             ref_get(&whole.weights.view, at) == 0);
        while (ref_next(&some.weights.view, at));
        result_free(&some);
    }
    result_free(&whole);
    teardown(&p);
}

// A sequence keeps its mask if it is told its number.
static void batch(mh_context *context)
{
    problem p = setup(context);
    p.options.dropout_sequence = 40;
    result whole = attend_all(&p, true);
    for (size_t b = 0; b < B; b++) {
        mh_tensor out = mh_tensor_slice(whole.out.view, 0, b, 1);
        mh_tensor weights = mh_tensor_slice(whole.weights.view, 0, b, 1);
        p.options.dropout_sequence = 40 + b;
        result alone =
            attend(&p, mh_tensor_slice(p.q.view, 0, b, 1), mh_tensor_slice(p.k.view, 0, b, 1),
                   mh_tensor_slice(p.v.view, 0, b, 1), true);
        same_bits("alone", &p, &out, &alone.out.view);
        same_bits("alone, weights", &p, &weights, &alone.weights.view);
        result_free(&alone);
    }
    result_free(&whole);
    teardown(&p);
}

// (B, heads, rows, width) to (1, heads, B rows, width)
static test_tensor pack(mh_context *context, const mh_tensor *t)
{
    const size_t *n = t->shape;
    test_tensor packed = test_tensor_dense(MH_F32, 4, (size_t[]){1, n[1], B * n[2], n[3]});
    for (size_t b = 0; b < B; b++) {
        mh_tensor from = mh_tensor_slice(*t, 0, b, 1);
        mh_tensor to = mh_tensor_slice(packed.view, 2, b * n[2], n[2]);
        test_ok(context, mh_tensor_copy(context, &from, &to));
    }
    return packed;
}

static void packed(mh_context *context)
{
    problem p = setup(context);
    p.options.dropout_sequence = 11;
    result whole = attend_all(&p, true);
    test_tensor q = pack(context, &p.q.view), k = pack(context, &p.k.view);
    test_tensor v = pack(context, &p.v.view), expected = pack(context, &whole.out.view);
    p.options.sequences = B;
    p.options.query_starts = (int64_t[]){0, T, 2 * T, 3 * T};
    p.options.key_starts = (int64_t[]){0, S, 2 * S, 3 * S};
    result found = attend(&p, q.view, k.view, v.view, true);
    same_bits("packed", &p, &expected.view, &found.out.view);
    test_tensor *all[] = {&q, &k, &v, &expected};
    for (size_t i = 0; i < 4; i++)
        test_tensor_free(all[i]);
    result_free(&whole);
    result_free(&found);
    teardown(&p);
}

// ---- how many -----------------------------------------------------------------------------------

// `count` of `n` trials with this chance, within five standard deviations.
static void likely(const char *what, double count, double n, double chance)
{
    double sigma = sqrt(n * chance * (1 - chance));
    if (!(fabs(count - n * chance) <= 5 * sigma))
        fail_msg("%s: found %g of %g, expected %g +- %g", what, count, n, n * chance, 5 * sigma);
}

static void rate(mh_context *context)
{
    static const float rates[] = {0.01f, 0.1f, 0.5f, 0.9f};
    problem p = setup(context);
    for (size_t n = 0; n < sizeof rates / sizeof *rates; n++) {
        double total = 0, head[H] = {0}, lane[16] = {0};
        size_t at[4] = {0};
        p.options.dropout = rates[n];
        result r = attend_all(&p, true);
        do {
            bool dropped = ref_get(&r.weights.view, at) == 0;
            total += dropped;
            head[at[1]] += dropped;
            lane[at[3] % 16] += dropped && at[3] < S / 16 * 16;
        } while (ref_next(&r.weights.view, at));
        double rows_total = B * H * T, chance = (double)rates[n];
        likely("dropped", total, rows_total * S, chance);
        for (size_t h = 0; h < H; h++)
            likely("dropped in a head", head[h], rows_total / H * S, chance);
        for (size_t l = 0; l < 16; l++)
            likely("dropped in a lane", lane[l], rows_total * (S / 16), chance);
        result_free(&r);
    }
    teardown(&p);
}

// Both of two independent masks drop a weight with the square of the chance: another seed,
// sequence, head or query.
static void independence(mh_context *context)
{
    problem p = setup(context);
    double chance = (double)p.options.dropout, both[4] = {0}, n = B * H * T * S;
    result a = attend_all(&p, true);
    p.options.dropout_seed += 1;
    result b = attend_all(&p, true);
    size_t at[4] = {0};
    do {
        bool dropped = ref_get(&a.weights.view, at) == 0;
        const size_t others[3][4] = {{(at[0] + 1) % B, at[1], at[2], at[3]},
                                     {at[0], (at[1] + 1) % H, at[2], at[3]},
                                     {at[0], at[1], (at[2] + 1) % T, at[3]}};
        both[0] += dropped && ref_get(&b.weights.view, at) == 0;
        for (size_t i = 0; i < 3; i++)
            both[i + 1] += dropped && ref_get(&a.weights.view, others[i]) == 0;
    } while (ref_next(&a.weights.view, at));
    static const char *const names[] = {"seeds", "sequences", "heads", "queries"};
    for (size_t i = 0; i < 4; i++)
        likely(names[i], both[i], n, chance * chance);
    result_free(&a);
    result_free(&b);
    teardown(&p);
}

// ---- what comes out -----------------------------------------------------------------------------

static void none(mh_context *context)
{
    problem p = setup(context);
    p.options = mh_attention_options_default();
    result expected = attend_all(&p, false);
    p.options.dropout_seed = 77;
    p.options.dropout_sequence = 5;
    for (int negative = 0; negative < 2; negative++) {
        p.options.dropout = negative ? -0.0f : 0.0f;
        result found = attend_all(&p, true);
        same_bits("dropout 0", &p, &expected.out.view, &found.out.view);
        same_bits("dropout 0, weights", &p, &expected.weights.view, &found.weights.view);
        result_free(&found);
    }
    result_free(&expected);
    teardown(&p);
}

// The mean of o = sum_j w_j v_j over n seeds has the variance sum_j p_j^2 v_j^2 d / (1 - d) / n.
static void mean(mh_context *context)
{
    enum { SEEDS = 500, QUERIES = 2, KEYS = 150 };
    problem p = setup(context);
    double sum[B * H * QUERIES * Ev] = {0}, d = (double)p.options.dropout;
    mh_tensor q = mh_tensor_slice(p.q.view, 2, 0, QUERIES);
    mh_tensor k = mh_tensor_slice(p.k.view, 2, 0, KEYS), v = mh_tensor_slice(p.v.view, 2, 0, KEYS);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        p.options.dropout_seed = seed;
        result r = attend(&p, q, k, v, false);
        for (size_t n = 0; n < sizeof sum / sizeof *sum; n++)
            sum[n] += (double)((float *)r.out.view.data)[n];
        result_free(&r);
    }
    p.options.dropout = 0;
    result plain = attend(&p, q, k, v, false);
    size_t at[4] = {0}, n = 0;
    do {
        double variance = 0;
        for (size_t j = 0; j < KEYS; j++) {
            double value = ref_get(&v, (size_t[]){at[0], at[1] / (H / G), j, at[3]});
            double weight = ref_get(&plain.weights.view, (size_t[]){at[0], at[1], at[2], j});
            variance += weight * weight * value * value * d / (1 - d) / SEEDS;
        }
        double distance = fabs(sum[n++] / SEEDS - ref_get(&plain.out.view, at));
        if (!(distance <= 5 * sqrt(variance)))
            fail_msg("mean over seeds at (%zu, %zu, %zu, %zu): %.3g off, expected up to %.3g",
                     at[0], at[1], at[2], at[3], distance, 5 * sqrt(variance));
    } while (ref_next(&plain.out.view, at));
    result_free(&plain);
    teardown(&p);
}

static void refused(mh_context *context)
{
    static const float wrong[] = {1, 1.5f, -0x1p-149f, -1, NAN, INFINITY, -INFINITY};
    problem p = setup(context);
    test_tensor out = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, T, Ev});
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        p.options.dropout = wrong[n];
        test_refused(
            context,
            mh_attention_forward(context, &p.options, &p.q.view, &p.k.view, &p.v.view, &out.view),
            MH_ERROR_ARGUMENT, "dropout");
        assert_true(test_untouched(&out));
    }
    test_tensor_free(&out);
    teardown(&p);
}

// ---- the list -----------------------------------------------------------------------------------

// cmocka hands a test its initial state: the check to run everywhere.
static void run_check(void **state) { everywhere(*(check *)*state); }

int main(void)
{
    static struct {
        const char *name;
        check body;
    } checks[] = {
        {"places", places},
        {"other_stages", other_stages},
        {"backward_drops_the_same", backward_drops_the_same},
        {"threads", threads},
        {"rows", rows},
        {"keys", keys},
        {"batch", batch},
        {"packed", packed},
        {"rate", rate},
        {"independence", independence},
        {"none", none},
        {"mean", mean},
        {"refused", refused},
    };
    enum { COUNT = sizeof checks / sizeof *checks };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){checks[i].name, run_check, NULL, NULL, &checks[i].body};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
