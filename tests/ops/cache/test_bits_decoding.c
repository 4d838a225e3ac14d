// SPDX-License-Identifier: MIT
// Token by token is the same to the bit as all tokens at once: mh_decoding_step against
// mh_transformer_forward with a causal target, one by one, in pieces and at once, for memories of
// different lengths, several copies for beams, after reordering, with taps, in f32 and bf16, at
// every instruction-set level; and the same for an encoder alone, and for mh_mha with a cache.
#include "nn_support.h"
#include "ref/ref_tensor.h"

enum { B = 2, COPIES = 3, N = B * COPIES, S = 70, T = 80, D = 48, H = 3, F = 40, LAYERS = 2 };

static const int64_t lengths[B] = {S, 37};

typedef struct problem {
    mh_context *context;
    mh_transformer *module; // batch first
    test_tensor memory;     // (B, S, D)
    float *tgt;             // (N, T, D)
} problem;

static problem setup(mh_context *context, mh_precision precision, bool norm_first, mh_dtype dtype)
{
    mh_transformer_config c = mh_transformer_config_default();
    test_rng rng = {3};
    problem p = {.context = context};
    c.kind = MH_DECODER;
    c.d_model = D;
    c.nhead = H;
    c.dim_feedforward = F;
    c.num_decoder_layers = LAYERS;
    c.norm_first = norm_first;
    c.final_norm = !norm_first; // either way once
    c.batch_first = true;
    c.precision = precision;
    test_ok(context, mh_transformer_create(context, &c, &p.module));
    nn_randomise(mh_transformer_parameters(p.module), 4);
    p.memory = test_tensor_dense(dtype, 3, (size_t[]){B, S, D});
    test_fill_normal(&rng, &p.memory.view, 1);
    p.tgt = ref_alloc(N * T * D, sizeof *p.tgt);
    for (size_t i = 0; i < N * T * D; i++)
        p.tgt[i] = (float)test_normal(&rng);
    return p;
}

static void teardown(problem *p)
{
    mh_transformer_free(p->module);
    test_tensor_free(&p->memory);
    free(p->tgt);
}

// All at once, with the memory of sequence i that of parents[i] / COPIES.
static float *at_once(const problem *p, const size_t *parents, const float *tgt, const mh_tap *taps,
                      size_t tap_count)
{
    const size_t row = S * D * mh_dtype_size(p->memory.view.dtype);
    float *out = ref_alloc(N * T * D, sizeof *out);
    char *memory = ref_alloc(N, row);
    bool padding[N * S];
    for (size_t i = 0; i < N; i++) {
        const size_t b = (parents ? parents[i] : i) / COPIES;
        memcpy(memory + i * row, (char *)p->memory.view.data + b * row, row);
        for (size_t s = 0; s < S; s++)
            padding[i * S + s] = (int64_t)s >= lengths[b];
    }
    const mh_tensor src = mh_tensor_3d(memory, p->memory.view.dtype, N, S, D);
    const mh_tensor mask = mh_tensor_2d(padding, MH_BOOL, N, S);
    const mh_tensor tgt_view = mh_tensor_3d((float *)tgt, MH_F32, N, T, D);
    mh_tensor out_view = mh_tensor_3d(out, MH_F32, N, T, D);
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    o.memory_key_padding_mask = &mask;
    o.taps = taps;
    o.tap_count = tap_count;
    test_ok(p->context,
            mh_transformer_forward(p->context, p->module, &o, &src, &tgt_view, &out_view));
    free(memory);
    return out;
}

// Tokens first .. first + count - 1 of all sequences.
static void step(const problem *p, mh_decoding *d, const float *tgt, size_t first, size_t count,
                 const mh_tap *taps, size_t tap_count, float *out)
{
    const mh_tensor all = mh_tensor_3d((float *)tgt, MH_F32, N, T, D);
    const mh_tensor results = mh_tensor_3d(out, MH_F32, N, T, D);
    const mh_tensor x = mh_tensor_slice(all, 1, first, count);
    mh_tensor y = mh_tensor_slice(results, 1, first, count);
    test_ok(p->context, mh_decoding_step(p->context, d, taps, tap_count, &x, &y));
}

static mh_decoding *start(const problem *p)
{
    mh_decoding *d;
    test_ok(p->context,
            mh_decoding_create(p->context, p->module, &p->memory.view, lengths, COPIES, &d));
    return d;
}

