// SPDX-License-Identifier: MIT
// Rules of generation_config.json: how they are read, what they forbid, and generation with them.
#include "generate_support.h"
#include "model/model_internal.h"
#include <math.h>

enum { SMALL = 10 };

static mh_token_rules parse(mh_context *context, const char *text)
{
    mh_token_rules rules = mh_token_rules_none();
    test_ok(context, mh_token_rules_parse(context, "rules", text, strlen(text), SMALL, &rules));
    return rules;
}

static void done(mh_context *context, mh_token_rules *rules)
{
    const mh_allocator allocator = mh_context_allocator(context);
    mh_token_rules_free(&allocator, rules);
}

// Whether exactly the tokens of `allowed`, "0123456789", may follow.
static void expect_allowed(mh_context *context, const char *text, const int32_t *ids, size_t count,
                           size_t prompt, size_t most, const char *allowed)
{
    mh_token_rules rules = parse(context, text);
    float scores[SMALL];
    char found[SMALL + 1] = "";
    for (int i = 0; i < SMALL; i++)
        scores[i] = (float)i;
    const mh_rule_state state = {ids, count, prompt, most};
    mh_token_rules_apply(&rules, &state, scores, SMALL);
    for (int i = 0, n = 0; i < SMALL; i++)
        if (scores[i] > -INFINITY)
            found[n++] = (char)('0' + i);
    assert_string_equal(found, allowed);
    done(context, &rules);
}

static void rules_forbid_and_force(void **state)
{
    mh_context *context = *state;
    const int32_t ids[] = {1, 2, 3, 4, 5, 6};
    const char *all = "0123456789";
    expect_allowed(context, "{}", ids, 6, 3, 20, all);
    expect_allowed(context, "{\"suppress_tokens\": [0, 9, 12, -1]}", ids, 6, 3, 20, "12345678");
    expect_allowed(context, "{\"begin_suppress_tokens\": [0, 1]}", ids, 3, 3, 20, "23456789");
    expect_allowed(context, "{\"begin_suppress_tokens\": [0, 1]}", ids, 4, 3, 20, all);
    expect_allowed(context, "{\"eos_token_id\": [3, 7], \"min_length\": 6}", ids, 5, 3, 20,
                   "01245689");
    expect_allowed(context, "{\"eos_token_id\": 7, \"min_length\": 6}", ids, 6, 3, 20, all);
    expect_allowed(context, "{\"eos_token_id\": 7, \"min_new_tokens\": 3}", ids, 5, 3, 20,
                   "012345689");
    expect_allowed(context, "{\"eos_token_id\": 7, \"min_new_tokens\": 3}", ids, 6, 3, 20, all);
    expect_allowed(context, "{\"forced_bos_token_id\": 4}", ids, 1, 1, 20, "4");
    expect_allowed(context, "{\"forced_bos_token_id\": 4}", ids, 2, 1, 20, all);
    expect_allowed(context, "{\"forced_bos_token_id\": 4, \"begin_suppress_tokens\": [5]}", ids, 2,
                   1, 20, "012346789");
    expect_allowed(context, "{\"forced_eos_token_id\": [4, 5]}", ids, 5, 3, 6, "45");
    expect_allowed(context, "{\"forced_eos_token_id\": 4}", ids, 4, 3, 6, all);
}

static void bad_words_are_not_completed(void **state)
{
    mh_context *context = *state;
    const int32_t ids[] = {1, 2, 3};
    expect_allowed(context,
                   "{\"bad_words_ids\": [[5], [3, 6], [2, 3, 7], [2, 8], [9, 1, 2, 3, 0]]}", ids, 3,
                   1, 20, "0123489");
    expect_allowed(context, "{\"bad_words_ids\": [[5], [6]], \"eos_token_id\": 5}", ids, 3, 1, 20,
                   "012345789"); // the end of text is no bad word
    expect_allowed(context, "{\"bad_words_ids\": [[3, 77, 4], []]}", ids, 3, 1, 20, "0123456789");
    expect_allowed(context, "{\"bad_words_ids\": [[1, 2, 3, 4]]}", ids, 2, 1, 20, "0123456789");
}

