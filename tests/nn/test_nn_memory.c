// SPDX-License-Identifier: MIT
// When the allocator fails, at every allocation of a module: a clear status, no leak, and what was
// there goes on as if nothing had been.
#include "nn_support.h"

#include <multihead/block.h>

enum { B = 2, S = 5, T = 4, D = 12, H = 3, F = 10 };

typedef struct storage {
    float src[S * B * D], tgt[T * B * D], out[T * B * D], dsrc[S * B * D], steps[T * 2 * B * D];
    float gradients[20000];
} storage;

// A module, forward, backward; then decoding with beams, step by step.
static mh_status use_transformer(mh_context *context, void *user)
{
    storage *s = user;
    const mh_transformer_config config = nn_transformer_config(MH_TRANSFORMER, D, H, F, 2);
    const mh_tensor src = mh_tensor_3d(s->src, MH_F32, S, B, D);
    const mh_tensor tgt = mh_tensor_3d(s->tgt, MH_F32, T, B, D);
    mh_tensor out = mh_tensor_3d(s->out, MH_F32, T, B, D);
    mh_tensor dsrc = mh_tensor_3d(s->dsrc, MH_F32, S, B, D);
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
        mh_tensor step = mh_tensor_slice(twice, 0, i, 1);
        status = mh_decoding_step(context, d, NULL, 0, &step, &step);
        if (!status && i == 1)
            status = mh_decoding_reorder(context, d, parents);
    }
    mh_decoding_free(d);
    mh_tape_free(o.tape);
    mh_transformer_free(t);
    return status;
}

static mh_status use_language_model(mh_context *context, void *user)
{
    storage *s = user;
    const mh_transformer_config config = nn_transformer_config(MH_ENCODER, D, H, F, 2);
    const mh_tensor twice = mh_tensor_3d(s->steps, MH_F32, T, 2 * B, D);
    static const size_t parents[2 * B] = {1, 1, 2, 2};
    mh_transformer *t = NULL;
    mh_decoding *d = NULL;
    mh_status status = mh_transformer_create(context, &config, &t);
    if (!status)
        status = mh_decoding_create_causal(context, t, 2 * B, &d);
    for (size_t i = 0; i < T && !status; i++) {
        mh_tensor step = mh_tensor_slice(twice, 0, i, 1);
        status = mh_decoding_step(context, d, NULL, 0, &step, &step);
        if (!status && i == 1)
            status = mh_decoding_reorder(context, d, parents);
    }
    mh_decoding_free(d);
    mh_transformer_free(t);
    return status;
}

