// SPDX-License-Identifier: MIT
// What a model says of itself: its size in bf16 without loading it again, and no abilities of heads
// that are not run.
#include "encdec_golden.h"
#include "train_support.h"
#include <multihead/translator.h>

static train_place place;

static int set_up(void **state)
{
    (void)state;
    return train_place_create(&place) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    train_place_remove(&place);
    return 0;
}

// ---- memory -------------------------------------------------------------------------------------

static mh_model_info info_of(mh_context *context, const char *path, mh_precision precision)
{
    mh_model_options options = mh_model_options_default();
    mh_model *model;
    options.precision = precision;
    test_ok(context, mh_model_load(context, path, &options, &model));
    const mh_model_info info = *mh_model_describe(model);
    mh_model_free(model);
    return info;
}

static void expect_size(const char *path)
{
    for (size_t i = 0; test_level(i); i++) {
        mh_context *context = test_context(test_level(i), 1);
        const mh_model_info f32 = info_of(context, path, MH_PRECISION_F32);
        const mh_model_info bf16 = info_of(context, path, MH_PRECISION_BF16);
        assert_int_equal(f32.memory_bytes_bf16, bf16.memory_bytes);
        assert_int_equal(bf16.memory_bytes_bf16, bf16.memory_bytes);
        assert_true(bf16.memory_bytes <= f32.memory_bytes);
        mh_context_free(context);
    }
}

static void memory_in_bf16(void **state)
{
    (void)state;
    static const char *const models[] = {"bert-mlm", "roberta-classifier", "gpt2", "llama",
                                         "gemma3",   "marian-separate",    "bart", "t5-gated"};
    char path[256];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        snprintf(path, sizeof path, "%s/models/%s", MH_GOLDENS, models[i]);
        expect_size(path);
    }
    expect_size(MH_GOLDENS "/../../models/fr-en");
}

// ---- heads --------------------------------------------------------------------------------------

enum { MOST_TENSORS = 128 };

// The golden BART with other heads: `head` is that of a classifier, `table` the language model's.
static void write_bart(mh_context *context, bool head, bool table)
{
    static const char config[] =
        "{\"model_type\": \"bart\", \"architectures\": [\"BartForSequenceClassification\"],"
        "\"d_model\": 32, \"encoder_layers\": 2, \"encoder_attention_heads\": 4,"
        "\"encoder_ffn_dim\": 40, \"decoder_layers\": 2, \"decoder_attention_heads\": 4,"
        "\"decoder_ffn_dim\": 40, \"vocab_size\": %zu, \"max_position_embeddings\": 40,"
        "\"decoder_start_token_id\": 2, \"eos_token_id\": 2, \"is_encoder_decoder\": true}";
    static float zeros[32 * 32];
    char path[256], text[1024];
    mh_tensor_file *file;
    mh_named_tensor tensors[MOST_TENSORS];
    mh_tensor t, tokens = {0};
    size_t count = 0;
    test_ok(context,
            mh_tensor_file_open(context, MH_GOLDENS "/models/bart/model.safetensors", &file));
    for (size_t i = 0; mh_tensor_file_describe(file, i, &t); i++) {
        const char *name = mh_tensor_file_name(file, i);
        assert_true(mh_tensor_file_at(file, i, &t));
        if (strstr(name, "embed_tokens.weight") || strstr(name, "shared.weight"))
            tokens = t;
        if (strstr(name, "lm_head") || strstr(name, "final_logits_bias"))
            continue;
        assert_true(count + 3 < MOST_TENSORS);
        tensors[count++] = (mh_named_tensor){.name = name, .tensor = t};
    }
    assert_int_equal(tokens.rank, 2);
    if (head) {
        tensors[count++] = (mh_named_tensor){.name = "classification_head.dense.weight",
                                             .tensor = mh_tensor_2d(zeros, MH_F32, 32, 32)};
        tensors[count++] = (mh_named_tensor){.name = "classification_head.out_proj.weight",
                                             .tensor = mh_tensor_2d(zeros, MH_F32, 3, 32)};
    }
    if (table)
        tensors[count++] = (mh_named_tensor){.name = "lm_head.weight", .tensor = tokens};
    snprintf(path, sizeof path, "%s/model.safetensors", place.root);
    test_ok(context, mh_safetensors_write(context, path, tensors, count, NULL, 0));
    const int size = snprintf(text, sizeof text, config, tokens.shape[0]);
    snprintf(path, sizeof path, "%s/config.json", place.root);
    test_ok(context, mh_bytes_write(context, path, text, (size_t)size));
    mh_tensor_file_free(file);
}

// As transformers writes BartForSequenceClassification: no table of a language model.
static void classifier_does_not_translate(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_model *model;
    mh_translator *translator;
    write_bart(context, true, false);
    test_ok(context, mh_model_load(context, place.root, NULL, &model));
    assert_int_equal(mh_model_describe(model)->abilities, MH_CAN_EMBED);
    test_refused(context, mh_translator_from_model(context, model, &translator),
                 MH_ERROR_UNSUPPORTED, "BartForSequenceClassification) does not translate");
    const mh_model_input input = mh_model_input_default();
    float zeros[32] = {0}, logits[3];
    mh_tensor hidden = mh_tensor_2d(zeros, MH_F32, 1, 32), y = mh_tensor_2d(logits, MH_F32, 1, 3);
    test_refused(context, mh_model_classify(context, model, &input, &hidden, &y),
                 MH_ERROR_UNSUPPORTED, "not supported: classification_head.out_proj.weight");
    test_refused(context, mh_model_logits(context, model, &hidden, &y), MH_ERROR_UNSUPPORTED,
                 "BartForSequenceClassification");
    mh_model_free(model);

    for (int head = 0; head < 2; head++) { // a plain BartModel, and one with both heads
        write_bart(context, head, head);
        test_ok(context, mh_model_load(context, place.root, NULL, &model));
        assert_true(mh_model_describe(model)->abilities & MH_CAN_TRANSLATE);
        mh_model_free(model);
    }
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_in_bf16),
        cmocka_unit_test(classifier_does_not_translate),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
