// SPDX-License-Identifier: MIT
// What mh_mha refuses, with a message that names it: configs, tensors, masks, tapes, caches;
// nothing is written then, and the next call works.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>

enum { B = 2, S = 5, T = 4, D = 12, H = 3 };

// ---- configs ------------------------------------------------------------------------------------

static void refuse_config(mh_context *context, const mh_mha_config *config, const char *word)
{
    mh_mha *mha = (mh_mha *)context;
    test_refused(context, mh_mha_create(context, config, &mha), MH_ERROR_ARGUMENT, word);
    assert_null(mha);
}

#define REFUSE_CONFIG(change, word)                                                                \
    do {                                                                                           \
        mh_mha_config c = nn_mha_config(D, H);                                                     \
        change;                                                                                    \
        refuse_config(*state, &c, word);                                                           \
    } while (0)

static void configs(void **state)
{
    refuse_config(*state, NULL, "config");
    REFUSE_CONFIG(c.struct_size = 1, "config");
    REFUSE_CONFIG(c.embed_dim = 0, "embed_dim: found 0");
    REFUSE_CONFIG(c.embed_dim = SIZE_MAX, "embed_dim");
    REFUSE_CONFIG(c.num_heads = 0, "num_heads: found 0");
    REFUSE_CONFIG(c.num_heads = 5, "num_heads: found 5, expected a divisor of embed_dim 12");
    REFUSE_CONFIG((c.embed_dim = 2048, c.num_heads = 1), "expected heads of at most 1024");
    REFUSE_CONFIG(c.kv_heads = 2, "kv_heads: found 2, expected a divisor of num_heads 3");
    REFUSE_CONFIG(c.kv_heads = 6, "kv_heads");
    REFUSE_CONFIG(c.kdim = (size_t)1 << 40, "kdim");
    REFUSE_CONFIG(c.vdim = (size_t)1 << 40, "vdim");
    REFUSE_CONFIG(c.input_dim = (size_t)1 << 40, "input_dim");
    REFUSE_CONFIG((c.rope = true, c.num_heads = 4), "rope: found heads of width 3");
    REFUSE_CONFIG((c.rope = true, c.rope_base = 0), "rope");
    REFUSE_CONFIG((c.qkv = MH_QKV_INTERLEAVED, c.kdim = 5), "qkv");
    REFUSE_CONFIG((c.qkv = MH_QKV_INTERLEAVED, c.kv_heads = 1), "qkv");
    REFUSE_CONFIG(c.dropout = 1, "dropout: found 1");
    REFUSE_CONFIG(c.dropout = -0.5f, "dropout");
    REFUSE_CONFIG(c.dropout = (float)NAN, "dropout");
    REFUSE_CONFIG(c.precision = (mh_precision)77, "precision: found 77");
    mh_mha *mha;
    const mh_mha_config c = nn_mha_config(D, H);
    assert_int_equal(mh_mha_create(NULL, &c, &mha), MH_ERROR_ARGUMENT);
}

// ---- calls --------------------------------------------------------------------------------------

// A correct call, of which a test spoils one thing.
typedef struct call {
    mh_context *context;
    mh_mha *mha;
    test_tensor tensors[8];
    mh_tensor q, k, v, out, dq, dk, dv, weights;
    mh_tensor *weights_or_none, *dk_or_none;
    mh_mha_options options;
    mh_attention_options attention; // options.attention
    float *gradients;
    mh_tape *tape;
} call;

