// SPDX-License-Identifier: MIT
// What modules refuse, with a message that names it: configs, tensors, masks, taps, packed starts,
// tapes, decoding; nothing is written then, and the next call works. And when the allocator fails,
// at every allocation: a clear status, no leak, and what was there goes on as if nothing had been.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <stddef.h>

enum { B = 2, S = 5, T = 4, D = 12, H = 3, F = 10 };

// ---- configs ------------------------------------------------------------------------------------

static mh_mha_config mha_config(void)
{
    mh_mha_config c = mh_mha_config_default();
    c.embed_dim = D;
    c.num_heads = H;
    return c;
}

static void refuse_mha(mh_context *context, const mh_mha_config *config, const char *word)
{
    mh_mha *mha = (mh_mha *)context;
    test_refused(context, mh_mha_create(context, config, &mha), MH_ERROR_ARGUMENT, word);
    assert_null(mha);
}

#define REFUSE_MHA(change, word)                                                                   \
    do {                                                                                           \
        mh_mha_config c = mha_config();                                                            \
        change;                                                                                    \
        refuse_mha(*state, &c, word);                                                              \
    } while (0)

static void mha_configs(void **state)
{
    refuse_mha(*state, NULL, "config");
    REFUSE_MHA(c.struct_size = 8, "config");
    REFUSE_MHA(c.embed_dim = 0, "embed_dim: found 0");
    REFUSE_MHA(c.embed_dim = SIZE_MAX, "embed_dim");
    REFUSE_MHA(c.num_heads = 0, "num_heads: found 0");
    REFUSE_MHA(c.num_heads = 5, "num_heads: found 5, expected a divisor of embed_dim 12");
    REFUSE_MHA(c.kv_heads = 2, "kv_heads: found 2, expected a divisor of num_heads 3");
    REFUSE_MHA(c.kv_heads = 6, "kv_heads");
    REFUSE_MHA(c.kdim = (size_t)1 << 40, "kdim");
    REFUSE_MHA(c.vdim = (size_t)1 << 40, "vdim");
    REFUSE_MHA(c.input_dim = (size_t)1 << 40, "input_dim");
    REFUSE_MHA((c.rope = true, c.num_heads = 4), "rope: found heads of width 3");
    REFUSE_MHA((c.rope = true, c.rope_base = 0), "rope");
    REFUSE_MHA((c.qkv = MH_QKV_INTERLEAVED, c.kdim = 5), "qkv");
    REFUSE_MHA((c.qkv = MH_QKV_INTERLEAVED, c.kv_heads = 1), "qkv");
    REFUSE_MHA(c.dropout = 1, "dropout: found 1");
    REFUSE_MHA(c.dropout = -0.5f, "dropout");
    REFUSE_MHA(c.dropout = (float)NAN, "dropout");
    REFUSE_MHA(c.precision = (mh_precision)77, "precision: found 77");
    mh_mha *mha;
    const mh_mha_config c = mha_config();
    assert_int_equal(mh_mha_create(NULL, &c, &mha), MH_ERROR_ARGUMENT);
}

static mh_transformer_config transformer_config(mh_transformer_kind kind)
{
    mh_transformer_config c = mh_transformer_config_default();
    c.kind = kind;
    c.d_model = D;
    c.nhead = H;
    c.dim_feedforward = F;
    c.num_encoder_layers = c.num_decoder_layers = 2;
    return c;
}

static void refuse_transformer(mh_context *context, const mh_transformer_config *config,
                               const char *word)
{
    mh_transformer *t = (mh_transformer *)context;
    test_refused(context, mh_transformer_create(context, config, &t), MH_ERROR_ARGUMENT, word);
    assert_null(t);
}

#define REFUSE_TRANSFORMER(change, word)                                                           \
    do {                                                                                           \
        mh_transformer_config c = transformer_config(MH_TRANSFORMER);                              \
        change;                                                                                    \
        refuse_transformer(*state, &c, word);                                                      \
    } while (0)

static void transformer_configs(void **state)
{
    refuse_transformer(*state, NULL, "config");
    REFUSE_TRANSFORMER(c.struct_size = 8, "config");
    REFUSE_TRANSFORMER(c.kind = (mh_transformer_kind)9, "kind: found 9");
    REFUSE_TRANSFORMER(c.d_model = 0, "d_model: found 0");
    REFUSE_TRANSFORMER(c.nhead = 5, "nhead: found 5, expected a divisor of d_model 12");
    REFUSE_TRANSFORMER(c.nhead = 0, "nhead");
    REFUSE_TRANSFORMER(c.dim_feedforward = 0, "dim_feedforward");
    REFUSE_TRANSFORMER(c.dim_feedforward = SIZE_MAX, "dim_feedforward");
    REFUSE_TRANSFORMER(c.num_encoder_layers = SIZE_MAX, "layers");
    REFUSE_TRANSFORMER(c.num_decoder_layers = SIZE_MAX, "layers");
    REFUSE_TRANSFORMER(c.activation = (mh_activation)9, "activation: found 9");
    REFUSE_TRANSFORMER(c.layer_norm_eps = -1, "layer_norm_eps");
    REFUSE_TRANSFORMER(c.layer_norm_eps = (float)NAN, "layer_norm_eps");
    REFUSE_TRANSFORMER(c.dropout = 2, "dropout: found 2");
    REFUSE_TRANSFORMER(c.precision = (mh_precision)77, "precision");
}

