// SPDX-License-Identifier: MIT
// A golden model of tests/goldens/models: what transformers computed with it, and comparisons of
// our packed rows with its padded ones.
#ifndef MH_TESTS_PRETRAINED_GOLDEN_H
#define MH_TESTS_PRETRAINED_GOLDEN_H

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

static inline mh_tensor expected_tensor(const golden *g, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(g->expected, name, &t))
        fail_msg("%s: no tensor %s", g->name, name);
    return t;
}

static inline bool has_expected(const golden *g, const char *name)
{
    mh_tensor t;
    return mh_tensor_file_find(g->expected, name, &t);
}

// The largest error that is accepted: twice that of transformers in f32, and a little for outputs
// that it happened to hit exactly.
static inline double tolerance(const golden *g, const char *name)
{
    char key[160];
    double most = 0, rms = 0, size = 0;
    snprintf(key, sizeof key, "error.%s", name);
    const char *text = mh_tensor_file_metadata(g->expected, key);
    assert_non_null(text);
    assert_int_equal(sscanf(text, "%lf %lf %lf", &most, &rms, &size), 3);
    return 2 * most + 4e-7 * size + 1e-7;
}

static inline void expect_close(const golden *g, const char *name, const float *found,
                                const float *expected, size_t count)
{
    const double most = tolerance(g, name);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= most))
            fail_msg("%s: %s[%zu]: found %.9g, expected %.9g within %.3g", g->name, name, i,
                     (double)found[i], (double)expected[i], most);
}

// ---- set-up -------------------------------------------------------------------------------------

// Packs the tokens of the tensor `name` that are not padding.
static inline void find_sequences(golden *g, const char *name, const char *mask_name)
{
    const mh_tensor ids = expected_tensor(g, name);
    const mh_tensor mask = expected_tensor(g, mask_name);
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

// Opens a golden model without its tokens. `change` may alter its description first.
static inline golden open_changed_model(const char *name, bool trainable,
                                        void (*change)(mh_description *))
{
    golden g = {.name = name};
    char path[512];
    mh_model_options o = mh_model_options_default();
    o.trainable = trainable;
    assert_int_equal(mh_context_create(NULL, &g.context, NULL, 0), MH_OK);
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s", name);
    if (mh_model_load_changed(g.context, path, &o, change, &g.model))
        fail_msg("%s", mh_error_message(g.context));
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s/expected.safetensors", name);
    assert_int_equal(mh_tensor_file_open(g.context, path, &g.expected), MH_OK);
    const mh_model_info *info = mh_model_describe(g.model);
    g.D = info->d_model, g.H = info->heads, g.layers = info->layers;
    return g;
}

static inline golden open_changed_golden(const char *name, bool trainable,
                                         void (*change)(mh_description *))
{
    golden g = open_changed_model(name, trainable, change);
    find_sequences(&g, "in.input_ids", "in.attention_mask");
    g.hidden = calloc(g.rows * g.D, sizeof *g.hidden);
    return g;
}

static inline golden open_golden(const char *name, bool trainable)
{
    return open_changed_golden(name, trainable, NULL);
}

static inline void set_input(golden *g)
{
    g->input = mh_model_input_default();
    g->input.sequences = g->B;
    g->input.starts = g->starts;
    g->input.ids = g->ids;
    g->input.types = g->types;
}

static inline void close_golden(golden *g)
{
    free(g->hidden);
    mh_model_free(g->model);
    mh_tensor_file_free(g->expected);
    mh_context_free(g->context);
}

// Compares packed rows (rows, width) with padded ones (B, T, width).
static inline void expect_rows(const golden *g, const char *name, const float *rows, size_t width)
{
    const mh_tensor t = expected_tensor(g, name);
    for (size_t b = 0; b < g->B; b++)
        for (size_t i = 0; i < g->length[b]; i++)
            expect_close(g, name, rows + ((size_t)g->starts[b] + i) * width,
                         (const float *)t.data + (b * g->T + g->begin[b] + i) * width, width);
}

// Packs padded rows (B, T, width) of the loss's weights.
static inline void pack_rows(const golden *g, const mh_tensor *t, size_t width, float *rows)
{
    for (size_t b = 0; b < g->B; b++)
        for (size_t i = 0; i < g->length[b]; i++)
            memcpy(rows + ((size_t)g->starts[b] + i) * width,
                   (const float *)t->data + (b * g->T + g->begin[b] + i) * width,
                   width * sizeof *rows);
}

// The tolerance of a parameter that several tensors make up: the largest of theirs.
static inline double gradient_tolerance(const golden *g, double size)
{
    double most = 0;
    for (size_t i = 0; i < mh_tensor_file_count(g->expected); i++) {
        const char *name = mh_tensor_file_name(g->expected, i);
        if (strncmp(name, "grad.", 5) == 0 && tolerance(g, name) > most)
            most = tolerance(g, name);
    }
    return most + 1e-6 * size;
}

// `stack` is before the parameters' names in the family's rules.
static inline void expect_gradients(golden *g, const char *stack, const mh_parameters *parameters,
                                    const float *gradients)
{
    mh_weight_source source = {.context = g->context,
                               .family = g->model->family,
                               .file = g->expected,
                               .path = g->name,
                               .root = "grad.",
                               .prefix = "",
                               .stack = "",
                               .block = &g->model->description.block};
    assert_int_equal(mh_weights_begin(&source), MH_OK);
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        char name[sizeof p->name + 16];
        if (strcmp(p->name, "lm_head.bias") == 0 && !mh_weights_have(&source, p->name))
            continue; // final_logits_bias, a constant there: test_pretrained_encdec.c
        float *expected = calloc(p->count, sizeof *expected);
        mh_tensor to = mh_parameter_view(&(mh_parameter){.rank = p->rank,
                                                         .shape = {p->shape[0], p->shape[1]},
                                                         .count = p->count},
                                         expected);
        snprintf(name, sizeof name, "%s%s", stack, p->name);
        if (mh_weights_copy(&source, name, &to))
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

#endif
