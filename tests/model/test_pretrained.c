// SPDX-License-Identifier: MIT
// Pretrained models against what Hugging Face's transformers computes for them in float64
// (tests/goldens/make_models.py): hidden states of every layer, attention weights, logits, pooled
// output and gradients of all parameters. Our f32 error may be twice that of transformers' own f32
// run, and the goldens' sabotage (a wrong scale, dropped masks, permuted heads) must be far above
// it.
#include "pretrained_golden.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- forward ------------------------------------------------------------------------------------

static void expect_weights(const golden *g, size_t layer, const float *weights, size_t longest)
{
    char name[48];
    snprintf(name, sizeof name, "out.attention.%zu", layer);
    if (!has_expected(g, name))
        return;
    const mh_tensor t = expected_tensor(g, name);
    for (size_t b = 0; b < g->B; b++)
        for (size_t h = 0; h < g->H; h++)
            for (size_t i = 0; i < g->length[b]; i++)
                expect_close(g, name, weights + ((b * g->H + h) * longest + i) * longest,
                             (const float *)t.data +
                                 ((b * g->H + h) * g->T + g->begin[b] + i) * g->T + g->begin[b],
                             g->length[b]);
}

static void check_layers(golden *g)
{
    mh_tap taps[MOST_LAYERS];
    float *weights[MOST_LAYERS], *outputs[MOST_LAYERS];
    size_t longest = 0;
    for (size_t b = 0; b < g->B; b++)
        longest = g->length[b] > longest ? g->length[b] : longest;
    for (size_t i = 0; i < g->layers; i++) {
        weights[i] = calloc(g->B * g->H * longest * longest, sizeof(float));
        outputs[i] = calloc(g->rows * g->D, sizeof(float));
        taps[i] = mh_tap_make(MH_TAP_ENCODER, i);
        taps[i].weights = mh_tensor_4d(weights[i], MH_F32, g->B, g->H, longest, longest);
        taps[i].hidden = mh_tensor_3d(outputs[i], MH_F32, 1, g->rows, g->D);
    }
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    set_input(g);
    g->input.taps = taps;
    g->input.tap_count = g->layers;
    if (mh_model_hidden(g->context, g->model, &g->input, &hidden))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
    set_input(g);
    for (size_t i = 0; i < g->layers; i++) {
        char name[32];
        expect_weights(g, i, weights[i], longest);
        snprintf(name, sizeof name, "out.hidden.%zu", i + 1);
        if (has_expected(g, name)) // the last one is after the final norm
            expect_rows(g, name, i + 1 < g->layers ? outputs[i] : g->hidden, g->D);
        free(weights[i]);
        free(outputs[i]);
    }
}

static void check_heads(golden *g)
{
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    const mh_model_info *info = mh_model_describe(g->model);
    float *out = calloc(g->rows * (info->vocabulary + g->D), sizeof *out);
    if (has_expected(g, "out.pooled")) {
        mh_tensor pooled = mh_tensor_2d(out, MH_F32, g->B, g->D);
        assert_int_equal(mh_model_pool(g->context, g->model, &g->input, &hidden, &pooled), MH_OK);
        expect_close(g, "out.pooled", out, expected_tensor(g, "out.pooled").data, g->B * g->D);
    }
    if (info->abilities & MH_CAN_CLASSIFY) {
        mh_tensor logits = mh_tensor_2d(out, MH_F32, g->B, info->labels);
        assert_int_equal(mh_model_classify(g->context, g->model, &g->input, &hidden, &logits),
                         MH_OK);
        expect_close(g, "out.logits", out, expected_tensor(g, "out.logits").data,
                     g->B * info->labels);
        assert_non_null(mh_model_label(g->model, info->labels - 1));
    } else if (has_expected(g, "out.logits")) {
        mh_tensor logits = mh_tensor_2d(out, MH_F32, g->rows, info->vocabulary);
        assert_int_equal(mh_model_logits(g->context, g->model, &hidden, &logits), MH_OK);
        expect_rows(g, "out.logits", out, info->vocabulary);
    }
    free(out);
}

