// SPDX-License-Identifier: MIT
// Pretrained encoder-decoders against transformers in float64, as test_pretrained.c does for models
// of one stack: hidden states and attention of every layer of both stacks, logits, gradients of all
// parameters.
#include "encdec_golden.h"

// ---- forward ------------------------------------------------------------------------------------

// One kind of attention: its taps, and what they read.
typedef struct tapped {
    const golden *queries, *keys;
    const char *hidden, *attention; // names in the golden
    float *weights[MOST_LAYERS], *outputs[MOST_LAYERS];
} tapped;

static void add_taps(tapped *t, mh_tap_kind kind, mh_tap *taps, size_t *count)
{
    const golden *q = t->queries;
    const size_t T = longest_of(q), S = longest_of(t->keys);
    for (size_t i = 0; i < q->layers; i++) {
        mh_tap *tap = &taps[(*count)++];
        t->weights[i] = calloc(q->B * q->H * T * S, sizeof(float));
        t->outputs[i] = calloc(q->rows * q->D, sizeof(float));
        *tap = mh_tap_make(kind, i);
        tap->weights = mh_tensor_4d(t->weights[i], MH_F32, q->B, q->H, T, S);
        if (t->hidden)
            tap->hidden = mh_tensor_3d(t->outputs[i], MH_F32, 1, q->rows, q->D);
    }
}

static void expect_attention(const tapped *t, size_t layer)
{
    const golden *q = t->queries, *k = t->keys;
    const size_t T = longest_of(q), S = longest_of(k);
    char name[40];
    snprintf(name, sizeof name, "%s.%zu", t->attention, layer);
    const mh_tensor expected = expected_tensor(q, name);
    for (size_t b = 0; b < q->B; b++)
        for (size_t h = 0; h < q->H; h++)
            for (size_t i = 0; i < q->length[b]; i++)
                expect_close(q, name, t->weights[layer] + ((b * q->H + h) * T + i) * S,
                             (const float *)expected.data +
                                 ((b * q->H + h) * q->T + q->begin[b] + i) * k->T + k->begin[b],
                             k->length[b]);
}

static void expect_tapped(tapped *t)
{
    for (size_t i = 0; i < t->queries->layers; i++) {
        char name[40];
        expect_attention(t, i);
        snprintf(name, sizeof name, "%s.%zu", t->hidden ? t->hidden : "", i + 1);
        if (t->hidden) // the last one is after the final norm
            expect_rows(t->queries, name,
                        i + 1 < t->queries->layers ? t->outputs[i] : t->queries->hidden,
                        t->queries->D);
        free(t->weights[i]);
        free(t->outputs[i]);
    }
}

static void check_layers(encdec *e)
{
    mh_tap taps[3 * MOST_LAYERS];
    size_t count = 0;
    golden *s = &e->source, *t = &e->target;
    tapped kinds[] = {{.queries = s,
                       .keys = s,
                       .hidden = "out.encoder.hidden",
                       .attention = "out.encoder.attention"},
                      {.queries = t,
                       .keys = t,
                       .hidden = "out.decoder.hidden",
                       .attention = "out.decoder.attention"},
                      {.queries = t, .keys = s, .attention = "out.cross"}};
    static const mh_tap_kind which[] = {MH_TAP_ENCODER, MH_TAP_DECODER, MH_TAP_CROSS};
    mh_model_input input = input_of(e);
    for (size_t i = 0; i < 3; i++)
        add_taps(&kinds[i], which[i], taps, &count);
    input.taps = taps;
    input.tap_count = count;
    run_hidden(t, &input);
    mh_model_input source = input_of(e); // the encoder alone
    source.target_starts = NULL;
    run_hidden(s, &source);
    for (size_t i = 0; i < 3; i++)
        expect_tapped(&kinds[i]);
}