// ---- calls of mh_mha ----------------------------------------------------------------------------

// A correct call, of which a test spoils one thing.
typedef struct mha_call {
    mh_context *context;
    mh_mha *mha;
    test_tensor tensors[8];
    mh_tensor q, k, v, out, dq, dk, dv, weights;
    const mh_tensor *weights_or_none, *dk_or_none;
    mh_mha_options options;
    float *gradients;
    mh_tape *tape;
} mha_call;

static mha_call mha_call_create(mh_context *context, const mh_mha_config *config)
{
    mha_call c = {.context = context, .options = mh_mha_options_default()};
    test_rng rng = {1};
    test_ok(context, mh_mha_create(context, config, &c.mha));
    nn_randomise(mh_mha_parameters(c.mha), 1);
    mh_tensor *views[8] = {&c.q, &c.k, &c.v, &c.out, &c.dq, &c.dk, &c.dv, &c.weights};
    const size_t lengths[8] = {T, S, S, T, T, S, S, T};
    for (size_t i = 0; i < 8; i++) {
        c.tensors[i] = i == 7 ? test_tensor_dense(MH_F32, 3, (size_t[]){B, T, S})
                              : nn_tensor(&rng, MH_F32, false, false, B, lengths[i], D, true);
        *views[i] = c.tensors[i].view;
    }
    c.gradients = ref_alloc(mh_mha_parameters(c.mha)->floats, sizeof(float));
    test_ok(context, mh_tape_create(context, &c.tape));
    c.options.tape = c.tape;
    return c;
}

static void mha_call_free(mha_call *c)
{
    for (size_t i = 0; i < 8; i++)
        test_tensor_free(&c->tensors[i]);
    free(c->gradients);
    mh_tape_free(c->tape);
    mh_mha_free(c->mha);
}

static mh_status mha_forward(mha_call *c)
{
    return mh_mha_forward(c->context, c->mha, &c->options, &c->q, &c->k, &c->v, &c->out,
                          c->weights_or_none);
}

static mh_status mha_backward(mha_call *c)
{
    return mh_mha_backward(c->context, c->mha, &c->options, &c->q, &c->k, &c->v, &c->out,
                           c->gradients, &c->dq, &c->dk, &c->dv);
}

// Forward with one thing spoilt is refused, and works without.
#define REFUSE_FORWARD(change, status, word)                                                       \
    do {                                                                                           \
        mha_call c = mha_call_create(*state, &config);                                             \
        test_paint(&c.tensors[3]);                                                                 \
        test_paint(&c.tensors[7]);                                                                 \
        const mha_call fine = c;                                                                   \
        change;                                                                                    \
        test_refused(*state, mha_forward(&c), status, word);                                       \
        assert_true(test_untouched(&c.tensors[3]) && test_untouched(&c.tensors[7]));               \
        c = fine;                                                                                  \
        test_ok(*state, mha_forward(&c));                                                          \
        mha_call_free(&c);                                                                         \
    } while (0)

