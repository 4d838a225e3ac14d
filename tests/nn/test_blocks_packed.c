// SPDX-License-Identifier: MIT
// A Transformer for inference: its vectors are initialised as those of a trainable one, and with
// the same matrices packed its outputs have the same bits.
#include "nn_support.h"
#include <multihead/block.h>

enum { B = 2, T = 5, D = 24, H = 4, G = 2, F = 40, L = 2, SEED = 3 };

static mh_transformer *make_blocks(mh_context *context, bool trainable)
{
    mh_block_config block = mh_block_config_default();
    block.d_model = D;
    block.num_heads = H;
    block.kv_heads = G;
    block.dim_feedforward = F;
    block.gated = block.rope = true;
    block.activation = MH_SILU;
    block.order = MH_NORM_BEFORE;
    const mh_block_config *blocks[L] = {&block, &block};
    mh_stack_config stack = mh_stack_config_default();
    stack.layers = L;
    stack.blocks = blocks;
    mh_transformer *t = NULL;
    test_ok(context, mh_transformer_create_blocks(context, &stack, NULL, trainable, &t));
    mh_parameters_init(mh_transformer_parameters(t), SEED);
    return t;
}

// Both lists have the same names in the same order; vectors must be equal.
static void pack_all(mh_context *context, const mh_transformer *from, mh_transformer *to)
{
    const mh_parameters *a = mh_transformer_parameters(from), *b = mh_transformer_parameters(to);
    size_t vectors = 0;
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const mh_parameter *p = &a->list[i], *q = &b->list[i];
        assert_string_equal(p->name, q->name);
        if (p->rank == 1) {
            assert_true(q->offset + q->count <= b->floats);
            nn_same_bits(p->name, p->count, a->values + p->offset, b->values + q->offset);
            vectors += q->count;
            continue;
        }
        assert_true(q->offset >= b->floats);
        const mh_tensor weight = mh_parameter_view(p, a->values);
        test_ok(context, mh_transformer_pack(context, to, p->name, &weight));
    }
    assert_int_equal(vectors, b->floats);
}

static void packed_blocks_give_the_same_bits(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 2);
    mh_transformer *trainable = make_blocks(context, true);
    mh_transformer *packed = make_blocks(context, false);
    pack_all(context, trainable, packed);
    float *x = nn_floats(1, B * T * D), a[B * T * D], b[B * T * D];
    const mh_tensor src = mh_tensor_3d(x, MH_F32, B, T, D);
    mh_tensor first = mh_tensor_3d(a, MH_F32, B, T, D);
    mh_tensor second = mh_tensor_3d(b, MH_F32, B, T, D);
    mh_transformer_options options = mh_transformer_options_default();
    options.src_causal = true;
    test_ok(context, mh_transformer_forward(context, trainable, &options, &src, NULL, &first));
    test_ok(context, mh_transformer_forward(context, packed, &options, &src, NULL, &second));
    nn_same_bits("output", B * T * D, a, b);
    free(x);
    mh_transformer_free(packed);
    mh_transformer_free(trainable);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_blocks_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
