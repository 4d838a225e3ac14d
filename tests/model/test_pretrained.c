// SPDX-License-Identifier: MIT
// Pretrained models against what Hugging Face's transformers computes for them in float64
// (tests/goldens/make_models.py): hidden states of every layer, attention weights, logits, pooled
// output and gradients of all parameters. Our f32 error may be twice that of transformers' own f32
// run, and the goldens' sabotage (a wrong scale, dropped masks, permuted heads) must be far above
// it.
#include "model/model_internal.h"
#include "support.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = 4, MOST_ROWS = 64 };

typedef struct golden {
    const char *name;
    mh_context *context;
    mh_model *model;
    mh_tensor_file *expected;
    size_t B, T, D, H, layers, rows;
    int64_t starts[8];
    int32_t ids[MOST_ROWS], types[MOST_ROWS];
    size_t begin[8], length[8]; // of each sequence among the padded tokens
    mh_model_input input;
    float *hidden; // (rows, D)
} golden;

static mh_tensor expected_tensor(const golden *g, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(g->expected, name, &t))
        fail_msg("%s: no tensor %s", g->name, name);
    return t;
}

static bool has_expected(const golden *g, const char *name)
{
    mh_tensor t;
    return mh_tensor_file_find(g->expected, name, &t);
}

// The largest error that is accepted: twice that of transformers in f32, and a little for outputs
// that it happened to hit exactly.
static double tolerance(const golden *g, const char *name)
{
    char key[160];
    double most = 0, rms = 0, size = 0;
    snprintf(key, sizeof key, "error.%s", name);
    const char *text = mh_tensor_file_metadata(g->expected, key);
    assert_non_null(text);
    assert_int_equal(sscanf(text, "%lf %lf %lf", &most, &rms, &size), 3);
    return 2 * most + 4e-7 * size + 1e-7;
}

static void expect_close(const golden *g, const char *name, const float *found,
                         const float *expected, size_t count)
{
    const double most = tolerance(g, name);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= most))
            fail_msg("%s: %s[%zu]: found %.9g, expected %.9g within %.3g", g->name, name, i,
                     (double)found[i], (double)expected[i], most);
}

// ---- set-up
// ----------------------------------------------------------------------------------------

static void find_sequences(golden *g)
{
    const mh_tensor ids = expected_tensor(g, "in.input_ids");
    const mh_tensor mask = expected_tensor(g, "in.attention_mask");
    const bool typed = has_expected(g, "in.token_type_ids");
    const mh_tensor types = typed ? expected_tensor(g, "in.token_type_ids") : ids;
    g->B = ids.shape[0], g->T = ids.shape[1];
    for (size_t b = 0; b < g->B; b++) {
        const int64_t *live = (const int64_t *)mask.data + b * g->T;
        g->length[b] = 0;
        for (size_t t = 0; t < g->T; t++) {
            if (!live[t])
                continue;
            if (g->length[b]++ == 0)
                g->begin[b] = t;
            g->ids[g->rows] = (int32_t)((const int64_t *)ids.data)[b * g->T + t];
            g->types[g->rows++] = typed ? (int32_t)((const int64_t *)types.data)[b * g->T + t] : 0;
        }
        g->starts[b + 1] = (int64_t)g->rows;
    }
}

static golden open_golden(const char *name, bool trainable)
{
    golden g = {.name = name};
    char path[512];
    mh_model_options o = mh_model_options_default();
    o.trainable = trainable;
    assert_int_equal(mh_context_create(NULL, &g.context, NULL, 0), MH_OK);
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s", name);
    if (mh_model_load(g.context, path, &o, &g.model))
        fail_msg("%s", mh_error_message(g.context));
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s/expected.safetensors", name);
    assert_int_equal(mh_tensor_file_open(g.context, path, &g.expected), MH_OK);
    const mh_model_info *info = mh_model_describe(g.model);
    g.D = info->d_model, g.H = info->heads, g.layers = info->layers;
    find_sequences(&g);
    g.hidden = calloc(g.rows * g.D, sizeof *g.hidden);
    return g;
}