static call call_create(mh_context *context, const mh_mha_config *config)
{
    call c = {.context = context,
              .options = mh_mha_options_default(),
              .attention = mh_attention_options_default()};
    test_rng rng = {1};
    c.mha = nn_mha(context, config, 1);
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

static void call_free(call *c)
{
    for (size_t i = 0; i < 8; i++)
        test_tensor_free(&c->tensors[i]);
    free(c->gradients);
    mh_tape_free(c->tape);
    mh_mha_free(c->mha);
}

static mh_status forward(call *c)
{
    c->options.attention = &c->attention;
    return mh_mha_forward(c->context, c->mha, &c->options, &c->q, &c->k, &c->v, &c->out,
                          c->weights_or_none);
}

static mh_status backward(call *c)
{
    c->options.attention = &c->attention;
    return mh_mha_backward(c->context, c->mha, &c->options, &c->q, &c->k, &c->v, &c->out,
                           c->gradients, &c->dq, &c->dk, &c->dv);
}

// Forward with one thing spoilt is refused, and works without.
#define REFUSE_FORWARD(change, status, word)                                                       \
    do {                                                                                           \
        call c = call_create(*state, &config);                                                     \
        test_paint(&c.tensors[3]);                                                                 \
        test_paint(&c.tensors[7]);                                                                 \
        const call fine = c;                                                                       \
        change;                                                                                    \
        test_refused(*state, forward(&c), status, word);                                           \
        assert_true(test_untouched(&c.tensors[3]) && test_untouched(&c.tensors[7]));               \
        c = fine;                                                                                  \
        test_ok(*state, forward(&c));                                                              \
        call_free(&c);                                                                             \
    } while (0)

static void forwards(void **state)
{
    const mh_mha_config config = nn_mha_config(D, H);
    static bool bytes[B * H * T * S];
    static float numbers[B * H * T * S];
    static int64_t integers[T * S];
    const mh_tensor narrow = mh_tensor_2d(bytes, MH_BOOL, B, S - 1);
    const mh_tensor transposed = mh_tensor_2d(bytes, MH_BOOL, S, B);
    const mh_tensor heads = mh_tensor_3d(numbers, MH_F32, H, T, S);
    const mh_tensor wrong = mh_tensor_2d(integers, MH_I64, T, S);
    const mh_tensor nothing = mh_tensor_2d(NULL, MH_F32, T, S);
    REFUSE_FORWARD(c.options.struct_size = 4, MH_ERROR_ARGUMENT, "struct_size");
    REFUSE_FORWARD(c.attention.struct_size = 4, MH_ERROR_ARGUMENT, "struct_size");
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
    REFUSE_FORWARD(c.options.key_padding_mask = &transposed, MH_ERROR_ARGUMENT, "key_padding_mask");
    REFUSE_FORWARD(c.options.attn_mask = &narrow, MH_ERROR_ARGUMENT, "attn_mask");
    REFUSE_FORWARD(c.options.attn_mask = &heads, MH_ERROR_ARGUMENT, "attn_mask");
    REFUSE_FORWARD(c.options.attn_mask = &wrong, MH_ERROR_UNSUPPORTED, "attn_mask");
    REFUSE_FORWARD(c.options.attn_mask = &nothing, MH_ERROR_ARGUMENT, "attn_mask: data is NULL");
    REFUSE_FORWARD(c.attention.sequences = 1, MH_ERROR_ARGUMENT, "sequences");
    REFUSE_FORWARD(c.attention.mask_count = 2, MH_ERROR_ARGUMENT, "masks");
    REFUSE_FORWARD(c.attention.mask_count = SIZE_MAX, MH_ERROR_ARGUMENT, "masks");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.weights.rank = 4), MH_ERROR_ARGUMENT,
                   "weights");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.weights.shape[2] = S - 1), MH_ERROR_ARGUMENT,
                   "weights");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.weights.dtype = MH_I32), MH_ERROR_UNSUPPORTED,
                   "weights");
    REFUSE_FORWARD((c.weights_or_none = &c.weights, c.options.per_head_weights = true),
                   MH_ERROR_ARGUMENT, "weights");
}

static void missing_tensors(void **state)
{
    const mh_mha_config config = nn_mha_config(D, H);
    call c = call_create(*state, &config);
    const mh_tensor *all[4] = {&c.q, &c.k, &c.v, &c.out};
    static const char *const names[4] = {"query", "key", "value", "output"};
    for (int i = 0; i < 4; i++) {
        mh_tensor *t[4];
        memcpy(t, all, sizeof t);
        t[i] = NULL;
        test_refused(*state, mh_mha_forward(*state, c.mha, NULL, t[0], t[1], t[2], t[3], NULL),
                     MH_ERROR_ARGUMENT, names[i]);
    }
    call_free(&c);
}

// A correct forward, then a backward with one thing spoilt.
#define REFUSE_BACKWARD(change, status, word)                                                      \
    do {                                                                                           \
        call c = call_create(*state, &config);                                                     \
        test_ok(*state, forward(&c));                                                              \
        for (int i = 4; i < 7; i++)                                                                \
            test_paint(&c.tensors[i]);                                                             \
        const call fine = c;                                                                       \
        change;                                                                                    \
        test_refused(*state, backward(&c), status, word);                                          \
        for (int i = 4; i < 7; i++)                                                                \
            assert_true(test_untouched(&c.tensors[i]));                                            \
        c = fine;                                                                                  \
        test_ok(*state, backward(&c));                                                             \
        call_free(&c);                                                                             \
    } while (0)

