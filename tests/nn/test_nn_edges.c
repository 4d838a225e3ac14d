// SPDX-License-Identifier: MIT
// The edges of what modules take, at every instruction-set level: batches, targets and memories of
// nothing, queries without a live key, NaN where it must not leak, layers that are not there, rules
// about keys beside keys that the module adds.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>

enum { D = 12, H = 3, F = 10, MOST = 3 * 40 * D };

static mh_transformer *make(mh_context *context, mh_transformer_kind kind, size_t layers)
{
    mh_transformer_config c = nn_transformer_config(kind, D, H, F, layers);
    c.batch_first = true;
    return nn_transformer(context, &c, 2);
}

static mh_mha *make_mha(mh_context *context, bool extra)
{
    mh_mha_config c = nn_mha_config(D, H);
    c.add_bias_kv = c.add_zero_attn = extra;
    c.batch_first = true;
    return nn_mha(context, &c, 2);
}

static void at_every_level(void (*check)(mh_context *context))
{
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        check(context);
        mh_context_free(context);
    }
}

static bool all_finite(size_t n, const float *x)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(x[i]);
    return finite;
}

// ---- nothing ------------------------------------------------------------------------------------

// Forward and backward of src (B, S, D) and tgt (B, T, D) with some of B, S, T 0.
static void empty_transformer(mh_context *context, mh_transformer_kind kind, size_t B, size_t S,
                              size_t T)
{
    const bool decoder = kind == MH_TRANSFORMER || kind == MH_DECODER || kind == MH_DECODER_LAYER;
    mh_transformer *t = make(context, kind, 2);
    const size_t floats = mh_transformer_parameters(t)->floats;
    float *gradients = ref_alloc(floats, sizeof *gradients), x[4][MOST];
    test_rng rng = {1};
    for (size_t i = 0; i < 4; i++)
        for (size_t n = 0; n < MOST; n++)
            x[i][n] = (float)test_normal(&rng);
    const mh_tensor src = mh_tensor_3d(x[0], MH_F32, B, S, D);
    const mh_tensor tgt = mh_tensor_3d(x[1], MH_F32, B, T, D);
    mh_tensor out = mh_tensor_3d(x[2], MH_F32, B, decoder ? T : S, D);
    mh_tensor dsrc = mh_tensor_3d(x[3], MH_F32, B, S, D);
    const mh_tensor mask = mh_tensor_3d(x[0], MH_F32, B * H, S, S);
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    o.src_mask = B == 0 ? &mask : NULL; // which has no elements then
    for (int recompute = 0; recompute < 2; recompute++) {
        test_ok(context, mh_tape_create(context, &o.tape));
        o.recompute = recompute;
        test_ok(context, mh_transformer_forward(context, t, &o, &src, decoder ? &tgt : NULL, &out));
        test_ok(context, mh_transformer_backward(context, t, &o, &src, decoder ? &tgt : NULL, &out,
                                                 gradients, &dsrc, NULL));
        mh_tape_free(o.tape);
    }
    assert_true(all_finite(ref_count(&out), x[2]) && all_finite(ref_count(&dsrc), x[3]));
    assert_true(all_finite(floats, gradients));
    for (size_t i = 0; i < floats && !ref_count(&out); i++)
        assert_true(gradients[i] == 0);
    free(gradients);
    mh_transformer_free(t);
}

static void empty_transformers(mh_context *context)
{
    static const size_t sizes[5][3] = {{0, 5, 4}, {2, 0, 4}, {2, 5, 0}, {2, 0, 0}, {0, 0, 0}};
    for (int kind = MH_TRANSFORMER; kind <= MH_DECODER_LAYER; kind++)
        for (size_t n = 0; n < 5; n++)
            empty_transformer(context, (mh_transformer_kind)kind, sizes[n][0], sizes[n][1],
                              sizes[n][2]);
}