static void mha_forwards(void **state)
{
    const mh_mha_config config = mha_config();
    static bool bytes[B * H * T * S];
    static float numbers[B * H * T * S];
    static int64_t integers[T * S];
    const mh_tensor narrow = mh_tensor_2d(bytes, MH_BOOL, B, S - 1);
    const mh_tensor turned = mh_tensor_2d(bytes, MH_BOOL, S, B);
    const mh_tensor heads = mh_tensor_3d(numbers, MH_F32, H, T, S);
    const mh_tensor wrong = mh_tensor_2d(integers, MH_I64, T, S);
    const mh_tensor nothing = mh_tensor_2d(NULL, MH_F32, T, S);
    REFUSE_FORWARD(c.options.struct_size = 4, MH_ERROR_ARGUMENT, "struct_size");
    REFUSE_FORWARD(c.options.attention.struct_size = 4, MH_ERROR_ARGUMENT, "struct_size");
    REFUSE_FORWARD(c.mha = NULL, MH_ERROR_ARGUMENT, "mha");
    REFUSE_FORWARD(c.q.rank = 1, MH_ERROR_ARGUMENT, "query");
    REFUSE_FORWARD(c.q.rank = 2, MH_ERROR_ARGUMENT, "query");
    REFUSE_FORWARD(c.q.shape[2] = D - 1, MH_ERROR_ARGUMENT, "query");
    REFUSE_FORWARD(c.k.shape[2] = D - 1, MH_ERROR_ARGUMENT, "key");
    REFUSE_FORWARD(c.v.shape[2] = D - 1, MH_ERROR_ARGUMENT, "value");
    REFUSE_FORWARD(c.q.dtype = MH_I32, MH_ERROR_UNSUPPORTED, "query: found dtype i32");
    REFUSE_FORWARD(c.k.dtype = MH_F64, MH_ERROR_UNSUPPORTED, "key: found dtype f64");
    REFUSE_FORWARD(c.v.dtype = MH_BOOL, MH_ERROR_UNSUPPORTED, "value: found dtype bool");
    REFUSE_FORWARD(c.out.dtype = MH_F64, MH_ERROR_UNSUPPORTED, "output: found dtype f64");
    REFUSE_FORWARD(c.q.data = NULL, MH_ERROR_ARGUMENT, "query: data is NULL");
    REFUSE_FORWARD(c.k.shape[1] = B - 1, MH_ERROR_ARGUMENT, "one batch");
    REFUSE_FORWARD(c.v.shape[0] = S - 1, MH_ERROR_ARGUMENT, "one length");
    REFUSE_FORWARD(c.out.shape[0] = T - 1, MH_ERROR_ARGUMENT, "output");
    REFUSE_FORWARD(c.out.shape[1] = B - 1, MH_ERROR_ARGUMENT, "output");
    REFUSE_FORWARD(c.q.shape[0] = (size_t)1 << 62, MH_ERROR_ARGUMENT, "query");
    REFUSE_FORWARD((c.q.shape[0] = (size_t)1 << 40, c.q.stride[0] = 0), MH_ERROR_ARGUMENT, "query");
    REFUSE_FORWARD(c.options.key_padding_mask = &narrow, MH_ERROR_ARGUMENT,
                   "key_padding_mask: found bool (2, 4), expected (2, 5)");
    REFUSE_FORWARD(c.options.key_padding_mask = &turned, MH_ERROR_ARGUMENT, "key_padding_mask");
    REFUSE_FORWARD(c.options.attn_mask = &narrow, MH_ERROR_ARGUMENT, "attn_mask");
    REFUSE_FORWARD(c.options.attn_mask = &heads, MH_ERROR_ARGUMENT, "attn_mask");
    REFUSE_FORWARD(c.options.attn_mask = &wrong, MH_ERROR_UNSUPPORTED, "attn_mask");
    REFUSE_FORWARD(c.options.attn_mask = &nothing, MH_ERROR_ARGUMENT, "attn_mask: data is NULL");
    REFUSE_FORWARD(c.options.attention.sequences = 1, MH_ERROR_ARGUMENT, "sequences");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.weights.rank = 4), MH_ERROR_ARGUMENT,
                   "weights");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.weights.shape[2] = S - 1), MH_ERROR_ARGUMENT,
                   "weights");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.weights.dtype = MH_I32), MH_ERROR_UNSUPPORTED,
                   "weights");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.options.per_head_weights = true),
                   MH_ERROR_ARGUMENT, "weights");
}

static void mha_missing_tensors(void **state)
{
    const mh_mha_config config = mha_config();
    mha_call c = mha_call_create(*state, &config);
    const mh_tensor *all[4] = {&c.q, &c.k, &c.v, &c.out};
    static const char *const names[4] = {"query", "key", "value", "output"};
    for (int i = 0; i < 4; i++) {
        const mh_tensor *t[4];
        memcpy(t, all, sizeof t);
        t[i] = NULL;
        test_refused(*state, mh_mha_forward(*state, c.mha, NULL, t[0], t[1], t[2], t[3], NULL),
                     MH_ERROR_ARGUMENT, names[i]);
    }
    mha_call_free(&c);
}

// A correct forward, then a backward with one thing spoilt.
#define REFUSE_BACKWARD(change, status, word)                                                      \
    do {                                                                                           \
        mha_call c = mha_call_create(*state, &config);                                             \
        test_ok(*state, mha_forward(&c));                                                          \
        for (int i = 4; i < 7; i++)                                                                \
            test_paint(&c.tensors[i]);                                                             \
        const mha_call fine = c;                                                                   \
        change;                                                                                    \
        test_refused(*state, mha_backward(&c), status, word);                                      \
        for (int i = 4; i < 7; i++)                                                                \
            assert_true(test_untouched(&c.tensors[i]));                                            \
        c = fine;                                                                                  \
        test_ok(*state, mha_backward(&c));                                                         \
        mha_call_free(&c);                                                                         \
    } while (0)

static void mha_backwards(void **state)
{
    const mh_mha_config config = mha_config();
    static bool bytes[B * S];
    const mh_tensor padding = mh_tensor_2d(bytes, MH_BOOL, B, S);
    mh_tape *empty;
    test_ok(*state, mh_tape_create(*state, &empty));
    REFUSE_BACKWARD(c.options.tape = NULL, MH_ERROR_ARGUMENT, "tape");
    REFUSE_BACKWARD(c.options.tape = empty, MH_ERROR_ARGUMENT, "tape");
    REFUSE_BACKWARD(c.q.shape[0] = T - 1, MH_ERROR_ARGUMENT, "output");
    REFUSE_BACKWARD((c.q.shape[0] = c.out.shape[0] = c.dq.shape[0] = T - 1), MH_ERROR_ARGUMENT,
                    "of the forward pass");
    REFUSE_BACKWARD((c.k.shape[0] = c.v.shape[0] = S - 1, c.dk.shape[0] = c.dv.shape[0] = S - 1),
                    MH_ERROR_ARGUMENT, "of the forward pass");
    REFUSE_BACKWARD((c.v = c.k), MH_ERROR_ARGUMENT, "dvalue");
    REFUSE_BACKWARD(c.k.stride[0] = 2 * c.k.stride[0], MH_ERROR_ARGUMENT, "strides of the forward");
    REFUSE_BACKWARD(c.options.key_padding_mask = &padding, MH_ERROR_ARGUMENT,
                    "those of the forward pass");
    REFUSE_BACKWARD(c.dq.dtype = MH_F64, MH_ERROR_UNSUPPORTED, "dquery");
    REFUSE_BACKWARD(c.dk.shape[0] = S + 1, MH_ERROR_ARGUMENT, "dkey");
    REFUSE_BACKWARD(c.dv.rank = 2, MH_ERROR_ARGUMENT, "dvalue");
    mh_tape_free(empty);

    mha_call a = mha_call_create(*state, &config), b = mha_call_create(*state, &config);
    test_ok(*state, mha_forward(&a));
    b.options.tape = a.tape; // another module's
    test_refused(*state, mha_backward(&b), MH_ERROR_ARGUMENT, "tape");
    a.out.rank = 1; // after a forward that failed there is nothing to go back through
    test_refused(*state, mha_forward(&a), MH_ERROR_ARGUMENT, "output");
    mha_call_free(&a);
    mha_call_free(&b);
}