static void values_are_read(void **state)
{
    mh_context *context = *state;
    mh_token_rules r = parse(
        context, "{\"eos_token_id\": [3, 99, 4], \"bos_token_id\": 1, \"pad_token_id\": -1, "
                 "\"decoder_start_token_id\": 2, \"do_sample\": true, \"temperature\": 0.5, "
                 "\"top_k\": 20, \"top_p\": 0.8, \"repetition_penalty\": 1.1, \"num_beams\": 4, "
                 "\"max_length\": 512, \"max_new_tokens\": null, \"transformers_version\": \"5\"}");
    assert_int_equal(r.eos.count, 2);
    assert_true(mh_token_rules_ends(&r, 3) && mh_token_rules_ends(&r, 4));
    assert_false(mh_token_rules_ends(&r, 1));
    assert_true(r.bos == 1 && r.pad == -1 && r.decoder_start == 2 && r.forced_bos == -1);
    const mh_generation_defaults *d = &r.defaults;
    assert_true(d->sample && d->temperature == 0.5 && d->top_k == 20 && d->top_p == 0.8);
    assert_true(d->repetition_penalty == 1.1 && d->beam == 4 && d->max_length == 512);
    assert_true(d->max_new_tokens == 0 && d->min_p == 0);
    done(context, &r);
    r = parse(context, "{\"top_k\": 0}"); // all
    assert_int_equal(r.defaults.top_k, SMALL);
    done(context, &r);
    r = parse(context, "{\"top_k\": null}");
    assert_int_equal(r.defaults.top_k, 0);
    done(context, &r);
}