// With no key at all a query gets the bias of the projection; weights are (B, T, 0), or as wide as
// the further keys.
static void empty_mha(mh_context *context, bool extra, size_t B, size_t T, size_t S)
{
    mh_mha *mha = make_mha(context, extra);
    const mh_parameters *p = mh_mha_parameters(mha);
    float x[6][MOST], *gradients = ref_alloc(p->floats, sizeof *gradients);
    for (size_t i = 0; i < 6; i++)
        for (size_t n = 0; n < MOST; n++)
            x[i][n] = (float)(n % 7);
    const mh_tensor q = mh_tensor_3d(x[0], MH_F32, B, T, D),
                    k = mh_tensor_3d(x[1], MH_F32, B, S, D);
    mh_tensor out = mh_tensor_3d(x[2], MH_F32, B, T, D);
    mh_tensor dq = mh_tensor_3d(x[3], MH_F32, B, T, D);
    mh_tensor dk = mh_tensor_3d(x[4], MH_F32, B, S, D);
    mh_tensor w = mh_tensor_3d(x[5], MH_F32, B, T, S + (extra ? 2 : 0));
    bool padding[MOST] = {0};
    const mh_tensor masks[2] = {mh_tensor_2d(padding, MH_BOOL, B, S),
                                mh_tensor_2d(padding, MH_BOOL, T, S)};
    mh_mha_options o = mh_mha_options_default();
    test_ok(context, mh_tape_create(context, &o.tape));
    o.key_padding_mask = &masks[0];
    o.attn_mask = &masks[1];
    test_ok(context, mh_mha_forward(context, mha, &o, &q, &k, &k, &out, &w));
    test_ok(context,
            mh_mha_backward(context, mha, &o, &q, &k, &k, &out, gradients, &dq, &dk, NULL));
    const mh_parameter *bias = mh_parameters_find(p, "out_proj.bias");
    for (size_t i = 0; i < B * T * D && !extra && !S; i++)
        assert_true(x[2][i] == p->values[bias->offset + i % D] && x[3][i] == 0);
    assert_true(all_finite(B * T * D, x[2]) && all_finite(p->floats, gradients));
    mh_tape_free(o.tape);
    mh_mha_free(mha);
    free(gradients);
}

static void empty_mhas(mh_context *context)
{
    for (int extra = 0; extra < 2; extra++) {
        empty_mha(context, extra, 0, 3, 4);
        empty_mha(context, extra, 2, 0, 4);
        empty_mha(context, extra, 2, 3, 0);
        empty_mha(context, extra, 0, 0, 0);
        empty_mha(context, extra, 2, 3, 4);
    }
}

static void empty_inputs(void **state)
{
    (void)state;
    at_every_level(empty_transformers);
    at_every_level(empty_mhas);
}

// A stack without layers gives what it gets.
static void no_layers(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float x[5 * D], y[5 * D];
    test_rng rng = {1};
    for (size_t i = 0; i < 5 * D; i++)
        x[i] = (float)test_normal(&rng);
    mh_transformer *t = make(context, MH_ENCODER, 0);
    mh_tensor in = mh_tensor_2d(x, MH_F32, 5, D), out = mh_tensor_2d(y, MH_F32, 5, D);
    test_ok(context, mh_transformer_forward(context, t, NULL, &in, NULL, &out));
    nn_same_bits("output", 5 * D, x, y);
    mh_transformer_free(t);
    mh_context_free(context);
}

// ---- no live key --------------------------------------------------------------------------------

// Query 1 of the first sequence, and all of the second, see nothing: weights of 0, the output
// projection's bias, and no gradient; with and without weights the same bits.
static void masked_rows(mh_context *context)
{
    enum { B = 2, T = 3, S = 40 };
    mh_mha *mha = make_mha(context, false);
    const mh_parameters *p = mh_mha_parameters(mha);
    const float *bias = p->values + mh_parameters_find(p, "out_proj.bias")->offset;
    test_rng rng = {1};
    test_tensor q = nn_tensor(&rng, MH_F32, true, false, B, T, D, true);
    test_tensor k = nn_tensor(&rng, MH_F32, true, false, B, S, D, true);
    float out[2][B * T * D], w[B * H * T * S], dq[B * T * D], dk[B * S * D];
    bool padding[B * S], mask[T * S] = {0};
    for (size_t i = 0; i < S; i++)
        padding[i] = false, padding[S + i] = true, mask[S + i] = true;
    const mh_tensor padding_view = mh_tensor_2d(padding, MH_BOOL, B, S);
    const mh_tensor mask_view = mh_tensor_2d(mask, MH_BOOL, T, S);
    mh_tensor outs[2] = {mh_tensor_3d(out[0], MH_F32, B, T, D),
                         mh_tensor_3d(out[1], MH_F32, B, T, D)};
    mh_tensor weights = mh_tensor_4d(w, MH_F32, B, H, T, S);
    mh_tensor dqs = mh_tensor_3d(dq, MH_F32, B, T, D), dks = mh_tensor_3d(dk, MH_F32, B, S, D);
    mh_mha_options o = mh_mha_options_default();
    o.key_padding_mask = &padding_view;
    o.attn_mask = &mask_view;
    o.per_head_weights = true;
    test_ok(context, mh_tape_create(context, &o.tape));
    test_ok(context, mh_mha_forward(context, mha, &o, &q.view, &k.view, &k.view, &outs[0], NULL));
    test_ok(context,
            mh_mha_forward(context, mha, &o, &q.view, &k.view, &k.view, &outs[1], &weights));
    test_ok(context, mh_mha_backward(context, mha, &o, &q.view, &k.view, &k.view, &outs[0], NULL,
                                     &dqs, &dks, NULL));
    nn_same_bits("output with weights", B * T * D, out[0], out[1]);
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < T; t++) {
            const bool masked = b == 1 || t == 1;
            for (size_t d = 0; d < D; d++) {
                const size_t i = (b * T + t) * D + d;
                assert_true((out[0][i] == bias[d]) == masked);
                assert_true((dq[i] == 0) == masked);
            }
            for (size_t j = 0; j < H * S; j++)
                assert_true((w[((b * H + j / S) * T + t) * S + j % S] == 0) == masked);
        }
    for (size_t i = S * D; i < B * S * D; i++)
        assert_true(dk[i] == 0);
    mh_tape_free(o.tape);
    test_tensor_free(&q);
    test_tensor_free(&k);
    mh_mha_free(mha);
}

