// SPDX-License-Identifier: MIT
// Programs that were compiled with another version of the headers. Stable headers: every struct
// field, enum value and symbol is where abi_table.h, made from the first version, has it; structs
// may only have grown. All headers: each sized struct is accepted when it is shorter, or longer
// with zeros, and rejected with a message that names it when it is longer and not zero there.
#include "api_objects.h"

#include <math.h>
#include <multihead/multihead.h>
#include <multihead/sharded.h>
#include <multihead/train.h>

// ---- the table ----------------------------------------------------------------------------------

static void fields_and_values_stay(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        skip();
#define VALUE(name, value)         assert_int_equal(name, value);
#define STRUCT(name, size)         assert_true(sizeof(struct name) >= (size));
#define FIELD(name, field, offset) assert_int_equal(offsetof(struct name, field), offset);
#define SYMBOL(name)
#include "abi_table.h"
#undef VALUE
#undef STRUCT
#undef FIELD
#undef SYMBOL
}

static void symbols_stay(void **state)
{
    (void)state;
#define VALUE(name, value)
#define STRUCT(name, size)
#define FIELD(name, field, offset)
#define SYMBOL(name) (void (*)(void)) name,
    static void (*const symbols[])(void) = {
#include "abi_table.h"
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        assert_non_null(symbols[i]);
}

static void versions(void **state)
{
    (void)state;
    assert_int_equal(mh_version_number(), MH_VERSION_NUMBER);
    assert_int_equal(MH_VERSION_NUMBER,
                     MH_VERSION_MAJOR * 10000 + MH_VERSION_MINOR * 100 + MH_VERSION_PATCH);
}

// ---- older and newer programs -------------------------------------------------------------------

enum { W = API_WIDTH, N = API_TOKENS, E = W / API_HEADS, TAIL = 64 };

static api_objects o;
static float data[8][N * W], array[4][W];
static int32_t ids[N];
static double loss;

static mh_tensor rows(int i) { return mh_tensor_2d(data[i], MH_F32, N, W); }
static mh_tensor heads(int i) { return mh_tensor_4d(data[i], MH_F32, 1, API_HEADS, N, E); }

static mh_status attention(mh_context *c, const void *options)
{
    mh_tensor q = heads(0), k = heads(1), v = heads(2), out = heads(3);
    return mh_attention_forward(c, options, &q, &k, &v, &out);
}

static mh_status backward(mh_context *c, const void *gradients)
{
    mh_tensor q = heads(0), k = heads(1), v = heads(2), out = heads(3), dout = heads(4);
    mh_tensor lse = mh_tensor_3d(data[5], MH_F32, 1, API_HEADS, N);
    mh_attention_options options = mh_attention_options_default();
    options.lse = &lse;
    return mh_attention_backward(c, &options, &q, &k, &v, &out, &dout, gradients);
}

static mh_status masked(mh_context *c, const void *mask)
{
    mh_attention_options options = mh_attention_options_default();
    options.masks = mask;
    options.mask_count = 1;
    return attention(c, &options);
}

static mh_status explain(mh_context *c, void *plan)
{
    mh_tensor q = heads(0), k = heads(1), v = heads(2), out = heads(3);
    return mh_attention_explain(c, NULL, &q, &k, &v, &out, plan);
}

static mh_status shard(mh_context *c, const void *communicator, const void *sharding, void *plan)
{
    mh_tensor q = heads(0), k = heads(1), v = heads(2), out = heads(3);
    mh_communicator own = mh_communicator_default();
    mh_sharding all = mh_sharding_default();
    all.queries = all.keys = N;
    if (!communicator)
        communicator = &own;
    if (!sharding)
        sharding = &all;
    return plan ? mh_sharded_attention_explain(c, communicator, sharding, NULL, &q, &k, &v, &out,
                                               false, plan)
                : mh_sharded_attention_forward(c, communicator, sharding, NULL, &q, &k, &v, &out);
}

static mh_status communicator(mh_context *c, const void *given)
{
    return shard(c, given, NULL, NULL);
}
static mh_status sharding(mh_context *c, const void *given) { return shard(c, NULL, given, NULL); }
static mh_status sharded_plan(mh_context *c, void *plan) { return shard(c, NULL, NULL, plan); }

static mh_status cache(mh_context *c, const void *options)
{
    mh_kv_cache *made = NULL;
    const mh_status status = mh_kv_cache_create(c, options, &made);
    mh_kv_cache_free(made);
    return status;
}

static mh_status linear(mh_context *c, const void *options)
{
    mh_tensor x = rows(0), y = mh_tensor_2d(data[1], MH_F32, N, N);
    return mh_linear(c, options, &x, &x, &y);
}

static mh_status limits(mh_context *c, void *found) { return mh_measure_limits(c, 1e-4, 0, found); }

static mh_status dropout(mh_context *c, const void *options)
{
    mh_tensor x = rows(0), y = rows(1);
    return mh_dropout(c, options, &x, &y);
}

static mh_status rope(mh_context *c, const void *options)
{
    mh_tensor x = rows(0), y = rows(1);
    return mh_rope(c, options, &x, &y);
}

static mh_status entropy(mh_context *c, const void *options)
{
    mh_tensor logits = rows(0), targets = mh_tensor_1d(ids, MH_I32, N);
    return mh_cross_entropy(c, options, &logits, &targets, &loss, NULL, NULL);
}

static mh_status adamw(mh_context *c, const void *options)
{
    return mh_adamw_step(c, options, 1, W, array[0], array[1], array[2], array[3]);
}

static mh_status sgd(mh_context *c, const void *options)
{
    return mh_sgd_step(c, options, W, array[0], array[1], NULL);
}

static mh_status mha_create(mh_context *c, const void *config)
{
    mh_mha *made = NULL;
    const mh_status status = mh_mha_create(c, config, &made);
    mh_mha_free(made);
    return status;
}

static mh_status rope_scaling(mh_context *c, const void *scaling)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = W, config.num_heads = API_HEADS;
    config.rope = true;
    config.rope_scaling = scaling;
    return mha_create(c, &config);
}

