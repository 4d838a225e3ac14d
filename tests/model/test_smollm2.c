// SPDX-License-Identifier: MIT
// SmolLM2-135M-Instruct as a GGUF file of 4-bit blocks, against what transformers computes from the
// same blocks in float64 (tests/goldens/make_smollm2.py): token ids, logits, and a greedy answer.
// The model's directory is $MH_SMOLLM2 (tools/fetch_models.py smollm2 prints it); without it
// nothing is tested.
#include "support.h"

#include <jansson.h>
#include <math.h>
#include <multihead/io.h>
#include <multihead/pretrained.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 576, VOCABULARY = 49152, MOST = 128 };

static mh_context *context;
static mh_model *model;
static mh_tensor_file *expected;

static mh_tensor find_expected(const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(expected, name, &t))
        fail_msg("no tensor %s", name);
    return t;
}

static double expected_number(const char *key)
{
    return strtod(mh_tensor_file_metadata(expected, key), NULL);
}

// The prompt's ids.
static size_t prompt_ids(int32_t ids[MOST])
{
    const int64_t *all = find_expected("ids").data;
    const size_t count = (size_t)((const int64_t *)find_expected("lengths").data)[0];
    assert_in_range(count, 1, MOST - 40);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)all[i];
    return count;
}

// Logits of the last token.
static void last_logits(const mh_model *m, const int32_t *ids, size_t count, float *logits)
{
    static float hidden[MOST * WIDTH];
    const int64_t starts[] = {0, (int64_t)count};
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.ids = ids;
    mh_tensor h = mh_tensor_2d(hidden, MH_F32, count, WIDTH);
    mh_tensor last = mh_tensor_slice(h, 0, count - 1, 1);
    mh_tensor y = mh_tensor_2d(logits, MH_F32, 1, VOCABULARY);
    test_ok(context, mh_model_hidden(context, m, &input, &h));
    test_ok(context, mh_model_logits(context, m, &last, &y));
}

static void test_description(void **state)
{
    (void)state;
    const mh_model_info *info = mh_model_describe(model);
    assert_string_equal(info->family, "llama");
    assert_int_equal(info->layers, 30);
    assert_int_equal(info->d_model, WIDTH);
    assert_int_equal(info->heads, 9);
    assert_int_equal(info->kv_heads, 3);
    assert_int_equal(info->vocabulary, VOCABULARY);
    assert_int_equal(info->max_length, 8192);
    assert_int_equal(info->parameters, 134515008);
    assert_true(info->abilities & MH_CAN_GENERATE);
    assert_int_equal(mh_tokenizer_eos(mh_model_tokenizer(model)), 2);
}

// Packed weights and nothing else: the token table is neither kept by rows nor as it was staged.
static void test_memory_bytes(void **state)
{
    (void)state;
    const mh_model_info *info = mh_model_describe(model);
    assert_true(info->memory_bytes < info->parameters * sizeof(float) * 101 / 100);
}

static void test_ids(void **state)
{
    (void)state;
    json_t *texts = json_loads(mh_tensor_file_metadata(expected, "texts"), 0, NULL);
    const int64_t *ids = find_expected("ids").data, *lengths = find_expected("lengths").data;
    mh_encoding encoding = {0};
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        test_ok(context,
                mh_tokenizer_encode_text(
                    context, mh_model_tokenizer(model), NULL,
                    (mh_text){json_string_value(text), json_string_length(text)}, NULL, &encoding));
        assert_int_equal(encoding.count, lengths[i]);
        for (size_t j = 0; j < encoding.count; j++)
            assert_int_equal(encoding.ids[j], ids[j]);
        ids += lengths[i];
    }
    mh_encoding_free(context, &encoding);
    json_decref(texts);
}

static void test_logits(void **state)
{
    (void)state;
    int32_t ids[MOST];
    const size_t count = prompt_ids(ids), step = (size_t)expected_number("step");
    const float *reference = find_expected("logits").data;
    const double most = 2 * expected_number("error.logits");
    float *logits = malloc(VOCABULARY * sizeof *logits);
    last_logits(model, ids, count, logits);
    double error = 0;
    for (size_t i = 0; i < VOCABULARY; i += step)
        error = fmax(error, fabs((double)logits[i] - (double)reference[i / step]));
    printf("largest error of a logit: %.3g, twice that of transformers in f32: %.3g\n", error,
           most);
    assert_true(error <= most);
    free(logits);
}

static void test_answer(void **state)
{
    (void)state;
    int32_t ids[MOST];
    size_t count = prompt_ids(ids);
    const size_t prompt = count;
    const mh_tensor answer = find_expected("answer");
    float *logits = malloc(VOCABULARY * sizeof *logits);
    mh_buffer text = {0};
    for (size_t i = 0; i < answer.shape[0]; i++) {
        int32_t best = 0;
        last_logits(model, ids, count, logits);
        for (int32_t id = 1; id < VOCABULARY; id++)
            best = logits[id] > logits[best] ? id : best;
        assert_int_equal(best, ((const int64_t *)answer.data)[i]);
        ids[count++] = best;
    }
    test_ok(context, mh_tokenizer_decode_text(context, mh_model_tokenizer(model), true,
                                              ids + prompt, count - prompt, &text));
    assert_string_equal(text.data, mh_tensor_file_metadata(expected, "answer"));
    assert_string_equal(text.data, "The capital of France is Paris.");
    mh_buffer_free(context, &text);
    free(logits);
}

// With bf16 products the answer begins in the same way.
static void test_bf16(void **state)
{
    (void)state;
    int32_t ids[MOST], best = 0;
    const size_t count = prompt_ids(ids);
    mh_model *half;
    mh_model_options options = mh_model_options_default();
    options.precision = MH_PRECISION_BF16;
    test_ok(context, mh_model_load(context, getenv("MH_SMOLLM2"), &options, &half));
    float *logits = malloc(VOCABULARY * sizeof *logits);
    last_logits(half, ids, count, logits);
    for (int32_t id = 1; id < VOCABULARY; id++)
        best = logits[id] > logits[best] ? id : best;
    assert_int_equal(best, ((const int64_t *)find_expected("answer").data)[0]);
    mh_model_free(half);
    free(logits);
}

static int set_up(void **state)
{
    (void)state;
    context = test_context(NULL, 0);
    test_ok(context, mh_model_load(context, getenv("MH_SMOLLM2"), NULL, &model));
    test_ok(context,
            mh_tensor_file_open(context, MH_GOLDENS "/smollm2_expected.safetensors", &expected));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mh_tensor_file_free(expected);
    mh_model_free(model);
    mh_context_free(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_description), cmocka_unit_test(test_memory_bytes),
        cmocka_unit_test(test_ids),         cmocka_unit_test(test_logits),
        cmocka_unit_test(test_answer),      cmocka_unit_test(test_bf16),
    };
    if (!getenv("MH_SMOLLM2")) {
        printf("test_smollm2: skipped, MH_SMOLLM2 does not name the directory of SmolLM2\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