// A module's own list is what mh_parameters_lay_out makes of its shapes; sizes that cannot be are
// refused.
static void own_parameters(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = 12;
    config.num_heads = 3;
    config.add_bias_kv = true;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &config, &mha));
    const mh_parameters *p = mh_mha_parameters(mha);
    mh_parameter list[16];
    assert_true(p->count > 4 && p->count <= 16);
    memcpy(list, p->list, p->count * sizeof *list);
    for (size_t i = 0; i < p->count; i++)
        list[i].offset = list[i].count = 77;
    assert_int_equal(mh_parameters_lay_out(list, p->count), p->floats);
    for (size_t i = 0; i < p->count; i++) {
        assert_int_equal(list[i].offset, p->list[i].offset);
        assert_int_equal(list[i].count, p->list[i].count);
    }
    assert_int_equal(mh_parameters_lay_out(list, 0), 0);
    list[1].rank = 0;
    assert_true(mh_parameters_lay_out(list, 2) == SIZE_MAX);
    list[1].rank = 4;
    assert_true(mh_parameters_lay_out(list, 2) == SIZE_MAX);
    list[1] = (mh_parameter){.rank = 2, .shape = {SIZE_MAX / 2, 3}};
    assert_true(mh_parameters_lay_out(list, 2) == SIZE_MAX);
    list[1] = (mh_parameter){.rank = 1, .shape = {SIZE_MAX / 4}}; // of bytes, with the first
    assert_true(mh_parameters_lay_out(list, 2) == SIZE_MAX);
    mh_mha_free(mha);
    mh_context_free(context);
}

static void rows_without_live_key(void **state)
{
    (void)state;
    at_every_level(masked_rows);
}

// NaN in one sequence stays there; so do dead tokens of the memory.
static void nan_elsewhere(mh_context *context)
{
    enum { B = 3, S = 40, T = 11 };
    mh_transformer *t = make(context, MH_TRANSFORMER, 2);
    float src[B * S * D], tgt[B * T * D], out[B * T * D];
    test_rng rng = {1};
    for (size_t i = 0; i < B * S * D; i++)
        src[i] = i / (S * D) == 1 ? NAN : (float)test_normal(&rng);
    for (size_t i = 0; i < B * T * D; i++)
        tgt[i] = (float)test_normal(&rng);
    const mh_tensor srcs = mh_tensor_3d(src, MH_F32, B, S, D);
    const mh_tensor tgts = mh_tensor_3d(tgt, MH_F32, B, T, D);
    mh_tensor outs = mh_tensor_3d(out, MH_F32, B, T, D);
    test_ok(context, mh_transformer_forward(context, t, NULL, &srcs, &tgts, &outs));
    for (size_t i = 0; i < B * T * D; i++)
        assert_true(isnan(out[i]) == (i / (T * D) == 1));
    mh_transformer_free(t);
}

static void nan_stays_where_it_is(void **state)
{
    (void)state;
    at_every_level(nan_elsewhere);
}

// ---- rules and further keys ---------------------------------------------------------------------

