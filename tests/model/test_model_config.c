// SPDX-License-Identifier: MIT
// RoPE and windows of config.json: older and newer spellings give the same description, what is not
// supported is refused by name.
#include "model/model_internal.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZES                                                                                      \
    "\"hidden_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "                  \
    "\"intermediate_size\": 40, \"vocab_size\": 99, \"max_position_embeddings\": 40"

// Reads a config.json of this family with these further members.
static mh_status read_config(mh_context *context, const char *family, const char *members,
                             mh_model *model)
{
    char directory[] = "/tmp/mh_config_XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/config.json", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"model_type\": \"%s\", " SIZES "%s%s}", family, *members ? ", " : "", members);
    fclose(file);
    *model = (mh_model){.allocator = mh_context_allocator(context)};
    const mh_status status = mh_model_read_config(context, directory, model);
    model->allocator.release(model->allocator.user, model->labels, model->label_bytes);
    unlink(path);
    rmdir(directory);
    return status;
}

static void expect_same(const char *family, const char *older, const char *newer)
{
    mh_context *context = test_context(NULL, 0);
    mh_model a, b;
    test_ok(context, read_config(context, family, older, &a));
    test_ok(context, read_config(context, family, newer, &b));
    for (int kind = 0; kind < MH_LAYER_KINDS; kind++) {
        const mh_rotary *x = &a.description.rotary[kind], *y = &b.description.rotary[kind];
        assert_true(x->base == y->base && x->part == y->part && x->scaled == y->scaled);
        assert_memory_equal(&x->scaling, &y->scaling, sizeof x->scaling);
    }
    assert_int_equal(a.description.window, b.description.window);
    assert_memory_equal(a.description.sliding, b.description.sliding, sizeof a.description.sliding);
    mh_context_free(context);
}

static void expect_refused(const char *family, const char *members, const char *message)
{
    mh_context *context = test_context(NULL, 0);
    mh_model model;
    assert_true(read_config(context, family, members, &model) != MH_OK);
    if (!strstr(mh_error_message(context), message))
        fail_msg("found \"%s\", expected \"%s\"", mh_error_message(context), message);
    mh_context_free(context);
}

static void spellings(void **state)
{
    (void)state;
    expect_same("llama", "\"rope_theta\": 500", "\"rope_parameters\": {\"rope_theta\": 500}");
    expect_same("llama",
                "\"rope_theta\": 500, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
                "\"rope_parameters\": {\"rope_theta\": 500, \"rope_type\": \"linear\", "
                "\"factor\": 2}");
    expect_same("llama", "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}",
                "\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                "\"original_max_position_embeddings\": 40}");
    expect_same("llama", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}",
                "\"rope_scaling\": null");
    expect_same("gpt_neox", "\"rotary_pct\": 0.5, \"rotary_emb_base\": 500",
                "\"rope_parameters\": {\"rope_theta\": 500, \"partial_rotary_factor\": 0.5}");
    expect_same("gemma3_text",
                "\"rope_theta\": 5e5, \"rope_local_base_freq\": 500, \"rope_scaling\": "
                "{\"rope_type\": \"linear\", \"factor\": 8}, \"sliding_window_pattern\": 2",
                "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5e5, \"rope_type\": "
                "\"linear\", \"factor\": 8}, \"sliding_attention\": {\"rope_theta\": 500}}, "
                "\"layer_types\": [\"sliding_attention\", \"full_attention\", "
                "\"sliding_attention\", \"full_attention\"]");
    expect_same("qwen2",
                "\"use_sliding_window\": true, \"max_window_layers\": 3, \"sliding_window\": 8",
                "\"use_sliding_window\": true, \"sliding_window\": 8, \"layer_types\": "
                "[\"full_attention\", \"full_attention\", \"full_attention\", "
                "\"sliding_attention\"]");
}

static void windows(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 0);
    static const struct {
        const char *family, *members;
        uint64_t sliding;
    } cases[] = {
        {"llama", "", 0},
        {"mistral", "", 15},
        {"mistral", "\"sliding_window\": null", 0},
        {"qwen2", "\"sliding_window\": 8", 0},
        {"qwen2", "\"use_sliding_window\": true, \"max_window_layers\": 1", 14},
        {"gemma2", "", 5},
        {"gemma3_text", "\"sliding_window_pattern\": 3", 11},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mh_model model;
        test_ok(context, read_config(context, cases[i].family, cases[i].members, &model));
        assert_int_equal(model.description.sliding[0], cases[i].sliding);
    }
    mh_context_free(context);
}

static void refused(void **state)
{
    (void)state;
    expect_refused("llama", "\"rope_scaling\": {\"rope_type\": \"longrope\"}",
                   "\"rope_type\": found \"longrope\"");
    expect_refused("llama", "\"rope_parameters\": {\"rope_theta\": 0}", "\"rope_theta\": found 0");
    expect_refused("gpt_neox", "\"rotary_pct\": 2", "\"rotary_pct\": found 2");
    expect_refused("gemma2", "\"layer_types\": [\"full_attention\"]", "a name for each layer");
    expect_refused("qwen3",
                   "\"layer_types\": [\"linear_attention\", \"full_attention\", "
                   "\"full_attention\", \"full_attention\"]",
                   "linear_attention");
    expect_refused("gemma3_text", "\"use_bidirectional_attention\": true", "only false");
    expect_refused("gemma2", "\"query_pre_attn_scalar\": 0", "a number above 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings),
        cmocka_unit_test(windows),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
