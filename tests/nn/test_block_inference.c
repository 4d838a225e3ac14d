// SPDX-License-Identifier: MIT
// Transformers for inference, whose matrices are only packed: the bits of the trainable module with
// the same values, from f32 and from bf16 matrices, in forward and in decoding; their bytes; and
// clear errors for matrices that are missing, of another level, name or shape.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>

enum { CASES = 60 };

static bool is_matrix(const mh_parameters *list, const mh_parameter *p)
{
    return p->offset >= list->floats;
}

// Both lists have the same names in the same order, at other offsets.
static void copy_vectors(const mh_parameters *from, const mh_parameters *to)
{
    assert_int_equal(from->count, to->count);
    for (size_t i = 0; i < from->count; i++) {
        assert_string_equal(from->list[i].name, to->list[i].name);
        if (!is_matrix(to, &to->list[i]))
            memcpy(to->values + to->list[i].offset, from->values + from->list[i].offset,
                   from->list[i].count * sizeof(float));
    }
}

// Packs all matrices of `from` from this dtype, after rounding the original to it.
static void pack_all(mh_context *context, const mh_parameters *from, mh_dtype dtype,
                     mh_transformer *to)
{
    const mh_parameters *list = mh_transformer_parameters(to);
    for (size_t i = 0; i < from->count; i++) {
        mh_tensor values = mh_parameter_view(&from->list[i], from->values);
        if (!is_matrix(list, &list->list[i]))
            continue;
        test_tensor t = test_tensor_dense(dtype, 2, values.shape);
        test_ok(context, mh_tensor_copy(context, &values, &t.view));
        test_ok(context, mh_tensor_copy(context, &t.view, &values));
        test_ok(context, mh_transformer_pack(context, to, from->list[i].name, &t.view));
        test_tensor_free(&t); // it is not a view of it
    }
}

static size_t matrix_floats(const mh_transformer *t)
{
    const mh_parameters *list = mh_transformer_parameters(t);
    size_t floats = 0;
    for (size_t i = 0; i < list->count; i++)
        floats += is_matrix(list, &list->list[i]) ? list->list[i].count : 0;
    return floats;
}

static void check_decoding(mh_context *context, const mh_transformer *t, const block_case *c,
                           float *src, float *tgt, float *expected)
{
    const int stack = block_case_output(c);
    const size_t n = block_case_rows(c, stack) * c->D;
    const mh_tensor memory = block_case_view(c, 0, src);
    float *found = ref_alloc(n, sizeof *found);
    const mh_tensor x = block_case_view(c, stack, stack ? tgt : src);
    mh_tensor y = block_case_view(c, stack, found);
    mh_decoding *d;
    if (stack)
        test_ok(context, mh_decoding_create(context, t, &memory, NULL, 1, &d));
    else
        test_ok(context, mh_decoding_create_causal(context, t, c->sequences, &d));
    mh_decoding_disable_heads(d, c->disables ? c->disabled : NULL);
    test_ok(context, mh_decoding_step(context, d, NULL, 0, &x, &y));
    nn_same_bits("a step's output", n, found, expected);
    mh_decoding_free(d);
    free(found);
}