static mh_status mha(mh_context *c, const void *options)
{
    mh_tensor x = mh_tensor_3d(data[0], MH_F32, N, 1, W),
              y = mh_tensor_3d(data[1], MH_F32, N, 1, W);
    return mh_mha_forward(c, o.mha, options, &x, &x, &x, &y, NULL);
}

static mh_status transformer_create(mh_context *c, const void *config)
{
    mh_transformer *made = NULL;
    const mh_status status = mh_transformer_create(c, config, &made);
    mh_transformer_free(made);
    return status;
}

static mh_status transformer(mh_context *c, const void *options)
{
    mh_tensor x = mh_tensor_3d(data[0], MH_F32, 1, N, W),
              y = mh_tensor_3d(data[1], MH_F32, 1, N, W);
    return mh_transformer_forward(c, o.transformer, options, &x, &x, &y);
}

static mh_status taps(mh_context *c, const void *tap)
{
    mh_transformer_options options = mh_transformer_options_default();
    options.taps = tap;
    options.tap_count = 1;
    return transformer(c, &options);
}

static mh_status stack(mh_context *c, const void *config)
{
    mh_transformer *made = NULL;
    const mh_status status = mh_transformer_create_blocks(c, config, NULL, true, &made);
    mh_transformer_free(made);
    return status;
}

static mh_status block(mh_context *c, const void *config)
{
    const mh_block_config *const blocks[] = {config};
    mh_stack_config whole = mh_stack_config_default();
    whole.layers = 1;
    whole.blocks = blocks;
    return stack(c, &whole);
}

static mh_status decoding(mh_context *c, const void *options)
{
    mh_decoding *made = NULL;
    const mh_status status = mh_decoding_create_empty(c, o.language_model, options, &made);
    mh_decoding_free(made);
    return status;
}

static mh_status parameters(mh_context *c, const void *options)
{
    const char *path = api_path(&o, "abi.safetensors");
    mh_status status = mh_parameters_save(c, mh_mha_parameters(o.mha), path);
    if (!status)
        status = mh_parameters_load(c, mh_mha_parameters(o.mha), path, options);
    remove(path);
    return status;
}

static mh_status tokenizer(mh_context *c, const void *options)
{
    const mh_text text = {"un deux", 7};
    mh_tokenizer *made = NULL;
    const mh_status status = mh_tokenizer_train(c, options, &text, 1, &made);
    mh_tokenizer_free(made);
    return status;
}

static mh_status bleu(mh_context *c, void *score)
{
    const mh_text text = {"un deux", 7};
    return mh_bleu(c, &text, &text, 1, 1, false, score);
}

static mh_status translator(mh_context *c, const void *config)
{
    const mh_text text = {"un deux", 7};
    mh_tokenizer *words = NULL;
    mh_translator *made = NULL;
    mh_status status = mh_tokenizer_train(c, NULL, &text, 1, &words);
    if (!status)
        status = mh_translator_create(c, config, MH_PRECISION_F32, words, &made);
    mh_translator_free(made);
    return status;
}

