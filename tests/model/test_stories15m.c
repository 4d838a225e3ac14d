// SPDX-License-Identifier: MIT
// stories15M, a trained Llama (6 layers, 6 heads, 288 wide) of llama2.c: its likeliest story begins
// with the tokens that llama2.c prints. The model's directory is $MH_STORIES15M
// (tools/fetch_models.py stories15m converts it and prints its path); without it nothing is tested.
#include "support.h"

#include <multihead/pretrained.h>

enum { BEGIN = 1, TOKENS = 14, D = 288, V = 32000 };

static const int32_t expected[TOKENS] = {9038, 2501, 263,  931,  29892, 727,  471,
                                         263,  2217, 7826, 4257, 365,   2354, 29889};
static const char story[] = "Once upon a time, there was a little girl named Lily.";

static int32_t likeliest_after(mh_context *context, const mh_model *model, const int32_t *ids,
                               size_t count)
{
    static float rows[(TOKENS + 1) * D], logits[V];
    const int64_t starts[] = {0, (int64_t)count};
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.ids = ids;
    mh_tensor hidden = mh_tensor_2d(rows, MH_F32, count, D);
    mh_tensor y = mh_tensor_2d(logits, MH_F32, 1, V);
    test_ok(context, mh_model_hidden(context, model, &input, &hidden));
    const mh_tensor last = mh_tensor_slice(hidden, 0, count - 1, 1);
    test_ok(context, mh_model_logits(context, model, &last, &y));
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static void tells_the_story(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 0);
    mh_model *model;
    int32_t ids[TOKENS + 1] = {BEGIN};
    mh_buffer text = {0};
    test_ok(context, mh_model_load(context, getenv("MH_STORIES15M"), NULL, &model));
    for (size_t i = 0; i < TOKENS; i++)
        ids[i + 1] = likeliest_after(context, model, ids, i + 1);
    assert_memory_equal(ids + 1, expected, sizeof expected);
    test_ok(context, mh_tokenizer_decode_text(context, mh_model_tokenizer(model), true, ids + 1,
                                              TOKENS, &text));
    print_message("story: %.*s\n", (int)text.size, (const char *)text.data);
    assert_int_equal(text.size, sizeof story - 1);
    assert_memory_equal(text.data, story, text.size);
    mh_buffer_free(context, &text);
    mh_model_free(model);
    mh_context_free(context);
}

// The tokenizer that was converted with the model cuts the story into the same tokens, after <s>.
static void reads_the_story(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 0);
    mh_model *model;
    mh_model_texts *texts;
    const mh_text text = {story, sizeof story - 1};
    test_ok(context, mh_model_load(context, getenv("MH_STORIES15M"), NULL, &model));
    test_ok(context, mh_model_encode(context, model, true, &text, 1, &texts));
    const mh_model_input *input = mh_model_texts_input(texts);
    assert_int_equal(input->starts[1], TOKENS + 1);
    assert_int_equal(input->ids[0], BEGIN);
    assert_memory_equal(input->ids + 1, expected, sizeof expected);
    mh_model_texts_free(context, texts);
    mh_model_free(model);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_the_story),
        cmocka_unit_test(reads_the_story),
    };
    if (!getenv("MH_STORIES15M")) {
        printf("test_stories15m: skipped, MH_STORIES15M does not name its directory\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