static void check_pieces(const problem *p)
{
    static const size_t pieces[3][4] = {{T}, {1, 3, 66, T - 70}, {0}}; // the last: one by one
    float *expected = at_once(p, NULL, p->tgt, NULL, 0);
    float *found = ref_alloc(N * T * D, sizeof *found);
    for (int way = 0; way < 3; way++) {
        mh_decoding *d = start(p);
        size_t n = 0;
        for (size_t first = 0; first < T;) {
            const size_t count = way == 2 ? 1 : pieces[way][n++];
            step(p, d, p->tgt, first, count, NULL, 0, found);
            first += count;
        }
        nn_same_bits(way == 2 ? "one by one" : "in pieces", N * T * D, expected, found);
        mh_decoding_free(d);
    }
    free(expected);
    free(found);
}

// After `half` tokens each sequence goes on from another one's past.
static void check_reorder(const problem *p)
{
    enum { HALF = 67 };
    static const size_t parents[N] = {2, 2, 0, 5, 0, 4}; // over the border of memories too
    float *history = ref_alloc(N * T * D, sizeof *history);
    for (size_t i = 0; i < N; i++) {
        memcpy(history + i * T * D, p->tgt + parents[i] * T * D, HALF * D * sizeof *history);
        memcpy(history + (i * T + HALF) * D, p->tgt + (i * T + HALF) * D,
               (T - HALF) * D * sizeof *history);
    }
    float *expected = at_once(p, parents, history, NULL, 0);
    float *found = ref_alloc(N * T * D, sizeof *found),
          *before = ref_alloc(N * T * D, sizeof *found);
    mh_decoding *d = start(p);
    step(p, d, p->tgt, 0, HALF, NULL, 0, before);
    test_ok(p->context, mh_decoding_reorder(p->context, d, parents));
    for (size_t t = HALF; t < T; t++)
        step(p, d, p->tgt, t, 1, NULL, 0, found);
    for (size_t i = 0; i < N; i++)
        nn_same_bits("after a reorder", (T - HALF) * D, expected + (i * T + HALF) * D,
                     found + (i * T + HALF) * D);
    mh_decoding_free(d);
    float *all[] = {history, expected, found, before};
    for (size_t i = 0; i < 4; i++)
        free(all[i]);
}

// The last token's rows of (N, heads, T, width) are those of (N, heads, 1, width).
static void same_last(const char *what, size_t heads, size_t width, mh_tensor *whole,
                      mh_tensor *last)
{
    for (size_t i = 0; i < heads; i++)
        nn_same_bits(what, width, (float *)whole->data + (i * T + T - 1) * width,
                     (float *)last->data + i * width);
    free(whole->data);
    free(last->data);
}

// Keys and values of a step are in a cache, of all steps so far: there is no tap for them.
static void refuse_keys(const problem *p, mh_decoding *d, float *memory)
{
    mh_tensor x = mh_tensor_3d(p->tgt, MH_F32, N, 1, D), y = mh_tensor_3d(memory, MH_F32, N, 1, D);
    for (int i = 0; i < 2; i++) {
        mh_tap tap = {.struct_size = sizeof(mh_tap), .kind = i ? MH_TAP_CROSS : MH_TAP_DECODER};
        *(i ? &tap.v : &tap.k) = mh_tensor_4d(memory, MH_F32, N, H, 1, D / H);
        assert_int_equal(mh_decoding_step(p->context, d, &tap, 1, &x, &y), MH_ERROR_ARGUMENT);
        assert_non_null(strstr(mh_error_message(p->context), i ? "tap.v" : "tap.k"));
    }
}