static mh_status load(mh_context *c, const void *options)
{
    mh_translator *made = NULL;
    const mh_status status = mh_translator_load_with(c, api_path(&o, "model"), options, &made);
    mh_translator_free(made);
    return status;
}

static mh_status translate(mh_context *c, const void *options)
{
    const mh_text text = {"un deux", 7};
    mh_translations *made = NULL;
    const mh_status status = mh_translate(c, o.translator, options, &text, 1, &made);
    mh_translations_free(made);
    return status;
}

static mh_status view(mh_context *c, const void *options)
{
    mh_buffer text = {0};
    const mh_status status = mh_view_text(c, options, mh_trace_file_trace(o.trace_file), &text);
    mh_buffer_free(c, &text);
    return status;
}

// The sized structs: defaults, the size that has all fields without a default, and a call; outputs
// are not read, and so never rejected for what they contain.
#define STRUCTS(INPUT, OUTPUT)                                                                     \
    INPUT(mh_attention_options, 8, attention)                                                      \
    INPUT(mh_attention_gradients, 8, backward)                                                     \
    INPUT(mh_mask, sizeof(mh_mask), masked)                                                        \
    INPUT(mh_kv_cache_options, offsetof(mh_kv_cache_options, value_width), cache)                  \
    INPUT(mh_linear_options, 8, linear)                                                            \
    INPUT(mh_dropout_options, 8, dropout)                                                          \
    INPUT(mh_rope_options, 8, rope)                                                                \
    INPUT(mh_cross_entropy_options, 8, entropy)                                                    \
    INPUT(mh_adamw_options, 8, adamw)                                                              \
    INPUT(mh_sgd_options, 8, sgd)                                                                  \
    INPUT(mh_mha_config, offsetof(mh_mha_config, kv_heads), mha_create)                            \
    INPUT(mh_mha_options, 8, mha)                                                                  \
    INPUT(mh_rope_scaling, 8, rope_scaling)                                                        \
    INPUT(mh_tap, sizeof(mh_tap), taps)                                                            \
    INPUT(mh_stack_config, offsetof(mh_stack_config, final_norm), stack)                           \
    INPUT(mh_block_config, sizeof(mh_block_config), block)                                         \
    INPUT(mh_transformer_config, 8, transformer_create)                                            \
    INPUT(mh_transformer_options, 8, transformer)                                                  \
    INPUT(mh_decoding_options, 8, decoding)                                                        \
    INPUT(mh_parameters_options, 8, parameters)                                                    \
    INPUT(mh_tokenizer_options, 8, tokenizer)                                                      \
    INPUT(mh_translator_config, 8, translator)                                                     \
    INPUT(mh_translator_load_options, 8, load)                                                     \
    INPUT(mh_translate_options, 8, translate)                                                      \
    INPUT(mh_view_options, 8, view)                                                                \
    INPUT(mh_communicator, 8, communicator)                                                        \
    INPUT(mh_sharding, offsetof(mh_sharding, order), sharding)                                     \
    OUTPUT(mh_attention_plan, 8, explain)                                                          \
    OUTPUT(mh_sharded_plan, 8, sharded_plan)                                                       \
    OUTPUT(mh_limits, 8, limits)                                                                   \
    OUTPUT(mh_bleu_score, 8, bleu)

static mh_block_config small_block(void)
{
    mh_block_config config = mh_block_config_default();
    config.d_model = config.dim_feedforward = W;
    config.num_heads = API_HEADS;
    return config;
}

// The fields without a default; the others stay.
static void fill(const char *type, void *options)
{
    if (strcmp(type, "mh_kv_cache_options") == 0) {
        mh_kv_cache_options *cache_options = options;
        cache_options->sequences = cache_options->heads = cache_options->key_width = 1;
    } else if (strcmp(type, "mh_mha_config") == 0) {
        mh_mha_config *config = options;
        config->embed_dim = W, config->num_heads = API_HEADS;
    } else if (strcmp(type, "mh_sharding") == 0) {
        ((mh_sharding *)options)->queries = ((mh_sharding *)options)->keys = N;
    } else if (strcmp(type, "mh_block_config") == 0) {
        *(mh_block_config *)options = small_block();
    } else if (strcmp(type, "mh_stack_config") == 0) {
        static mh_block_config config;
        static const mh_block_config *const blocks[] = {&config};
        config = small_block();
        ((mh_stack_config *)options)->layers = 1;
        ((mh_stack_config *)options)->blocks = blocks;
    } else if (strcmp(type, "mh_mask") == 0) {
        *(mh_mask *)options = mh_mask_make(MH_MASK_ADD, mh_tensor_1d(array[0], MH_F32, 1));
    }
}