static void check_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    block_case c;
    block_case_create(&rng, false, &c);
    const bool decodes = c.layout == BLOCK_BATCHED && !(c.has[0] && c.has[1]);
    c.causal[block_case_output(&c)] |= decodes;
    mh_transformer *module = block_case_module(context, &c, true);
    mh_transformer *other = block_case_module(context, &c, false);
    const mh_parameters *list = mh_transformer_parameters(module);
    const mh_parameters *vectors = mh_transformer_parameters(other);
    block_case_randomise(&c, list, seed);
    pack_all(context, list, seed % 2 ? MH_BF16 : seed % 4 ? MH_F16 : MH_F32, other);
    copy_vectors(list, vectors);
    const size_t n[2] = {block_case_rows(&c, 0) * c.D, block_case_rows(&c, 1) * c.D};
    const size_t outputs = n[block_case_output(&c)];
    float *src = nn_floats(seed + 1, n[0]), *tgt = nn_floats(seed + 2, n[1]);
    float *expected = ref_alloc(outputs, sizeof *expected);
    float *found = ref_alloc(outputs, sizeof *found);
    const mh_transformer_options o = block_case_options(&c);
    test_ok(context, block_case_forward(context, module, &c, &o, src, tgt, expected));
    test_ok(context, block_case_forward(context, other, &c, &o, src, tgt, found));
    nn_same_bits("the output of packed matrices", outputs, found, expected);
    if (decodes)
        check_decoding(context, other, &c, src, tgt, expected);
    assert_int_equal(mh_transformer_bytes(module), list->floats * sizeof(float));
    assert_int_equal(vectors->floats + matrix_floats(other), list->floats);
    const size_t number = seed % 2 ? sizeof(uint16_t) : sizeof(float); // bf16 stays bf16
    assert_true(mh_transformer_bytes(other) >=
                vectors->floats * sizeof(float) + matrix_floats(other) * number);
    void *all[] = {src, tgt, expected, found};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(module);
    mh_transformer_free(other);
}

static void packed(void **state)
{
    (void)state;
    test_run_cases(CASES, check_case);
}

// ---- errors -------------------------------------------------------------------------------------

static mh_block_config small_block(bool decoder)
{
    mh_block_config b = mh_block_config_default();
    b.d_model = 8;
    b.num_heads = 2;
    b.dim_feedforward = 6;
    b.cross_attention = decoder;
    b.relative_buckets = 4;
    b.gated = true;
    return b;
}

// Each matrix in turn is the one that is missing.
static void missing(void **state)
{
    mh_context *context = *state;
    for (int decoder = 0; decoder < 2; decoder++) {
        const mh_block_config b = small_block(decoder);
        block_case c;
        block_case_fixed(&b, 2, 3, &c);
        float x[2 * 3 * 8] = {0}, out[2 * 3 * 8];
        const mh_transformer_options o = block_case_options(&c);
        mh_transformer *full = block_case_module(context, &c, true);
        const mh_parameters *list = mh_transformer_parameters(full);
        block_case_randomise(&c, list, 1);
        for (size_t i = 0; i < list->count; i++) {
            mh_transformer *t = block_case_module(context, &c, false);
            const mh_parameters *own = mh_transformer_parameters(t);
            if (is_matrix(own, &own->list[i])) {
                for (size_t k = 0; k < list->count; k++) {
                    const mh_tensor w = mh_parameter_view(&list->list[k], list->values);
                    if (k != i && is_matrix(own, &own->list[k]))
                        test_ok(context, mh_transformer_pack(context, t, list->list[k].name, &w));
                }
                test_refused(context, block_case_forward(context, t, &c, &o, x, x, out),
                             MH_ERROR_ARGUMENT, "mh_transformer_pack");
            }
            mh_transformer_free(t);
        }
        mh_transformer_free(full);
    }
}

