// SPDX-License-Identifier: MIT
// Prompt caches: conversations that do not read their history again generate what those do that
// read it, bitwise: with windows, caches of bf16, other options in between, and callbacks that
// stop.
#include "generate_support.h"

static mh_generations *continue_ids(mh_context *context, const mh_model *model,
                                    const mh_generate_options *options, const int32_t *ids,
                                    size_t count)
{
    const int64_t starts[] = {0, (int64_t)count};
    mh_generations *g;
    test_ok(context, mh_generate(context, model, options, starts, ids, 1, &g));
    return g;
}

// Generates with and without the cache, and expects equal bits; returns the number of tokens, which
// are appended to ids.
static size_t expect_equal(mh_context *context, const mh_model *model, mh_generate_options o,
                           mh_prompt_cache *cache, int32_t *ids, size_t count)
{
    mh_generations *whole = continue_ids(context, model, &o, ids, count);
    o.prompt_cache = cache;
    mh_generations *part = continue_ids(context, model, &o, ids, count);
    const mh_generation *x = mh_generations_at(whole, 0), *y = mh_generations_at(part, 0);
    const size_t made = x->count;
    assert_int_equal(made, y->count);
    assert_int_equal(x->finish, y->finish);
    assert_memory_equal(x->ids, y->ids, made * sizeof *x->ids);
    assert_memory_equal(x->logprobs, y->logprobs, made * sizeof *x->logprobs);
    memcpy(ids + count, x->ids, made * sizeof *ids);
    mh_generations_free(whole);
    mh_generations_free(part);
    return made;
}

static mh_generate_options usual_options(void)
{
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 4;
    o.ignore_eos = true;
    o.temperature = 1.5;
    o.seed = 3;
    o.segment = 3;
    return o;
}

// Four turns: of each answer the last token is another one in the next prompt, and three are new.
// The model has not seen the last token of an answer, so that all before it are known.
// golden NULL: gpt2
static void check_conversation(const char *golden, mh_dtype dtype)
{
    mh_context *context = test_context(NULL, 2);
    const causal_directory directory =
        golden ? causal_directory_copy(golden, 64) : causal_directory_make();
    mh_model *model = causal_directory_load(context, &directory);
    mh_prompt_cache *cache;
    int32_t ids[64] = {5, 17, 40, 3, 9, 60};
    size_t count = 6;
    mh_generate_options o = usual_options();
    o.cache_dtype = dtype;
    test_ok(context, mh_prompt_cache_create(context, model, &cache));
    assert_int_equal(mh_prompt_cache_length(cache), 0);
    for (int turn = 0; turn < 4; turn++) {
        const size_t known = turn ? count - 4 : 0;
        count += expect_equal(context, model, o, cache, ids, count);
        assert_int_equal(mh_prompt_cache_reused(cache), known);
        assert_int_equal(mh_prompt_cache_length(cache), count - 1);
        ids[count - 1] = (ids[count - 1] + 1) % 90 + 3;
        for (int i = 0; i < 3; i++)
            ids[count++] = 10 + 7 * turn + i;
    }
    mh_prompt_cache_free(cache);
    mh_model_free(model);
    causal_directory_remove(&directory);
    mh_context_free(context);
}

static void conversations(void **state)
{
    (void)state;
    check_conversation(NULL, MH_F32);
    check_conversation(NULL, MH_BF16);
    check_conversation("llama", MH_F32);
    check_conversation("gemma3", MH_F32);
    check_conversation("mistral", MH_F32); // a window of 4
}

// Prompts that share nothing, a part of the last one, all of it, more than it, and none of its
// options.
static void other_prompts(void **state)
{
    mh_context *context = *state;
    const causal_directory directory = causal_directory_copy("mistral", 200);
    mh_model *model = causal_directory_load(context, &directory);
    mh_prompt_cache *cache;
    int32_t ids[200], other[200];
    bool disabled[8] = {false, true};
    for (int i = 0; i < 200; i++) {
        ids[i] = (i * 31 + 5) % 99;
        other[i] = (i * 17 + 8) % 99;
    }
    mh_generate_options o = usual_options();
    test_ok(context, mh_prompt_cache_create(context, model, &cache));
    expect_equal(context, model, o, cache, ids, 150);
    expect_equal(context, model, o, cache, ids, 150); // the same again: its last token is read
    assert_int_equal(mh_prompt_cache_reused(cache), 149);
    expect_equal(context, model, o, cache, ids, 20); // keys of the window are gone: all is read
    assert_int_equal(mh_prompt_cache_reused(cache), 0);
    expect_equal(context, model, o, cache, ids, 1);
    assert_int_equal(mh_prompt_cache_reused(cache), 0);
    expect_equal(context, model, o, cache, other, 30);
    assert_int_equal(mh_prompt_cache_reused(cache), 0);
    o.disabled_heads = disabled;
    expect_equal(context, model, o, cache, other, 30);
    assert_int_equal(mh_prompt_cache_reused(cache), 0);
    expect_equal(context, model, o, cache, other, 30);
    assert_int_equal(mh_prompt_cache_reused(cache), 29);
    o.cache_dtype = MH_BF16;
    expect_equal(context, model, o, cache, other, 30);
    assert_int_equal(mh_prompt_cache_reused(cache), 0);
    mh_prompt_cache_free(cache);
    mh_model_free(model);
    causal_directory_remove(&directory);
}