// The embeddings of both stacks, the decoder's as incremental decoding computes them.
static void check_embeddings(encdec *e)
{
    golden *s = &e->source, *t = &e->target;
    int64_t positions[MOST_ROWS];
    int32_t indices[2 * MOST_ROWS];
    float *x = calloc(2 * (s->rows + t->rows) * s->D, sizeof *x);
    float *y = x + 2 * s->rows * s->D;
    mh_tensor sources = mh_tensor_2d(x, MH_F32, s->rows, s->D);
    mh_tensor targets = mh_tensor_2d(y, MH_F32, t->rows, t->D);
    const mh_model_input input = input_of(e);
    const mh_model_tokens tokens = mh_model_source_tokens(&input);
    assert_int_equal(
        mh_model_embed_tokens(s->context, s->model, &tokens, x + s->rows * s->D, indices, &sources),
        MH_OK);
    for (size_t b = 0; b < t->B; b++)
        for (size_t i = 0; i < t->length[b]; i++)
            positions[(size_t)t->starts[b] + i] = (int64_t)i;
    assert_int_equal(mh_model_embed_targets(t->context, t->model, t->ids, positions, &targets),
                     MH_OK);
    expect_rows(s, "out.encoder.hidden.0", x, s->D);
    expect_rows(t, "out.decoder.hidden.0", y, t->D);
    free(x);
}

static void check_logits(encdec *e)
{
    float *logits = logits_of(&e->target);
    expect_rows(&e->target, "out.logits", logits,
                mh_model_describe(e->target.model)->target_vocabulary);
    free(logits);
}

// ---- gradients ----------------------------------------------------------------------------------

// The gradient of final_logits_bias, which transformers does not train: the sum over rows.
static void expect_bias_gradient(const golden *g, const mh_parameters *ends, const float *gradients,
                                 const float *dlogits)
{
    const mh_parameter *p = mh_parameters_find(ends, "lm_head.bias");
    for (size_t v = 0; p && v < p->count; v++) {
        double sum = 0;
        for (size_t i = 0; i < g->rows; i++)
            sum += (double)dlogits[i * p->count + v];
        assert_true(fabs((double)gradients[p->offset + v] - sum) < 1e-5);
    }
}

static void backward(encdec *e, const mh_model_input *input, mh_model_gradients *gradients)
{
    golden *t = &e->target;
    const size_t V = mh_model_describe(t->model)->target_vocabulary;
    const mh_tensor loss = expected_tensor(t, "loss.logits");
    float *rows = calloc(t->rows * V, sizeof *rows);
    float *dhidden = calloc(t->rows * t->D, sizeof *dhidden);
    const mh_tensor dlogits = mh_tensor_2d(rows, MH_F32, t->rows, V);
    mh_tensor hidden = mh_tensor_2d(t->hidden, MH_F32, t->rows, t->D);
    mh_tensor dh = mh_tensor_2d(dhidden, MH_F32, t->rows, t->D);
    pack_rows(t, &loss, V, rows);
    assert_int_equal(
        mh_model_logits_backward(t->context, t->model, &hidden, &dlogits, &dh, gradients), MH_OK);
    if (mh_model_hidden_backward(t->context, t->model, input, &dh, gradients))
        fail_msg("%s: %s", t->name, mh_error_message(t->context));
    expect_bias_gradient(t, mh_model_parameters(t->model), gradients->ends, rows);
    free(rows);
    free(dhidden);
}

static void check_gradients(const char *name)
{
    encdec e = open_encdec(name, true);
    golden *t = &e.target;
    const mh_parameters *ends = mh_model_parameters(t->model);
    const mh_parameters *blocks = mh_transformer_parameters(mh_model_transformer(t->model));
    mh_model_gradients gradients = mh_model_gradients_default();
    gradients.ends = calloc(ends->floats, sizeof(float));
    gradients.blocks = calloc(blocks->floats, sizeof(float));
    mh_model_input input = input_of(&e);
    assert_int_equal(mh_tape_create(t->context, &input.tape), MH_OK);
    run_hidden(t, &input);
    backward(&e, &input, &gradients);
    expect_gradients(t, t->model->stack, blocks, gradients.blocks);
    expect_gradients(t, "", ends, gradients.ends);
    mh_tape_free(input.tape);
    free(gradients.ends);
    free(gradients.blocks);
    close_encdec(&e);
}

// ---- tests --------------------------------------------------------------------------------------

static void equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCDEC_MODELS; i++) {
        encdec e = open_encdec(encdec_models[i], false);
        check_embeddings(&e);
        check_layers(&e);
        check_logits(&e);
        close_encdec(&e);
    }
}

static void gradients_equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCDEC_MODELS; i++)
        check_gradients(encdec_models[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_transformers),
        cmocka_unit_test(gradients_equal_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