static void wrong(void **state)
{
    mh_context *context = *state;
    const mh_block_config b = small_block(false);
    block_case c;
    block_case_fixed(&b, 1, 3, &c);
    mh_transformer *t = block_case_module(context, &c, false);
    mh_transformer *trainable = block_case_module(context, &c, true);
    float numbers[24 * 8] = {0};
    const mh_tensor in = mh_tensor_2d(numbers, MH_F32, 24, 8);
    const mh_tensor turned = mh_tensor_2d(numbers, MH_F32, 8, 24);
    const mh_tensor flat = mh_tensor_1d(numbers, MH_F32, 24 * 8);
    const mh_tensor ids = mh_tensor_2d(numbers, MH_I32, 24, 8);
    const char *name = "layers.0.self_attn.in_proj_weight";
    test_refused(context, mh_transformer_pack(context, trainable, name, &in), MH_ERROR_ARGUMENT,
                 "trainable");
    test_refused(context, mh_transformer_pack(context, t, "layers.1.linear1.weight", &in),
                 MH_ERROR_ARGUMENT, "layers.1.linear1.weight");
    test_refused(context, mh_transformer_pack(context, t, "layers.0.linear1.bias", &in),
                 MH_ERROR_ARGUMENT, "expected a matrix");
    test_refused(context, mh_transformer_pack(context, t, "relative_bias.weight", &in),
                 MH_ERROR_ARGUMENT, "expected a matrix");
    test_refused(context, mh_transformer_pack(context, t, name, &turned), MH_ERROR_ARGUMENT,
                 "expected (24, 8)");
    test_refused(context, mh_transformer_pack(context, t, name, &flat), MH_ERROR_ARGUMENT,
                 "expected (24, 8)");
    test_refused(context, mh_transformer_pack(context, t, name, &ids), MH_ERROR_UNSUPPORTED, "i32");
    const size_t before = mh_transformer_bytes(t);
    test_ok(context, mh_transformer_pack(context, t, name, &in));
    const size_t after = mh_transformer_bytes(t);
    assert_true(after >= before + sizeof numbers);
    test_ok(context, mh_transformer_pack(context, t, name, &in)); // replaces it
    assert_int_equal(mh_transformer_bytes(t), after);
    mh_transformer_free(t);
    mh_transformer_free(trainable);
}

// Matrices packed for one level, in a context of another.
static void another_level(void **state)
{
    (void)state;
    const mh_block_config b = small_block(false);
    block_case c;
    float x[2 * 3 * 8] = {0}, out[2 * 3 * 8];
    block_case_fixed(&b, 1, 3, &c);
    const mh_transformer_options o = block_case_options(&c);
    if (!test_level(1))
        skip();
    mh_context *one = test_context(test_level(0), 1), *two = test_context(test_level(1), 1);
    mh_transformer *t = block_case_module(one, &c, false), *full = block_case_module(one, &c, true);
    pack_all(one, mh_transformer_parameters(full), MH_F32, t);
    test_ok(one, block_case_forward(one, t, &c, &o, x, x, out));
    test_refused(two, block_case_forward(two, t, &c, &o, x, x, out), MH_ERROR_ARGUMENT,
                 test_level(0));
    mh_transformer_free(t);
    mh_transformer_free(full);
    mh_context_free(one);
    mh_context_free(two);
}

// What needs matrices among the values: initial values are those of vectors; no backward.
static void not_trainable(void **state)
{
    mh_context *context = *state;
    const mh_block_config b = small_block(false);
    block_case c;
    float x[2 * 3 * 8] = {0}, out[2 * 3 * 8];
    block_case_fixed(&b, 1, 3, &c);
    mh_transformer_options o = block_case_options(&c);
    mh_transformer *t = block_case_module(context, &c, false);
    const mh_parameters *list = mh_transformer_parameters(t);
    mh_parameters_init(list, 1); // under AddressSanitizer: nothing beyond `floats`
    assert_true(list->values[mh_parameters_find(list, "layers.0.norm1.weight")->offset] == 1);
    test_ok(context, mh_tape_create(context, &o.tape));
    test_refused(context, block_case_forward(context, t, &c, &o, x, x, out), MH_ERROR_ARGUMENT,
                 "tape");
    mh_tape_free(o.tape);
    mh_transformer_free(t);
}

// ---- configs ------------------------------------------------------------------------------------

static void refused_config(mh_context *context, const mh_block_config *b, const char *word)
{
    const mh_block_config *blocks[1] = {b};
    mh_stack_config s = mh_stack_config_default();
    mh_transformer *t;
    s.layers = 1;
    s.blocks = blocks;
    test_refused(context,
                 mh_transformer_create_blocks(context, b->cross_attention ? NULL : &s,
                                              b->cross_attention ? &s : NULL, true, &t),
                 MH_ERROR_ARGUMENT, word);
    assert_null(t);
}