static void mha_caches_and_further_keys(void **state)
{
    mh_mha_config config = mha_config();
    mh_kv_cache_options o = mh_kv_cache_options_default();
    mh_kv_cache *cache;
    o.sequences = B;
    o.heads = H;
    o.key_width = D / H;
    test_ok(*state, mh_kv_cache_create(*state, &o, &cache));
    REFUSE_FORWARD(c.options.cache = cache, MH_ERROR_ARGUMENT, "backward through a cache");
    // Keys that a call has appended before it failed are gone again.
    REFUSE_FORWARD((c.options.cache = cache, c.options.tape = NULL, c.weights_or_none = &c.weights,
                    c.weights.shape[2] = S + 1),
                   MH_ERROR_ARGUMENT, "weights");
    assert_int_equal(mh_kv_cache_length(cache, 0), 0);
    assert_int_equal(mh_kv_cache_length(cache, 1), 0);
    config.add_bias_kv = true;
    REFUSE_FORWARD((c.options.cache = cache, c.options.tape = NULL), MH_ERROR_ARGUMENT, "cache");
    REFUSE_FORWARD(c.options.attention.causal = MH_CAUSAL_TOP_LEFT, MH_ERROR_UNSUPPORTED,
                   "add_bias_kv");
    REFUSE_FORWARD(c.options.attention.window_left = 2, MH_ERROR_UNSUPPORTED, "add_bias_kv");
    mh_kv_cache_free(cache);
}

// ---- calls of mh_transformer --------------------------------------------------------------------

typedef struct call {
    mh_context *context;
    mh_transformer *module;
    test_tensor tensors[5];
    mh_tensor src, tgt, out, dsrc, dtgt;
    const mh_tensor *tgt_or_none;
    mh_transformer_options options;
    float *gradients;
    mh_tape *tape;
} call;

static void call_create(mh_context *context, mh_transformer_kind kind, call *c)
{
    const mh_transformer_config config = transformer_config(kind);
    const bool encoder = kind == MH_ENCODER || kind == MH_ENCODER_LAYER;
    test_rng rng = {1};
    *c = (call){.context = context, .options = mh_transformer_options_default()};
    test_ok(context, mh_transformer_create(context, &config, &c->module));
    nn_randomise(mh_transformer_parameters(c->module), 1);
    mh_tensor *views[5] = {&c->src, &c->tgt, &c->out, &c->dsrc, &c->dtgt};
    const size_t lengths[5] = {S, T, encoder ? S : T, S, T};
    for (size_t i = 0; i < 5; i++) {
        c->tensors[i] = nn_tensor(&rng, MH_F32, false, false, B, lengths[i], D, true);
        *views[i] = c->tensors[i].view;
    }
    c->tgt_or_none = encoder ? NULL : &c->tgt;
    c->gradients = ref_alloc(mh_transformer_parameters(c->module)->floats, sizeof(float));
    test_ok(context, mh_tape_create(context, &c->tape));
    c->options.tape = c->tape;
}

static void call_free(call *c)
{
    for (size_t i = 0; i < 5; i++)
        test_tensor_free(&c->tensors[i]);
    free(c->gradients);
    mh_tape_free(c->tape);
    mh_transformer_free(c->module);
}

static mh_status forward(call *c)
{
    return mh_transformer_forward(c->context, c->module, &c->options, &c->src, c->tgt_or_none,
                                  &c->out);
}

static mh_status backward(call *c)
{
    return mh_transformer_backward(c->context, c->module, &c->options, &c->src, c->tgt_or_none,
                                   &c->out, c->gradients, &c->dsrc,
                                   c->tgt_or_none ? &c->dtgt : NULL);
}

#define REFUSE(kind, change, status, word)                                                         \
    do {                                                                                           \
        call c, fine;                                                                              \
        call_create(*state, kind, &fine);                                                          \
        c = fine;                                                                                  \
        c.tgt_or_none = fine.tgt_or_none ? &c.tgt : NULL;                                          \
        test_paint(&c.tensors[2]);                                                                 \
        change;                                                                                    \
        test_refused(*state, forward(&c), status, word);                                           \
        assert_true(test_untouched(&c.tensors[2]));                                                \
        test_ok(*state, forward(&fine));                                                           \
        call_free(&fine);                                                                          \
    } while (0)