#define CHECK(type, shortest, call, input)                                                         \
    {                                                                                              \
        struct {                                                                                   \
            type options;                                                                          \
            char tail[TAIL];                                                                       \
        } given = {.options = type##_default()};                                                   \
        fill(#type, &given.options);                                                               \
        test_ok(context, call(context, &given.options));                                           \
        given.options.struct_size = sizeof(type) + TAIL;                                           \
        test_ok(context, call(context, &given.options));                                           \
        given.tail[TAIL / 2] = 1;                                                                  \
        if (input)                                                                                 \
            test_refused(context, call(context, &given.options), MH_ERROR_ARGUMENT, #type);        \
        else                                                                                       \
            test_ok(context, call(context, &given.options));                                       \
        assert_int_equal(given.tail[TAIL / 2], 1);                                                 \
        memset((char *)&given.options + (shortest), 0x55, sizeof(type) - (shortest));              \
        given.options.struct_size = shortest;                                                      \
        test_ok(context, call(context, &given.options));                                           \
        for (size_t i = shortest; i < sizeof(type); i++)                                           \
            assert_int_equal(((const char *)&given.options)[i], 0x55);                             \
        given.options.struct_size = 0;                                                             \
        test_refused(context, call(context, &given.options), MH_ERROR_ARGUMENT,                    \
                     #type ".struct_size: found 0");                                               \
        test_refused(context, call(context, &given.options), MH_ERROR_ARGUMENT, #type "_default"); \
    }
#define CHECK_INPUT(type, shortest, call)  CHECK(type, shortest, call, true)
#define CHECK_OUTPUT(type, shortest, call) CHECK(type, shortest, call, false)

static void sizes_of_other_versions(void **state)
{
    mh_context *context = *state;
    STRUCTS(CHECK_INPUT, CHECK_OUTPUT)
}

static void strides_of_other_versions(void **state)
{
    struct {
        mh_mask mask;
        char tail[TAIL];
    } masks[2] = {{.mask = mh_mask_make(MH_MASK_ADD, mh_tensor_1d(array[0], MH_F32, 1))}};
    masks[0].mask.struct_size = sizeof *masks;
    masks[1] = masks[0];
    mh_attention_options options = mh_attention_options_default();
    options.masks = &masks[0].mask;
    options.mask_count = 2;
    test_ok(*state, attention(*state, &options));
    masks[1].mask.struct_size = sizeof(mh_mask);
    test_refused(*state, attention(*state, &options), MH_ERROR_ARGUMENT, "element 1");
}

static void strides_of_taps(void **state)
{
    struct {
        mh_tap tap;
        char tail[TAIL];
    } tapped[2] = {{.tap = mh_tap_default()}, {.tap = mh_tap_make(MH_TAP_CROSS, 0)}};
    tapped[0].tap.struct_size = tapped[1].tap.struct_size = sizeof *tapped;
    tapped[1].tap.out = mh_tensor_3d(data[2], MH_F32, 1, N, W);
    data[2][0] = NAN;
    mh_transformer_options options = mh_transformer_options_default();
    options.taps = &tapped[0].tap;
    options.tap_count = 2;
    test_ok(*state, transformer(*state, &options));
    if (isnan((double)data[2][0]))
        fail_msg("the second tap was not read where it is");
    tapped[1].tap.struct_size = sizeof(mh_tap);
    test_refused(*state, transformer(*state, &options), MH_ERROR_ARGUMENT, "element 1");
    data[2][0] = 0;
}

static int set_up(void **state)
{
    mh_context *context = test_context(NULL, 1);
    *state = context;
    api_files_make(context, &o);
    api_objects_make(context, &o);
    return 0;
}

static int tear_down(void **state)
{
    api_objects_free(&o);
    mh_context_free(*state);
    api_files_free(&o);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_and_values_stay),
        cmocka_unit_test(symbols_stay),
        cmocka_unit_test(versions),
        cmocka_unit_test(sizes_of_other_versions),
        cmocka_unit_test(strides_of_other_versions),
        cmocka_unit_test(strides_of_taps),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