static void configs(void **state)
{
    mh_context *context = *state;
    const mh_block_config good = small_block(false);
    mh_rope_scaling scaling = mh_rope_scaling_default();
    mh_block_config b = good;
#define REFUSED(word, ...)                                                                         \
    do {                                                                                           \
        b = good;                                                                                  \
        __VA_ARGS__;                                                                               \
        refused_config(context, &b, word);                                                         \
    } while (0)
    REFUSED("mh_block_config_default", b.struct_size--);
    REFUSED("d_model", b.d_model = 0);
    REFUSED("num_heads", b.num_heads = 0);
    REFUSED("num_heads", b.num_heads = 3);
    REFUSED("kv_heads", b.num_heads = 4; b.kv_heads = 3);
    REFUSED("dim_feedforward", b.dim_feedforward = 0);
    REFUSED("activation", b.activation = (mh_activation)9);
    REFUSED("order", b.order = (mh_norm_order)3);
    REFUSED("norm_eps", b.norm_eps = -1);
    REFUSED("softcap", b.softcap = -1);
    REFUSED("window", b.window = -2);
    REFUSED("dropout", b.dropout = 1);
    REFUSED("parallel", b.parallel = true);
    REFUSED("rope", b.rope = true; b.rope_width = 3);
    REFUSED("rope", b.rope = true; b.rope_width = 6);
    REFUSED("rope", b.rope = true; b.rope_base = 0.5);
    REFUSED("rope_scaling", b.rope = true; b.rope_scaling = &scaling; scaling.factor = 0.5);
    scaling = mh_rope_scaling_default();
    REFUSED("rope_scaling", b.rope = true; b.rope_scaling = &scaling;
            scaling.rule = (mh_rope_rule)3);
    scaling.rule = MH_ROPE_YARN;
    REFUSED("rope_scaling", b.rope = true; b.rope_scaling = &scaling; b.rope_base = 1);
    REFUSED("relative_buckets", b.relative_buckets = 1; b.relative_bidirectional = true);
    REFUSED("relative_distance", b.relative_distance = 0);
    REFUSED("relative_distance", b.relative_distance = 2); // as many as there are exact buckets
    REFUSED("relative_distance", b.relative_buckets = 9; b.relative_bidirectional = true;
            b.relative_distance = 2);
#undef REFUSED
}

static void stacks(void **state)
{
    mh_context *context = *state;
    mh_block_config one = small_block(false), two = small_block(false);
    const mh_block_config *blocks[2] = {&one, &two};
    mh_stack_config s = mh_stack_config_default();
    mh_transformer *t;
    test_refused(context, mh_transformer_create_blocks(context, NULL, NULL, true, &t),
                 MH_ERROR_ARGUMENT, "encoder");
    s.blocks = blocks;
    test_refused(context, mh_transformer_create_blocks(context, &s, NULL, true, &t),
                 MH_ERROR_ARGUMENT, "layers");
    s.layers = 2;
    test_refused(context, mh_transformer_create_blocks(context, NULL, &s, true, &t),
                 MH_ERROR_ARGUMENT, "cross_attention");
    two.d_model = 10;
    test_refused(context, mh_transformer_create_blocks(context, &s, NULL, true, &t),
                 MH_ERROR_ARGUMENT, "d_model");
    blocks[1] = NULL;
    test_refused(context, mh_transformer_create_blocks(context, &s, NULL, true, &t),
                 MH_ERROR_ARGUMENT, "blocks[1]");
    s.struct_size = 1;
    test_refused(context, mh_transformer_create_blocks(context, &s, NULL, true, &t),
                 MH_ERROR_ARGUMENT, "mh_stack_config_default");
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed),
        cmocka_unit_test_setup_teardown(missing, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(wrong, test_open_context, test_close_context),
        cmocka_unit_test(another_level),
        cmocka_unit_test_setup_teardown(not_trainable, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(configs, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(stacks, test_open_context, test_close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