static mh_generate_action stop_early(void *user, const mh_generated_token *token)
{
    const mh_generate_action *action = user;
    return token->position == 1 ? *action : MH_GENERATE_CONTINUE;
}

static void callbacks_that_stop(void **state)
{
    mh_context *context = *state;
    const causal_directory directory = causal_directory_copy("llama", 64);
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = usual_options();
    mh_prompt_cache *cache;
    int32_t ids[64] = {5, 17, 40, 3};
    size_t count = 4;
    test_ok(context, mh_prompt_cache_create(context, model, &cache));
    o.on_token = stop_early;
    for (mh_generate_action action = MH_GENERATE_STOP; action <= MH_GENERATE_STOP_ALL; action++) {
        o.user = &action;
        count += expect_equal(context, model, o, cache, ids, count);
        assert_int_equal(mh_prompt_cache_length(cache), count - 1);
    }
    o.on_token = NULL;
    expect_equal(context, model, o, cache, ids, count);
    assert_int_equal(mh_prompt_cache_reused(cache), count - 1);
    mh_prompt_cache_free(cache);
    mh_model_free(model);
    causal_directory_remove(&directory);
}

static void what_is_refused(void **state)
{
    mh_context *context = *state;
    const causal_directory directory = causal_directory_make();
    mh_model *model = causal_directory_load(context, &directory),
             *another = causal_directory_load(context, &directory), *encoder;
    mh_generate_options o = usual_options();
    mh_prompt_cache *cache;
    mh_generations *g;
    const int64_t starts[] = {0, 1, 2};
    const int32_t ids[] = {1, 2};
    test_ok(context, mh_prompt_cache_create(context, another, &o.prompt_cache));
    test_refused(context, mh_generate(context, model, &o, starts, ids, 1, &g), MH_ERROR_ARGUMENT,
                 "of another model");
    mh_prompt_cache_free(o.prompt_cache);
    mh_model_free(another);
    test_ok(context, mh_prompt_cache_create(context, model, &o.prompt_cache));
    test_refused(context, mh_generate(context, model, &o, starts, ids, 2, &g), MH_ERROR_ARGUMENT,
                 "2 prompts");
    o.temperature = 0;
    o.beam = 2;
    test_refused(context, mh_generate(context, model, &o, starts, ids, 1, &g), MH_ERROR_ARGUMENT,
                 "beam of 2");
    mh_prompt_cache_free(o.prompt_cache);
    mh_model_free(model);
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-mlm", NULL, &encoder));
    test_refused(context, mh_prompt_cache_create(context, encoder, &cache), MH_ERROR_UNSUPPORTED,
                 "no causal language model");
    mh_model_free(encoder);
    causal_directory_remove(&directory);
}

static mh_status converse(mh_context *context, void *user)
{
    mh_generate_options o = usual_options();
    const mh_text texts[] = {{"A b", 3}, {"A b c", 5}};
    mh_status status = mh_prompt_cache_create(context, user, &o.prompt_cache);
    for (int i = 0; i < 2 && !status; i++) {
        mh_generations *g;
        status = mh_generate_texts(context, user, &o, &texts[i], 1, &g);
        mh_generations_free(g);
    }
    mh_prompt_cache_free(o.prompt_cache);
    return status;
}

static void memory_that_runs_out(void **state)
{
    mh_context *context = *state;
    const causal_directory directory = causal_directory_make();
    mh_model *model = causal_directory_load(context, &directory);
    assert_true(test_failing_allocations(NULL, 1, converse, model) > 20);
    mh_model_free(model);
    causal_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations),
        cmocka_unit_test_setup_teardown(other_prompts, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(callbacks_that_stop, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(what_is_refused, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(memory_that_runs_out, test_open_context,
                                        test_close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