static void set_input(golden *g)
{
    g->input = mh_model_input_default();
    g->input.sequences = g->B;
    g->input.starts = g->starts;
    g->input.ids = g->ids;
    g->input.types = g->types;
}

static void close_golden(golden *g)
{
    free(g->hidden);
    mh_model_free(g->model);
    mh_tensor_file_free(g->expected);
    mh_context_free(g->context);
}

// Compares packed rows (rows, width) with padded ones (B, T, width).
static void expect_rows(const golden *g, const char *name, const float *rows, size_t width)
{
    const mh_tensor t = expected_tensor(g, name);
    for (size_t b = 0; b < g->B; b++)
        for (size_t i = 0; i < g->length[b]; i++)
            expect_close(g, name, rows + ((size_t)g->starts[b] + i) * width,
                         (const float *)t.data + (b * g->T + g->begin[b] + i) * width, width);
}

// ---- forward
// ---------------------------------------------------------------------------------------

static void expect_weights(const golden *g, size_t layer, const float *weights, size_t longest)
{
    char name[32];
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

// ---- gradients
// -------------------------------------------------------------------------------------

// Packs padded rows (B, T, width) of the loss's weights.
static void pack_rows(const golden *g, const mh_tensor *t, size_t width, float *rows)
{
    for (size_t b = 0; b < g->B; b++)
        for (size_t i = 0; i < g->length[b]; i++)
            memcpy(rows + ((size_t)g->starts[b] + i) * width,
                   (const float *)t->data + (b * g->T + g->begin[b] + i) * width,
                   width * sizeof *rows);
}

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

// The tolerance of a parameter that several tensors make up: the largest of theirs.
static double gradient_tolerance(const golden *g, double size)
{
    double most = 0;
    for (size_t i = 0; i < mh_tensor_file_count(g->expected); i++) {
        const char *name = mh_tensor_file_name(g->expected, i);
        if (strncmp(name, "grad.", 5) == 0 && tolerance(g, name) > most)
            most = tolerance(g, name);
    }
    return most + 1e-6 * size;
}

static void expect_gradients(golden *g, const mh_parameters *parameters, const float *gradients)
{
    mh_weight_source source = {.context = g->context,
                               .family = g->model->family,
                               .file = g->expected,
                               .path = g->name,
                               .root = "grad.",
                               .prefix = "",
                               .block = &g->model->description.block,
                               .layers = g->layers};
    assert_int_equal(mh_weights_begin(&source), MH_OK);
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        float *expected = calloc(p->count, sizeof *expected);
        mh_tensor to = mh_parameter_view(&(mh_parameter){.rank = p->rank,
                                                         .shape = {p->shape[0], p->shape[1]},
                                                         .count = p->count},
                                         expected);
        if (mh_weights_copy(&source, p->name, &to))
            fail_msg("%s", mh_error_message(g->context));
        double size = 0;
        for (size_t j = 0; j < p->count; j++)
            size = fmax(size, fabs((double)expected[j]));
        const double most = gradient_tolerance(g, size);
        for (size_t j = 0; j < p->count; j++)
            if (!(fabs((double)gradients[p->offset + j] - (double)expected[j]) <= most))
                fail_msg("%s: gradient of %s[%zu]: found %.9g, expected %.9g within %.3g", g->name,
                         p->name, j, (double)gradients[p->offset + j], (double)expected[j], most);
        free(expected);
    }
    mh_weights_end(&source);
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
    expect_gradients(&g, blocks, gradients.blocks);
    expect_gradients(&g, ends, gradients.ends);
    mh_tape_free(g.input.tape);
    free(gradients.ends);
    free(gradients.blocks);
    free(dhidden);
    close_golden(&g);
}

// ---- tests
// -----------------------------------------------------------------------------------------

static const char *const models[] = {
    "bert", "bert-mlm",        "bert-classifier", "roberta-mlm", "roberta-classifier",
    "gpt2", "xlm-roberta-mlm", "distilbert-mlm",  "gpt2-untied", "distilbert-classifier",
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