static void wrong_values_are_refused(void **state)
{
    mh_context *context = *state;
    static const char *const texts[][2] = {
        {"{\"eos_token_id\": \"a\"}", "eos_token_id"},
        {"{\"eos_token_id\": [1, null]}", "eos_token_id"},
        {"{\"bos_token_id\": [1]}", "bos_token_id"},
        {"{\"suppress_tokens\": {}}", "suppress_tokens"},
        {"{\"bad_words_ids\": [1]}", "bad_words_ids"},
        {"{\"bad_words_ids\": [[\"a\"]]}", "bad_words_ids"},
        {"{\"bad_words_ids\": 3}", "bad_words_ids"},
        {"{\"min_length\": -1}", "min_length"},
        {"{\"temperature\": \"hot\"}", "temperature"},
        {"{\"do_sample\": 1}", "do_sample"},
        {"[]", "object"},
        {"{", "JSON"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mh_token_rules rules = mh_token_rules_none();
        test_refused(
            context,
            mh_token_rules_parse(context, "rules", texts[i][0], strlen(texts[i][0]), SMALL, &rules),
            MH_ERROR_FORMAT, texts[i][1]);
        done(context, &rules);
    }
}

// ---- in a directory -----------------------------------------------------------------------------

static void generation_obeys_the_directory(void **state)
{
    mh_context *context = *state;
    const causal_directory directory = causal_directory_make();
    const int32_t ids[] = {5, 17, 3};
    const int64_t starts[] = {0, 3};
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 20;
    mh_model *model = causal_directory_load(context, &directory);
    assert_int_equal(model->rules.eos.count, 1); // of config.json
    assert_int_equal(model->rules.eos.ids[0], CAUSAL_END);
    mh_generations *g;
    test_ok(context, mh_generate(context, model, &o, starts, ids, 1, &g));
    const mh_generation *r = mh_generations_at(g, 0);
    size_t before = 1; // the tokens before another one than the first
    while (before + 1 < r->count && r->ids[before] == r->ids[0])
        before++;
    const int32_t first = r->ids[0], other = r->ids[before];
    assert_int_not_equal(first, other);
    mh_generations_free(g);
    mh_model_free(model);
    char text[128];
    // the other token ends the text
    snprintf(text, sizeof text, "{\"eos_token_id\": [%d, 97]}", (int)other);
    causal_directory_write(&directory, "generation_config.json", text);
    model = causal_directory_load(context, &directory);
    for (int again = 0; again < 2; again++, o.batch = 1) {
        test_ok(context, mh_generate(context, model, &o, starts, ids, 1, &g));
        assert_int_equal(mh_generations_at(g, 0)->count, before + 1);
        assert_int_equal(mh_generations_at(g, 0)->finish, MH_FINISH_STOP);
        assert_true(mh_generations_at(g, 0)->text.size >= before); // and is not shown
        assert_null(strchr(mh_generations_at(g, 0)->text.bytes, '!' + other));
        mh_generations_free(g);
    }
    mh_model_free(model);
    // the first token is not allowed, neither in greedy nor in beam search
    snprintf(text, sizeof text, "{\"suppress_tokens\": [%d]}", (int)first);
    causal_directory_write(&directory, "generation_config.json", text);
    model = causal_directory_load(context, &directory);
    for (o.beam = 1; o.beam <= 3; o.beam++) {
        test_ok(context, mh_generate(context, model, &o, starts, ids, 1, &g));
        for (size_t i = 0; i < mh_generations_at(g, 0)->count; i++)
            assert_int_not_equal(mh_generations_at(g, 0)->ids[i], first);
        mh_generations_free(g);
    }
    mh_model_free(model);
    causal_directory_write(&directory, "generation_config.json", "{\"eos_token_id\": {}}");
    test_refused(context, mh_model_load(context, directory.path, NULL, &model), MH_ERROR_FORMAT,
                 "eos_token_id");
    causal_directory_remove(&directory);
}

static void chat_template_of_the_directory(void **state)
{
    mh_context *context = *state;
    const causal_directory directory = causal_directory_make();
    const mh_chat_message message = {MH_CHAT_USER, {"Hi", 2}};
    mh_buffer text = {0};
    mh_model *model = causal_directory_load(context, &directory);
    assert_null(mh_model_chat_template(model));
    test_refused(context, mh_model_chat(context, model, NULL, &message, 1, &text),
                 MH_ERROR_UNSUPPORTED, "has no chat template");
    test_refused(context, mh_model_chat(context, model, "alpaca", &message, 1, &text),
                 MH_ERROR_ARGUMENT, "alpaca");
    test_ok(context, mh_model_chat(context, model, "zephyr", &message, 1, &text));
    assert_string_equal(text.data, "<|user|>\nHi<|endoftext|>\n<|assistant|>\n");
    mh_model_free(model);
    causal_directory_write(
        &directory, "tokenizer_config.json",
        "{\"model_max_length\": 1000000000000000019884624838656, " // as transformers writes it
        "\"chat_template\": [{\"name\": \"tools\", \"template\": \"x\"}, {\"name\": \"default\", "
        "\"template\": \"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
        "'<|im_start|>assistant\\n' }}{% endif %}\"}]}");
    model = causal_directory_load(context, &directory);
    assert_string_equal(mh_model_chat_template(model), "chatml");
    test_ok(context, mh_model_chat(context, model, NULL, &message, 1, &text));
    assert_string_equal(text.data, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    mh_model_free(model);
    causal_directory_write(&directory, "chat_template.jinja", "{{ messages }}");
    model = causal_directory_load(context, &directory);
    assert_null(mh_model_chat_template(model));
    test_refused(
        context, mh_model_chat(context, model, NULL, &message, 1, &text), MH_ERROR_UNSUPPORTED,
        "line 1: a list is written as it is, which is not supported; another one can be chosen");
    mh_model_free(model);
    mh_buffer_free(context, &text);
    causal_directory_remove(&directory);
}

static mh_status load_directory(mh_context *context, void *user)
{
    const causal_directory *directory = user;
    mh_model *model;
    mh_status status = mh_model_load(context, directory->path, NULL, &model);
    mh_model_free(model);
    return status;
}

static void memory_that_runs_out(void **state)
{
    (void)state;
    causal_directory directory = causal_directory_make();
    causal_directory_write(&directory, "generation_config.json",
                           "{\"bad_words_ids\": [[1, 2], [3]], \"suppress_tokens\": [4]}");
    causal_directory_write(&directory, "chat_template.jinja",
                           "{% for message in messages %}{{ message['content'] }}{% endfor %}");
    assert_true(test_failing_allocations(NULL, 1, load_directory, &directory) > 20);
    causal_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_forbid_and_force),
        cmocka_unit_test(bad_words_are_not_completed),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(generation_obeys_the_directory),
        cmocka_unit_test(chat_template_of_the_directory),
        cmocka_unit_test(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, test_open_context, test_close_context);
}