// The last token's weights, queries and outputs, of all layers.
static void check_taps(const problem *p)
{
    const size_t keys[2] = {T, S};
    mh_tap whole[2 * LAYERS], last[2 * LAYERS];
    for (size_t i = 0; i < 2 * LAYERS; i++) {
        const size_t cross = i / LAYERS;
        whole[i] = (mh_tap){.struct_size = sizeof(mh_tap),
                            .kind = cross ? MH_TAP_CROSS : MH_TAP_DECODER,
                            .layer = i % LAYERS};
        last[i] = whole[i];
        whole[i].weights = mh_tensor_4d(ref_alloc(N * H * T * keys[cross], sizeof(float)), MH_F32,
                                        N, H, T, keys[cross]);
        last[i].weights = mh_tensor_4d(ref_alloc(N * H * keys[cross], sizeof(float)), MH_F32, N, H,
                                       1, keys[cross]);
        whole[i].q = mh_tensor_4d(ref_alloc(N * T * D, sizeof(float)), MH_F32, N, H, T, D / H);
        last[i].q = mh_tensor_4d(ref_alloc(N * D, sizeof(float)), MH_F32, N, H, 1, D / H);
        whole[i].out = mh_tensor_3d(ref_alloc(N * T * D, sizeof(float)), MH_F32, N, T, D);
        last[i].out = mh_tensor_3d(ref_alloc(N * D, sizeof(float)), MH_F32, N, 1, D);
    }
    float *expected = at_once(p, NULL, p->tgt, whole, 2 * LAYERS);
    float *found = ref_alloc(N * T * D, sizeof *found);
    mh_decoding *d = start(p);
    step(p, d, p->tgt, 0, T - 1, NULL, 0, found);
    step(p, d, p->tgt, T - 1, 1, last, 2 * LAYERS, found);
    nn_same_bits("with taps", N * T * D, expected, found);
    for (size_t i = 0; i < 2 * LAYERS; i++) {
        same_last("a tap", N * H, keys[i / LAYERS], &whole[i].weights, &last[i].weights);
        same_last("a tap of queries", N * H, D / H, &whole[i].q, &last[i].q);
        same_last("a tap of outputs", N, D, &whole[i].out, &last[i].out);
    }
    refuse_keys(p, d, found);
    mh_decoding_free(d);
    free(expected);
    free(found);
}

static void decoding(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++)
        for (int n = 0; n < 4; n++) {
            print_message("%s, %d\n", test_level(level), n);
            mh_context *context = test_context(test_level(level), 1 + (size_t)n);
            problem p = setup(context, n % 2 ? MH_PRECISION_BF16 : MH_PRECISION_F32, n / 2,
                              n == 3 ? MH_BF16 : MH_F32);
            check_pieces(&p);
            check_reorder(&p);
            check_taps(&p);
            teardown(&p);
            mh_context_free(context);
        }
}

// ---- both halves --------------------------------------------------------------------------------

// Encoder, then decoder token by token, from one sequence to several and back to one, with heads
// switched off: the bits of the whole at once.
static void halves(void **state)
{
    enum { LONG = 5 };
    (void)state;
    mh_context *context = test_context(test_level(0), 2);
    mh_transformer_config c = mh_transformer_config_default();
    mh_transformer *t;
    test_rng rng = {5};
    c.d_model = D, c.nhead = H, c.dim_feedforward = F;
    c.num_encoder_layers = c.num_decoder_layers = LAYERS;
    test_ok(context, mh_transformer_create(context, &c, &t));
    nn_randomise(mh_transformer_parameters(t), 6);
    static float src[S * D], memory[S * D], tgt[LONG * D], expected[LONG * D], x[3 * D], y[3 * D];
    for (size_t i = 0; i < S * D; i++)
        src[i] = (float)test_normal(&rng);
    for (size_t i = 0; i < LONG * D; i++)
        tgt[i] = (float)test_normal(&rng);
    bool disabled[3 * LAYERS * H];
    for (size_t i = 0; i < 3 * LAYERS * H; i++)
        disabled[i] = i % 4 == 1;
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    o.disabled_heads = disabled;
    const mh_tensor source = mh_tensor_3d(src, MH_F32, S, 1, D);
    const mh_tensor target = mh_tensor_3d(tgt, MH_F32, LONG, 1, D);
    mh_tensor whole = mh_tensor_3d(expected, MH_F32, LONG, 1, D);
    mh_tensor middle = mh_tensor_3d(memory, MH_F32, S, 1, D);
    test_ok(context, mh_transformer_forward(context, t, &o, &source, &target, &whole));
    test_ok(context, mh_transformer_encode(context, t, &o, &source, &middle));
    mh_decoding *d;
    test_ok(context, mh_decoding_create(context, t, &middle, NULL, 1, &d));
    mh_decoding_disable_heads(d, disabled);
    static const size_t counts[LONG] = {1, 3, 2, 1, 3}, parents[LONG] = {0, 0, 2, 1, 0};
    for (size_t i = 0; i < LONG; i++) {
        const size_t same[3] = {parents[i], parents[i], parents[i]};
        test_ok(context, mh_decoding_select(context, d, same, counts[i]));
        for (size_t n = 0; n < counts[i]; n++)
            memcpy(x + n * D, tgt + i * D, D * sizeof *x);
        const mh_tensor in = mh_tensor_3d(x, MH_F32, 1, counts[i], D);
        mh_tensor out = mh_tensor_3d(y, MH_F32, 1, counts[i], D);
        test_ok(context, mh_decoding_step(context, d, NULL, 0, &in, &out));
        for (size_t n = 0; n < counts[i]; n++)
            nn_same_bits("both halves", D, expected + i * D, y + n * D);
    }
    mh_decoding_free(d);
    mh_transformer_free(t);
    mh_context_free(context);
}