// ---- gradients ----------------------------------------------------------------------------------

// dhidden of the loss sum(output * weights), through the heads.
static void loss_backward(golden *g, const mh_model_gradients *gradients, float *dhidden)
{
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    mh_tensor dh = mh_tensor_2d(dhidden, MH_F32, g->rows, g->D);
    const mh_model_info *info = mh_model_describe(g->model);
    if (has_expected(g, "loss.hidden")) {
        const mh_tensor t = expected_tensor(g, "loss.hidden");
        pack_rows(g, &t, g->D, dhidden);
    }
    if (has_expected(g, "loss.pooled")) {
        const mh_tensor t = expected_tensor(g, "loss.pooled");
        assert_int_equal(
            mh_model_pool_backward(g->context, g->model, &g->input, &hidden, &t, &dh, gradients),
            MH_OK);
    }
    if (!has_expected(g, "loss.logits"))
        return;
    const mh_tensor t = expected_tensor(g, "loss.logits");
    if (info->abilities & MH_CAN_CLASSIFY) {
        assert_int_equal(mh_model_classify_backward(g->context, g->model, &g->input, &hidden, &t,
                                                    &dh, gradients),
                         MH_OK);
        return;
    }
    float *rows = calloc(g->rows * info->vocabulary, sizeof *rows);
    const mh_tensor dlogits = mh_tensor_2d(rows, MH_F32, g->rows, info->vocabulary);
    pack_rows(g, &t, info->vocabulary, rows);
    assert_int_equal(
        mh_model_logits_backward(g->context, g->model, &hidden, &dlogits, &dh, gradients), MH_OK);
    free(rows);
}

static void check_gradients(const char *name)
{
    golden g = open_golden(name, true);
    mh_tensor hidden = mh_tensor_2d(g.hidden, MH_F32, g.rows, g.D);
    const mh_parameters *ends = mh_model_parameters(g.model);
    const mh_parameters *blocks = mh_transformer_parameters(mh_model_transformer(g.model));
    float *dhidden = calloc(g.rows * g.D, sizeof *dhidden);
    mh_model_gradients gradients = mh_model_gradients_default();
    gradients.ends = calloc(ends->floats, sizeof(float));
    gradients.blocks = calloc(blocks->floats, sizeof(float));
    set_input(&g);
    assert_int_equal(mh_tape_create(g.context, &g.input.tape), MH_OK);
    assert_int_equal(mh_model_hidden(g.context, g.model, &g.input, &hidden), MH_OK);
    loss_backward(&g, &gradients, dhidden);
    mh_tensor dh = mh_tensor_2d(dhidden, MH_F32, g.rows, g.D);
    if (mh_model_hidden_backward(g.context, g.model, &g.input, &dh, &gradients))
        fail_msg("%s: %s", name, mh_error_message(g.context));
    expect_gradients(&g, g.model->stack, blocks, gradients.blocks);
    expect_gradients(&g, "", ends, gradients.ends);
    mh_tape_free(g.input.tape);
    free(gradients.ends);
    free(gradients.blocks);
    free(dhidden);
    close_golden(&g);
}

// ---- tests --------------------------------------------------------------------------------------

static const char *const models[] = {
    "bert",         "bert-mlm",        "bert-classifier", "roberta-mlm", "roberta-classifier",
    "gpt2",         "xlm-roberta-mlm", "distilbert-mlm",  "gpt2-untied", "distilbert-classifier",
    "llama",        "llama-scaled",    "mistral",         "qwen2",       "qwen2-yarn",
    "qwen3",        "gemma2",          "gemma3",          "gpt_neox",    "t5-encoder",
    "llama-linear", "llama-dynamic",
};
enum { MODELS = sizeof models / sizeof *models };

static void equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        golden g = open_golden(models[i], false);
        check_layers(&g);
        check_heads(&g);
        close_golden(&g);
    }
}

static void gradients_equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++)
        check_gradients(models[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_transformers),
        cmocka_unit_test(gradients_equal_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