static void tensors(void **state)
{
    static bool bytes[2 * B * H * S * S];
    const mh_tensor narrow = mh_tensor_2d(bytes, MH_BOOL, B, S + 2);
    const mh_tensor deep = mh_tensor_3d(bytes, MH_BOOL, B * H + 1, T, S);
    const struct {
        const char *name;
        size_t offset;
    } masks[6] = {
        {"src_mask", offsetof(mh_transformer_options, src_mask)},
        {"tgt_mask", offsetof(mh_transformer_options, tgt_mask)},
        {"memory_mask", offsetof(mh_transformer_options, memory_mask)},
        {"src_key_padding_mask", offsetof(mh_transformer_options, src_key_padding_mask)},
        {"tgt_key_padding_mask", offsetof(mh_transformer_options, tgt_key_padding_mask)},
        {"memory_key_padding_mask", offsetof(mh_transformer_options, memory_key_padding_mask)}};
    for (size_t i = 0; i < 6; i++) {
        REFUSE(MH_TRANSFORMER,
               *(const mh_tensor **)((char *)&c.options + masks[i].offset) = &narrow,
               MH_ERROR_ARGUMENT, masks[i].name);
        REFUSE(MH_TRANSFORMER, *(const mh_tensor **)((char *)&c.options + masks[i].offset) = &deep,
               MH_ERROR_ARGUMENT, masks[i].name);
    }
    REFUSE(MH_TRANSFORMER, c.options.struct_size = 1, MH_ERROR_ARGUMENT, "struct_size");
    REFUSE(MH_TRANSFORMER, c.module = NULL, MH_ERROR_ARGUMENT, "transformer");
    REFUSE(MH_TRANSFORMER, c.tgt_or_none = NULL, MH_ERROR_ARGUMENT, "tgt: found NULL");
    REFUSE(MH_ENCODER, c.tgt_or_none = &c.tgt, MH_ERROR_ARGUMENT, "NULL for an encoder");
    REFUSE(MH_DECODER, c.src.shape[2] = D + 1, MH_ERROR_ARGUMENT, "src");
    REFUSE(MH_ENCODER_LAYER, c.src.rank = 1, MH_ERROR_ARGUMENT, "src");
    REFUSE(MH_ENCODER, c.src.dtype = MH_I64, MH_ERROR_UNSUPPORTED, "src: found dtype i64");
    REFUSE(MH_DECODER_LAYER, c.tgt.dtype = MH_U8, MH_ERROR_UNSUPPORTED, "tgt: found dtype u8");
    REFUSE(MH_TRANSFORMER, c.out.dtype = MH_F64, MH_ERROR_UNSUPPORTED, "output: found dtype f64");
    REFUSE(MH_TRANSFORMER, c.out.shape[0] = T - 1, MH_ERROR_ARGUMENT, "output");
    REFUSE(MH_TRANSFORMER, c.src.shape[1] = B - 1, MH_ERROR_ARGUMENT, "number of sequences");
    REFUSE(MH_TRANSFORMER, c.src.data = NULL, MH_ERROR_ARGUMENT, "src: data is NULL");
}

static void packed_batches(void **state)
{
    static const int64_t good[3] = {0, 2, 8}, late[3] = {1, 2, 8}, turned[3] = {0, 9, 8},
                         beyond[3] = {0, 2, 11}, negative[3] = {0, -2, 8};
    static bool bytes[S * S];
    const mh_tensor mask = mh_tensor_2d(bytes, MH_BOOL, S, S);
    // (rows, D) of src and tgt: 10 and 8 rows
#define PACK                                                                                       \
    c.src = mh_tensor_2d(c.src.data, MH_F32, B * S, D);                                            \
    c.tgt = mh_tensor_2d(c.tgt.data, MH_F32, B * T, D);                                            \
    c.out = mh_tensor_2d(c.out.data, MH_F32, B * T, D);                                            \
    c.options.sequences = 2;                                                                       \
    c.options.tgt_starts = good;                                                                   \
    c.options.src_starts = (const int64_t[]){0, 4, 10}
    REFUSE(MH_TRANSFORMER, PACK; c.options.tgt_starts = late, MH_ERROR_ARGUMENT, "tgt_starts[0]");
    REFUSE(MH_TRANSFORMER, PACK; c.options.tgt_starts = turned, MH_ERROR_ARGUMENT, "tgt_starts[2]");
    REFUSE(MH_TRANSFORMER, PACK; c.options.tgt_starts = beyond, MH_ERROR_ARGUMENT, "tgt_starts[2]");
    REFUSE(MH_TRANSFORMER, PACK;
           c.options.tgt_starts = negative, MH_ERROR_ARGUMENT, "tgt_starts[1]: found -2");
    REFUSE(MH_TRANSFORMER, PACK; c.options.src_starts = good, MH_ERROR_ARGUMENT, "src_starts[2]");
    REFUSE(MH_TRANSFORMER, PACK; c.options.src_starts = NULL, MH_ERROR_ARGUMENT, "src");
    REFUSE(MH_TRANSFORMER, PACK;
           c.options.src_mask = &mask, MH_ERROR_ARGUMENT, "src_mask: not for a packed batch");
    REFUSE(MH_TRANSFORMER, c.options.sequences = 2, MH_ERROR_ARGUMENT, "src");
#undef PACK
}