// ---- an encoder alone ---------------------------------------------------------------------------

// A language model: a prompt at once, then token by token, with heads switched off; after HALF
// tokens from three sequences to four others. The bits of mh_transformer_forward with src_causal.
static void language_model(mh_context *context, mh_precision precision, bool norm_first)
{
    enum { FROM = 3, TO = 4, PROMPT = 5, HALF = 66, LONG = 72 };
    static const size_t parents[TO] = {2, 0, 0, 1};
    static float tgt[TO * LONG * D], expected[TO * LONG * D], found[TO * LONG * D];
    static float whole[TO * H * LONG * LONG], last[TO * H * LONG];
    mh_transformer_config c = mh_transformer_config_default();
    c.kind = MH_ENCODER;
    c.d_model = D, c.nhead = H, c.dim_feedforward = F, c.num_encoder_layers = LAYERS;
    c.batch_first = true;
    c.norm_first = norm_first;
    c.final_norm = norm_first;
    c.precision = precision;
    mh_transformer *t;
    test_ok(context, mh_transformer_create(context, &c, &t));
    nn_randomise(mh_transformer_parameters(t), 5);
    test_rng rng = {8};
    for (size_t i = 0; i < TO * LONG * D; i++)
        tgt[i] = (float)test_normal(&rng);
    const mh_tensor all = mh_tensor_3d(tgt, MH_F32, TO, LONG, D);
    const mh_tensor results = mh_tensor_3d(found, MH_F32, TO, LONG, D);

    bool disabled[LAYERS * H] = {[1] = true, [LAYERS * H - 1] = true};
    mh_decoding *d;
    test_ok(context, mh_decoding_create_causal(context, t, FROM, &d));
    mh_decoding_disable_heads(d, disabled);
    for (size_t at = 0; at < LONG; at += at ? 1 : PROMPT) {
        mh_tensor x = mh_tensor_slice(all, 1, at, at ? 1 : PROMPT);
        mh_tensor y = mh_tensor_slice(results, 1, at, at ? 1 : PROMPT);
        x.shape[0] = y.shape[0] = at < HALF ? FROM : TO;
        const mh_tap tap = {.struct_size = sizeof(mh_tap),
                            .kind = MH_TAP_ENCODER,
                            .layer = LAYERS - 1,
                            .weights = mh_tensor_4d(last, MH_F32, TO, H, 1, LONG)};
        if (at == HALF)
            test_ok(context, mh_decoding_select(context, d, parents, TO));
        test_ok(context, mh_decoding_step(context, d, &tap, at == LONG - 1, &x, &y));
    }
    mh_decoding_free(d);

    // At once, with each sequence's past.
    static float past[TO * LONG * D];
    memcpy(past, tgt, sizeof past);
    for (size_t i = 0; i < TO; i++)
        memcpy(past + i * LONG * D, tgt + parents[i] * LONG * D, HALF * D * sizeof *past);
    const mh_tap tap = {.struct_size = sizeof(mh_tap),
                        .kind = MH_TAP_ENCODER,
                        .layer = LAYERS - 1,
                        .weights = mh_tensor_4d(whole, MH_F32, TO, H, LONG, LONG)};
    mh_transformer_options o = mh_transformer_options_default();
    o.src_causal = true;
    o.disabled_heads = disabled;
    o.taps = &tap;
    o.tap_count = 1;
    const mh_tensor src = mh_tensor_3d(past, MH_F32, TO, LONG, D);
    mh_tensor out = mh_tensor_3d(expected, MH_F32, TO, LONG, D);
    test_ok(context, mh_transformer_forward(context, t, &o, &src, NULL, &out));
    for (size_t i = 0; i < TO; i++) {
        const size_t at = (i * LONG + HALF) * D;
        nn_same_bits("after a selection", (LONG - HALF) * D, expected + at, found + at);
        nn_same_bits("before it", HALF * D, expected + i * LONG * D, found + parents[i] * LONG * D);
    }
    for (size_t i = 0; i < TO * H; i++)
        nn_same_bits("a tap", LONG, whole + (i * LONG + LONG - 1) * LONG, last + i * LONG);
    mh_transformer_free(t);
}