static mh_status use_mha(mh_context *context, void *user)
{
    storage *s = user;
    mh_mha_config config = nn_mha_config(D, H);
    config.add_bias_kv = config.sinks = true;
    const mh_tensor q = mh_tensor_3d(s->src, MH_F32, S, B, D);
    const mh_tensor k = mh_tensor_swap(mh_tensor_3d(s->dsrc, MH_F32, B, S, D), 0, 1);
    mh_tensor out = mh_tensor_swap(mh_tensor_3d(s->steps, MH_F32, B, S, D), 0, 1);
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

// One block with all that takes memory: two norms, own heads, positions of both kinds, a gate.
static mh_block_config all_settings(bool decoder)
{
    static mh_rope_scaling scaling;
    mh_block_config b = mh_block_config_default();
    scaling = mh_rope_scaling_default();
    b.d_model = D;
    b.num_heads = H;
    b.kv_heads = 1;
    b.head_dim = 6;
    b.value_dim = 5;
    b.order = MH_NORM_BOTH;
    b.qk_norm = b.sinks = b.rope = b.gated = true;
    b.rope_scaling = &scaling;
    b.relative_buckets = 6;
    b.window = 2;
    b.dim_feedforward = F;
    b.cross_attention = decoder;
    return b;
}

static mh_status pack_all(mh_context *context, mh_transformer *t, float *values)
{
    const mh_parameters *list = mh_transformer_parameters(t);
    mh_status status = MH_OK;
    for (size_t i = 0; i < list->count && !status; i++) {
        mh_parameter p = list->list[i];
        if (p.offset < list->floats)
            continue;
        p.offset = 0;
        const mh_tensor weight = mh_parameter_view(&p, values);
        status = mh_transformer_pack(context, t, p.name, &weight);
    }
    return status;
}

// General blocks: forward, backward, and decoding of packed matrices.
static mh_status use_blocks(mh_context *context, void *user)
{
    storage *s = user;
    const mh_block_config blocks[2] = {all_settings(false), all_settings(true)};
    const mh_block_config *const first[2] = {&blocks[0], &blocks[0]};
    const mh_block_config *const second[2] = {&blocks[1], &blocks[1]};
    mh_stack_config encoder = mh_stack_config_default(), decoder = encoder;
    encoder.layers = decoder.layers = 2;
    encoder.blocks = first;
    decoder.blocks = second;
    const mh_tensor src = mh_tensor_3d(s->src, MH_F32, B, S, D);
    const mh_tensor tgt = mh_tensor_3d(s->tgt, MH_F32, B, T, D);
    mh_tensor out = mh_tensor_3d(s->out, MH_F32, B, T, D);
    mh_tensor dsrc = mh_tensor_3d(s->dsrc, MH_F32, B, S, D);
    mh_transformer *t = NULL, *packed = NULL;
    mh_decoding *d = NULL;
    mh_transformer_options o = mh_transformer_options_default();
    mh_status status = mh_transformer_create_blocks(context, &encoder, &decoder, true, &t);
    if (!status) {
        assert_true(mh_transformer_parameters(t)->floats <= 20000);
        nn_randomise(mh_transformer_parameters(t), 1);
        status = mh_tape_create(context, &o.tape);
    }
    if (!status)
        status = mh_transformer_forward(context, t, &o, &src, &tgt, &out);
    if (!status)
        status =
            mh_transformer_backward(context, t, &o, &src, &tgt, &out, s->gradients, &dsrc, NULL);
    if (!status)
        status = mh_transformer_create_blocks(context, &encoder, &decoder, false, &packed);
    if (!status)
        status = pack_all(context, packed, s->gradients);
    if (!status)
        status = mh_decoding_create(context, packed, &src, NULL, 1, &d);
    for (size_t i = 0; i < T && !status; i++) {
        mh_tensor step = mh_tensor_slice(tgt, 1, i, 1);
        status = mh_decoding_step(context, d, NULL, 0, &step, &step);
    }
    mh_decoding_free(d);
    mh_tape_free(o.tape);
    mh_transformer_free(packed);
    mh_transformer_free(t);
    return status;
}

// Tables and a gate whose memory is the context's.
static mh_status use_layers(mh_context *context, void *user)
{
    storage *s = user;
    mh_tensor cosine = mh_tensor_2d(s->src, MH_F32, S, D);
    mh_tensor sine = mh_tensor_2d(s->dsrc, MH_F32, S, D);
    const mh_tensor gate = mh_tensor_2d(s->tgt, MH_F32, T, D), up = gate;
    mh_tensor y = mh_tensor_2d(s->out, MH_F32, T, D);
    mh_rope_options o = mh_rope_options_default();
    o.width = 2 * D;
    const mh_status status = mh_rope_tables(context, &o, &cosine, &sine);
    return status ? status : mh_glu(context, MH_GELU, &gate, &up, &y);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static storage s;
    assert_true(test_failing_allocations(NULL, 2, use_transformer, &s) > 9);
    assert_true(test_failing_allocations(NULL, 2, use_language_model, &s) > 9);
    assert_true(test_failing_allocations(NULL, 2, use_mha, &s) > 9);
    assert_true(test_failing_allocations(NULL, 2, use_blocks, &s) > 30);
    assert_true(test_failing_allocations(NULL, 2, use_layers, &s) > 0);
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
    const mh_transformer_config config = nn_transformer_config(MH_DECODER, D, H, F, 2);
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
            mh_tensor x = mh_tensor_slice(tgt, 0, i, 1), y = mh_tensor_slice(out, 0, i, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(steps_may_be_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