static void taps(void **state)
{
    static float numbers[B * H * S * S];
    mh_tap tap = {.weights = mh_tensor_4d(numbers, MH_F32, B, H, S, S)}, two[2];
#define TAP(spoil) spoil, c.options.taps = &tap, c.options.tap_count = 1
    REFUSE(MH_TRANSFORMER, TAP(tap.layer = 2), MH_ERROR_ARGUMENT, "taps[0].layer: found 2");
    tap.layer = 0;
    REFUSE(MH_TRANSFORMER, TAP(tap.kind = (mh_tap_kind)5), MH_ERROR_ARGUMENT, "taps[0].kind");
    REFUSE(MH_ENCODER, TAP(tap.kind = MH_TAP_CROSS), MH_ERROR_ARGUMENT, "taps[0].layer");
    REFUSE(MH_DECODER, TAP(tap.kind = MH_TAP_ENCODER), MH_ERROR_ARGUMENT, "taps[0].layer");
    REFUSE(MH_TRANSFORMER, TAP(tap.weights.shape[3] = S - 1), MH_ERROR_ARGUMENT, "weights");
#undef TAP
    tap.weights.shape[3] = S;
    two[0] = two[1] = tap;
    REFUSE(MH_TRANSFORMER, (c.options.taps = two, c.options.tap_count = 2), MH_ERROR_ARGUMENT,
           "taps[1]");
    REFUSE(MH_TRANSFORMER, c.options.tap_count = 2, MH_ERROR_ARGUMENT, "taps");
}

static void backwards(void **state)
{
    call c, other;
    call_create(*state, MH_TRANSFORMER, &c);
    call_create(*state, MH_TRANSFORMER, &other);
    c.tgt_or_none = &c.tgt;
    other.tgt_or_none = &other.tgt;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "tape");
    test_ok(*state, forward(&c));
    other.options.tape = c.tape;
    test_refused(*state, backward(&other), MH_ERROR_ARGUMENT, "tape");
    c.options.tape = NULL;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "tape");
    c.options.tape = c.tape;
    const call fine = c;
    c.src.shape[0] = c.dsrc.shape[0] = S - 1;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "src: expected the shape");
    c = fine;
    c.tgt.shape[0] = c.dtgt.shape[0] = c.out.shape[0] = T - 1;
    c.tgt_or_none = &c.tgt;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "tgt: expected the shape");
    c = fine;
    c.tgt_or_none = &c.tgt;
    c.dsrc.shape[0] = S - 1;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "dsrc");
    c = fine;
    c.tgt_or_none = &c.tgt;
    c.dtgt.dtype = MH_I32;
    test_refused(*state, backward(&c), MH_ERROR_UNSUPPORTED, "dtgt");
    c = fine;
    c.tgt_or_none = &c.tgt;
    c.options.recompute = true; // the tape knows better
    test_ok(*state, backward(&c));
    call_free(&c);
    call_free(&other);
}

// ---- decoding -----------------------------------------------------------------------------------