static void backwards(void **state)
{
    const mh_mha_config config = nn_mha_config(D, H);
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

    call a = call_create(*state, &config), b = call_create(*state, &config);
    test_ok(*state, forward(&a));
    b.options.tape = a.tape; // another module's
    test_refused(*state, backward(&b), MH_ERROR_ARGUMENT, "tape");
    a.out.rank = 1; // after a forward that failed there is nothing to go back through
    test_refused(*state, forward(&a), MH_ERROR_ARGUMENT, "output");
    call_free(&a);
    call_free(&b);
}

// Hands out again what was released, if the size is the same.
typedef struct reuse {
    void *memory[64];
    size_t sizes[64];
} reuse;

static void *take_again(void *user, size_t size, size_t alignment)
{
    reuse *r = user;
    for (int i = 0; i < 64; i++)
        if (r->memory[i] && r->sizes[i] == size) {
            void *memory = r->memory[i];
            r->memory[i] = NULL;
            return memory;
        }
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void keep(void *user, void *memory, size_t size)
{
    reuse *r = user;
    for (int i = 0; i < 64 && memory; i++)
        if (!r->memory[i]) {
            r->memory[i] = memory, r->sizes[i] = size;
            return;
        }
    free(memory);
}

// A tape of a module that is gone is not that of the one that has its place now.
static void tape_of_the_dead(void **state)
{
    (void)state;
    static reuse r;
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.allocator = (mh_allocator){take_again, keep, &r, false};
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    const mh_mha_config config = nn_mha_config(D, H);
    call a = call_create(context, &config);
    test_ok(context, forward(&a));
    const uintptr_t place = (uintptr_t)a.mha;
    mh_mha_free(a.mha);
    a.mha = nn_mha(context, &config, 1);
    assert_int_equal((uintptr_t)a.mha, place);
    test_refused(context, backward(&a), MH_ERROR_ARGUMENT, "tape");
    call_free(&a);
    mh_context_free(context);
    for (int i = 0; i < 64; i++)
        free(r.memory[i]);
}

static void caches_and_further_keys(void **state)
{
    static const int64_t lengths[B] = {1, 2};
    mh_mha_config config = nn_mha_config(D, H);
    mh_kv_cache_options o = mh_kv_cache_options_default();
    mh_kv_cache *cache;
    o.sequences = B;
    o.heads = H;
    o.key_width = D / H;
    test_ok(*state, mh_kv_cache_create(*state, &o, &cache));
    REFUSE_FORWARD(c.options.cache = cache, MH_ERROR_ARGUMENT, "backward pass through a cache");
    // Keys that a call has appended before it failed are gone again.
    REFUSE_FORWARD((c.options.cache = cache, c.options.tape = NULL, c.weights_or_none = &c.weights,
                    c.weights.shape[2] = S + 1),
                   MH_ERROR_ARGUMENT, "weights");
    assert_int_equal(mh_kv_cache_length(cache, 0), 0);
    assert_int_equal(mh_kv_cache_length(cache, 1), 0);
    config.add_bias_kv = true;
    REFUSE_FORWARD((c.options.cache = cache, c.options.tape = NULL), MH_ERROR_ARGUMENT, "cache");
    REFUSE_FORWARD(c.attention.causal = MH_CAUSAL, MH_ERROR_ARGUMENT,
                   "causal: 4 queries and 5 keys need an alignment");
    REFUSE_FORWARD(c.attention.causal = (mh_causal)77, MH_ERROR_ARGUMENT, "causal: found 77");
    REFUSE_FORWARD((c.attention.causal = MH_CAUSAL_TOP_LEFT, c.attention.window_left = -2),
                   MH_ERROR_ARGUMENT, "window_left: found -2");
    REFUSE_FORWARD(c.attention.key_lengths = lengths, MH_ERROR_UNSUPPORTED, "add_bias_kv");
    REFUSE_BACKWARD(c.attention.causal = MH_CAUSAL_TOP_LEFT, MH_ERROR_ARGUMENT,
                    "those of the forward pass");
    mh_kv_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs),          cmocka_unit_test(forwards),
        cmocka_unit_test(missing_tensors),  cmocka_unit_test(backwards),
        cmocka_unit_test(tape_of_the_dead), cmocka_unit_test(caches_and_further_keys),
    };
    return cmocka_run_group_tests(tests, test_open_context, test_close_context);
}