typedef struct rule {
    mh_causal causal;
    int64_t offset, left, right;
} rule;

static bool sees(const rule *r, int64_t T, int64_t S, int64_t i, int64_t j)
{
    const int64_t offset = r->causal == MH_CAUSAL_BOTTOM_RIGHT ? S - T
                           : r->causal == MH_CAUSAL_TOP_LEFT   ? 0
                                                               : r->offset;
    return (r->causal == MH_CAUSAL_NONE || j <= i + offset) &&
           (r->left < 0 || j >= i + offset - r->left) &&
           (r->right < 0 || j <= i + offset + r->right);
}

// A causal rule or a window, and the same as attn_mask: the same bits, forward and backward. The
// keys that the module adds are seen by all queries either way.
static void compare_rule(mh_context *context, const mh_mha *mha, const rule *r)
{
    enum { B = 2, T = 5, S = 7, EXTRA = 2 };
    float q[B * T * D], k[B * S * D], out[2][B * T * D], weights[2][B * T * (S + EXTRA)];
    float dk[2][B * S * D];
    bool drop[T * S];
    test_rng rng = {7};
    for (size_t i = 0; i < B * T * D; i++)
        q[i] = (float)test_normal(&rng);
    for (size_t i = 0; i < B * S * D; i++)
        k[i] = (float)test_normal(&rng);
    for (int i = 0; i < T * S; i++)
        drop[i] = !sees(r, T, S, i / S, i % S);
    const mh_tensor queries = mh_tensor_3d(q, MH_F32, B, T, D);
    const mh_tensor keys = mh_tensor_3d(k, MH_F32, B, S, D);
    const mh_tensor mask = mh_tensor_2d(drop, MH_BOOL, T, S);
    for (int way = 0; way < 2; way++) {
        mh_mha_options o = mh_mha_options_default();
        mh_attention_options attention = mh_attention_options_default();
        mh_tensor outs = mh_tensor_3d(out[way], MH_F32, B, T, D);
        mh_tensor w = mh_tensor_3d(weights[way], MH_F32, B, T, S + EXTRA);
        mh_tensor dkeys = mh_tensor_3d(dk[way], MH_F32, B, S, D);
        test_ok(context, mh_tape_create(context, &o.tape));
        if (way) {
            attention.causal = r->causal;
            attention.offset = r->offset;
            attention.window_left = r->left;
            attention.window_right = r->right;
            o.attention = &attention;
        } else {
            o.attn_mask = &mask;
        }
        test_ok(context, mh_mha_forward(context, mha, &o, &queries, &keys, &keys, &outs, &w));
        test_ok(context, mh_mha_backward(context, mha, &o, &queries, &keys, &keys, &queries, NULL,
                                         NULL, &dkeys, NULL));
        mh_tape_free(o.tape);
    }
    nn_same_bits("output", B * T * D, out[0], out[1]);
    nn_same_bits("weights", B * T * (S + EXTRA), weights[0], weights[1]);
    nn_same_bits("dkey", B * S * D, dk[0], dk[1]);
    for (size_t row = 0; row < B * T; row++)
        for (size_t n = 0; n < EXTRA; n++)
            assert_true(weights[1][row * (S + EXTRA) + S + n] > 0);
}

static void rules_of(mh_context *context)
{
    static const rule rules[] = {
        {MH_CAUSAL_TOP_LEFT, 0, -1, -1},
        {MH_CAUSAL_BOTTOM_RIGHT, 0, -1, -1},
        {MH_CAUSAL_OFFSET, -2, -1, -1},
        {MH_CAUSAL_OFFSET, 1, 2, -1},
        {MH_CAUSAL_NONE, 1, 2, 1},
        {MH_CAUSAL_NONE, 0, -1, 0},
        {MH_CAUSAL_NONE, -1000, 3, -1},
        {MH_CAUSAL_OFFSET, INT64_C(1) << 61, -1, -1},
        {MH_CAUSAL_OFFSET, -(INT64_C(1) << 61), -1, -1},
    };
    mh_mha *mha = make_mha(context, true);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        compare_rule(context, mha, &rules[i]);
    mh_mha_free(mha);
}

static void rules_leave_further_keys(void **state)
{
    (void)state;
    at_every_level(rules_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_inputs),          cmocka_unit_test(no_layers),
        cmocka_unit_test(own_parameters),        cmocka_unit_test(rows_without_live_key),
        cmocka_unit_test(nan_stays_where_it_is), cmocka_unit_test(rules_leave_further_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