static void decodings(void **state)
{
    call c, encoder;
    call_create(*state, MH_DECODER, &c);
    call_create(*state, MH_ENCODER, &encoder);
    mh_decoding *d = (mh_decoding *)&c;
    static const int64_t lengths[3][B] = {{S, S}, {S + 1, 1}, {0, -1}};
    const mh_tensor bad = mh_tensor_2d(c.src.data, MH_I32, S, D);
#define CREATE(module, memory, lengths, copies)                                                    \
    mh_decoding_create(*state, module, memory, lengths, copies, &d)
    test_refused(*state, CREATE(encoder.module, &c.src, NULL, 1), MH_ERROR_ARGUMENT, "transformer");
    assert_null(d);
    test_refused(*state, CREATE(c.module, NULL, NULL, 1), MH_ERROR_ARGUMENT, "memory");
    test_refused(*state, CREATE(c.module, &bad, NULL, 1), MH_ERROR_UNSUPPORTED, "memory");
    test_refused(*state, CREATE(c.module, &c.src, NULL, 0), MH_ERROR_ARGUMENT, "copies: found 0");
    test_refused(*state, CREATE(c.module, &c.src, NULL, SIZE_MAX), MH_ERROR_ARGUMENT, "copies");
    test_refused(*state, CREATE(c.module, &c.src, lengths[1], 1), MH_ERROR_ARGUMENT,
                 "lengths[0]: found 6, expected 0 to 5");
    test_refused(*state, CREATE(c.module, &c.src, lengths[2], 1), MH_ERROR_ARGUMENT, "lengths[1]");
    test_ok(*state, CREATE(c.module, &c.src, lengths[0], 1));
#undef CREATE
    mh_tensor tgt = c.tgt, out = c.out;
    test_paint(&c.tensors[2]);
    tgt.shape[1] = out.shape[1] = B - 1;
    test_refused(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out), MH_ERROR_ARGUMENT,
                 "tgt, output: found 1 sequences");
    tgt = c.tgt, out = c.out;
    out.shape[0] = T - 1;
    test_refused(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out), MH_ERROR_ARGUMENT,
                 "tgt");
    out = c.out;
    tgt.dtype = MH_I32;
    test_refused(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out), MH_ERROR_UNSUPPORTED,
                 "tgt");
    tgt = c.tgt;
    static float numbers[B * H * T * S];
    mh_tap tap = {.kind = MH_TAP_DECODER, .weights = mh_tensor_4d(numbers, MH_F32, B, H, T, T)};
    tap.layer = 2;
    test_refused(*state, mh_decoding_step(*state, d, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "taps[0].layer");
    tap.layer = 0;
    tap.kind = MH_TAP_ENCODER;
    test_refused(*state, mh_decoding_step(*state, d, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "taps[0].kind");
    tap.kind = MH_TAP_CROSS;
    tap.layer = 1;
    tap.weights.shape[3] = S + 1; // noticed in the second layer, when the first has gone on
    test_refused(*state, mh_decoding_step(*state, d, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "weights");
    assert_true(test_untouched(&c.tensors[2]));
    test_refused(*state, mh_decoding_reorder(*state, d, NULL), MH_ERROR_ARGUMENT, "parents");
    test_refused(*state, mh_decoding_reorder(*state, d, (const size_t[]){0, B}), MH_ERROR_ARGUMENT,
                 "parents[1]: found 2");
    test_refused(*state, mh_decoding_select(*state, d, (const size_t[]){0}, 0), MH_ERROR_ARGUMENT,
                 "count: found 0");
    // After all of this it is where it was.
    test_ok(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out));
    float *found = ref_alloc(T * B * D, sizeof *found);
    memcpy(found, out.data, T * B * D * sizeof *found);
    c.tgt_or_none = &c.tgt;
    c.options.tgt_causal = true;
    test_ok(*state, forward(&c));
    nn_same_bits("after refusals", T * B * D, found, out.data);
    free(found);
    mh_decoding_free(d);
    call_free(&c);
    call_free(&encoder);
}

static void encoding(void **state)
{
    call whole, decoder;
    call_create(*state, MH_TRANSFORMER, &whole);
    call_create(*state, MH_DECODER, &decoder);
    const mh_tensor memory = mh_tensor_3d(whole.dsrc.data, MH_F32, S, B, D);
    mh_transformer_options o = mh_transformer_options_default();
    test_ok(*state, mh_transformer_encode(*state, whole.module, &o, &whole.src, &memory));
    test_refused(*state, mh_transformer_encode(*state, decoder.module, &o, &whole.src, &memory),
                 MH_ERROR_ARGUMENT, "encoder");
    test_refused(*state, mh_transformer_encode(*state, whole.module, &o, &whole.src, &whole.out),
                 MH_ERROR_ARGUMENT, "output: found");
    o.tape = whole.tape;
    test_refused(*state, mh_transformer_encode(*state, whole.module, &o, &whole.src, &memory),
                 MH_ERROR_ARGUMENT, "tape");
    call_free(&whole);
    call_free(&decoder);
}

// ---- no memory ----------------------------------------------------------------------------------

typedef struct storage {
    float src[S * B * D], tgt[T * B * D], out[T * B * D], dsrc[S * B * D], steps[T * 2 * B * D];
    float gradients[20000];
} storage;

// A module, forward, backward; then decoding with beams, step by step.
static mh_status use_transformer(mh_context *context, storage *s)
{
    const mh_transformer_config config = transformer_config(MH_TRANSFORMER);
    const mh_tensor src = mh_tensor_3d(s->src, MH_F32, S, B, D);
    const mh_tensor tgt = mh_tensor_3d(s->tgt, MH_F32, T, B, D);
    const mh_tensor out = mh_tensor_3d(s->out, MH_F32, T, B, D);
    const mh_tensor dsrc = mh_tensor_3d(s->dsrc, MH_F32, S, B, D);
    const mh_tensor twice = mh_tensor_3d(s->steps, MH_F32, T, 2 * B, D);
    static const size_t parents[2 * B] = {1, 1, 2, 2};
    mh_transformer *t = NULL;
    mh_decoding *d = NULL;
    mh_transformer_options o = mh_transformer_options_default();
    mh_status status = mh_transformer_create(context, &config, &t);
    if (!status) {
        assert_true(mh_transformer_parameters(t)->floats <= 20000);
        nn_randomise(mh_transformer_parameters(t), 1);
        status = mh_transformer_forward(context, t, &o, &src, &tgt, &out);
    }
    if (!status)
        status = mh_tape_create(context, &o.tape);
    if (!status)
        status = mh_transformer_forward(context, t, &o, &src, &tgt, &out);
    if (!status)
        status =
            mh_transformer_backward(context, t, &o, &src, &tgt, &out, s->gradients, &dsrc, NULL);
    if (!status)
        status = mh_decoding_create(context, t, &src, NULL, 2, &d);
    for (size_t i = 0; i < T && !status; i++) {
        const mh_tensor step = mh_tensor_slice(twice, 0, i, 1);
        status = mh_decoding_step(context, d, NULL, 0, &step, &step);
        if (!status && i == 1)
            status = mh_decoding_reorder(context, d, parents);
    }
    mh_decoding_free(d);
    mh_tape_free(o.tape);
    mh_transformer_free(t);
    return status;
}

static mh_status use_mha(mh_context *context, storage *s)
{
    mh_mha_config config = mha_config();
    config.add_bias_kv = config.sinks = true;
    const mh_tensor q = mh_tensor_3d(s->src, MH_F32, S, B, D);
    const mh_tensor k = mh_tensor_swap(mh_tensor_3d(s->dsrc, MH_F32, B, S, D), 0, 1);
    const mh_tensor out = mh_tensor_swap(mh_tensor_3d(s->steps, MH_F32, B, S, D), 0, 1);
    mh_mha_options o = mh_mha_options_default();
    mh_mha *mha = NULL;
    mh_status status = mh_mha_create(context, &config, &mha);
    if (!status)
        status = mh_mha_forward(context, mha, &o, &q, &k, &k, &out, NULL);
    if (!status)
        status = mh_tape_create(context, &o.tape);
    if (!status)
        status = mh_mha_forward(context, mha, &o, &q, &k, &k, &out, NULL);
    if (!status)
        status =
            mh_mha_backward(context, mha, &o, &q, &k, &k, &out, s->gradients, NULL, NULL, NULL);
    mh_tape_free(o.tape);
    mh_mha_free(mha);
    return status;
}

static void fail_everywhere(mh_status (*use)(mh_context *context, storage *s))
{
    static storage s;
    bool failed = true;
    size_t n = 1, errors = 0;
    for (; failed; n++) {
        assert_true(n < 1000);
        test_memory memory = {.fail_at = n};
        mh_context_options options = mh_context_options_default();
        mh_context *context = NULL;
        options.threads = 2;
        options.allocator = test_allocator(&memory);
        mh_status status = mh_context_create(&options, &context, NULL, 0);
        if (!status)
            status = use(context, &s);
        failed = memory.calls >= n;
        errors += status == MH_ERROR_MEMORY;
        // Scratch memory that cannot grow by a quarter may still grow by what is needed.
        assert_true(status == MH_OK || (failed && status == MH_ERROR_MEMORY));
        if (context && status) {
            assert_true(strlen(mh_error_message(context)) > 0);
            test_ok(context, use(context, &s)); // it was only that once
        }
        mh_context_free(context);
        assert_int_equal(memory.live, 0);
    }
    print_message("%zu allocations failed in turn, %zu with an error\n", n - 2, errors);
    assert_true(errors > 9 && errors + 5 > n - 2);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_everywhere(use_transformer);
    fail_everywhere(use_mha);
}

// Steps of a decoding: whichever allocation fails, the step may be tried again, to the same bits.
static void steps_may_be_tried_again(void **state)
{
    (void)state;
    static storage s;
    float expected[T * B * D], found[T * B * D];
    test_rng rng = {4};
    size_t failures = 0;
    for (size_t i = 0; i < S * B * D; i++)
        s.src[i] = (float)test_normal(&rng);
    for (size_t i = 0; i < T * B * D; i++)
        s.tgt[i] = (float)test_normal(&rng);
    const mh_transformer_config config = transformer_config(MH_DECODER);
    const mh_tensor src = mh_tensor_3d(s.src, MH_F32, S, B, D);
    const mh_tensor tgt = mh_tensor_3d(s.tgt, MH_F32, T, B, D);
    for (size_t n = 0; n < 40; n++) {
        test_memory memory = {0};
        mh_context_options options = mh_context_options_default();
        mh_context *context;
        mh_transformer *t;
        mh_decoding *d;
        options.threads = 1;
        options.allocator = test_allocator(&memory);
        test_ok(NULL, mh_context_create(&options, &context, NULL, 0));
        test_ok(context, mh_transformer_create(context, &config, &t));
        nn_randomise(mh_transformer_parameters(t), 1);
        test_ok(context, mh_decoding_create(context, t, &src, NULL, 1, &d));
        const mh_tensor out = mh_tensor_3d(n ? found : expected, MH_F32, T, B, D);
        memory.fail_at = n ? memory.calls + n : 0;
        for (size_t i = 0; i < T; i++) {
            const mh_tensor x = mh_tensor_slice(tgt, 0, i, 1), y = mh_tensor_slice(out, 0, i, 1);
            const mh_status status = mh_decoding_step(context, d, NULL, 0, &x, &y);
            failures += status == MH_ERROR_MEMORY;
            if (status)
                test_ok(context, mh_decoding_step(context, d, NULL, 0, &x, &y));
        }
        if (n)
            nn_same_bits("a step tried again", T * B * D, expected, found);
        mh_decoding_free(d);
        mh_transformer_free(t);
        mh_context_free(context);
        assert_int_equal(memory.live, 0);
    }
    assert_true(failures > 0);
}

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mha_configs),
        cmocka_unit_test(transformer_configs),
        cmocka_unit_test(mha_forwards),
        cmocka_unit_test(mha_missing_tensors),
        cmocka_unit_test(mha_backwards),
        cmocka_unit_test(mha_caches_and_further_keys),
        cmocka_unit_test(tensors),
        cmocka_unit_test(packed_batches),
        cmocka_unit_test(taps),
        cmocka_unit_test(backwards),
        cmocka_unit_test(decodings),
        cmocka_unit_test(encoding),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(steps_may_be_tried_again),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