static void language_models(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++)
        for (int n = 0; n < 4; n++) {
            mh_context *context = test_context(test_level(level), 1 + (size_t)n);
            language_model(context, n % 2 ? MH_PRECISION_BF16 : MH_PRECISION_F32, n / 2);
            mh_context_free(context);
        }
}

// ---- multi-head attention with a cache ----------------------------------------------------------

// With RoPE, positions may be left to the cache or counted by the caller.
static void mha_with_cache(mh_context *context, bool rope, bool counts)
{
    mh_mha_config c = mh_mha_config_default();
    c.embed_dim = D;
    c.num_heads = 4;
    c.kv_heads = 2;
    c.rope = rope;
    c.alibi = !rope;
    c.batch_first = true;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &c, &mha));
    nn_randomise(mh_mha_parameters(mha), 8);
    test_rng rng = {6};
    test_tensor x = nn_tensor(&rng, MH_F32, true, false, B, T, D, true);
    float *expected = ref_alloc(B * T * D, sizeof *expected);
    float *found = ref_alloc(B * T * D, sizeof *found);
    mh_tensor whole = mh_tensor_3d(expected, MH_F32, B, T, D);
    const mh_tensor parts = mh_tensor_3d(found, MH_F32, B, T, D);
    bool padding[B * T] = {[1] = true, [T + 2] = true, [T + 3] = true};
    const mh_tensor mask = mh_tensor_2d(padding, MH_BOOL, B, T);
    mh_mha_options o = mh_mha_options_default();
    mh_attention_options attention = mh_attention_options_default();
    attention.causal = MH_CAUSAL_BOTTOM_RIGHT;
    o.attention = &attention;
    o.key_padding_mask = &mask;
    test_ok(context, mh_mha_forward(context, mha, &o, &x.view, &x.view, &x.view, &whole, NULL));
    mh_kv_cache_options cache = mh_kv_cache_options_default();
    cache.sequences = B;
    cache.heads = 2;
    cache.key_width = D / 4;
    test_ok(context, mh_kv_cache_create(context, &cache, &o.cache));
    for (size_t first = 0, count = 5; first < T; first += count, count = 1) {
        const mh_tensor q = mh_tensor_slice(x.view, 1, first, count);
        mh_tensor out = mh_tensor_slice(parts, 1, first, count);
        const mh_tensor seen = mh_tensor_slice(mask, 1, 0, first + count);
        o.key_padding_mask = &seen;
        o.first = (int64_t)first + 1; // a token too far, of which the cache keeps nothing
        if (rope)
            test_refused(context, mh_mha_forward(context, mha, &o, &q, &q, &q, &out, NULL),
                         MH_ERROR_ARGUMENT, "first: found");
        o.first = counts ? (int64_t)first : 0;
        test_ok(context, mh_mha_forward(context, mha, &o, &q, &q, &q, &out, NULL));
    }
    nn_same_bits("mha with a cache", B * T * D, expected, found);
    mh_kv_cache_free(o.cache);
    mh_mha_free(mha);
    test_tensor_free(&x);
    free(expected);
    free(found);
}

static void attention_with_a_cache(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++)
        for (int way = 0; way < 3; way++) {
            mh_context *context = test_context(test_level(level), 2);
            mha_with_cache(context, way > 0, way == 2);
            mh_context_free(context);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding),
        cmocka_unit_test(halves),
        cmocka_unit_test(language_models),
        cmocka_unit_test(attention_with_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
