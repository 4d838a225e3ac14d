// SPDX-License-Identifier: MIT
// Whisper against what Hugging Face's transformers computes for it in float64
// (tests/goldens/make_speech.py), in files of Hugging Face and of OpenAI: hidden states and
// attention weights of every layer, cross-attention, logits; token by token with the same bits and
// transformers' greedy tokens. Our f32 error may be twice that of transformers' own, and mistakes
// are noticed.
#include "pretrained_golden.h"

static const char *const names[] = {"whisper", "whisper-openai"};
enum { NAMES = sizeof names / sizeof *names, MOST_TOKENS = 16 };

typedef struct whisper {
    golden g;              // of the targets
    size_t S;              // rows of a recording
    mh_tensor features[8]; // (mels, frames)
    int64_t sources[8];
    float *memory; // (B, S, D)
    float *logits; // (rows, V)
} whisper;

static void open_whisper(whisper *w, const char *name, void (*change)(mh_description *))
{
    *w = (whisper){.g = open_changed_model(name, false, change)};
    golden *g = &w->g;
    const mh_tensor sound = expected_tensor(g, "in.input_features");
    const mh_tensor ids = expected_tensor(g, "in.decoder_input_ids");
    const size_t mels = sound.shape[1], frames = sound.shape[2];
    g->B = ids.shape[0], g->T = ids.shape[1], g->rows = g->B * g->T;
    w->S = frames / 2;
    for (size_t b = 0; b <= g->B; b++) {
        g->starts[b] = (int64_t)(b * g->T);
        w->sources[b] = (int64_t)(b * w->S);
        w->features[b] = mh_tensor_2d((float *)sound.data + (b < g->B ? b : 0) * mels * frames,
                                      MH_F32, mels, frames);
    }
    for (size_t i = 0; i < g->rows; i++)
        g->ids[i] = (int32_t)((const int64_t *)ids.data)[i];
    g->input = mh_model_input_default();
    g->input.sequences = g->B;
    g->input.starts = w->sources;
    g->input.features = w->features;
    g->input.target_starts = g->starts;
    g->input.target_ids = g->ids;
    w->memory = calloc(g->B * w->S * g->D, sizeof *w->memory);
    g->hidden = calloc(g->rows * g->D, sizeof *g->hidden);
    w->logits = calloc(g->rows * mh_model_describe(g->model)->target_vocabulary, sizeof *w->logits);
}

static void close_whisper(whisper *w)
{
    free(w->memory);
    free(w->logits);
    close_golden(&w->g);
}

static void find_memory(whisper *w)
{
    golden *g = &w->g;
    mh_model_input input = g->input;
    mh_tensor memory = mh_tensor_2d(w->memory, MH_F32, g->B * w->S, g->D);
    input.target_starts = NULL;
    if (mh_model_hidden(g->context, g->model, &input, &memory))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
}

static void find_logits(whisper *w)
{
    golden *g = &w->g;
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    mh_tensor logits =
        mh_tensor_2d(w->logits, MH_F32, g->rows, mh_model_describe(g->model)->target_vocabulary);
    test_ok(g->context, mh_model_logits(g->context, g->model, &hidden, &logits));
}

static void run_whisper(whisper *w)
{
    golden *g = &w->g;
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    if (mh_model_hidden(g->context, g->model, &g->input, &hidden))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
    find_logits(w);
}

static void expect_all(const golden *g, const char *name, const float *found)
{
    const mh_tensor t = expected_tensor(g, name);
    expect_close(g, name, found, t.data, mh_tensor_count(&t));
}

// ---- parity -------------------------------------------------------------------------------------

// What a stack's taps copy, and what it is called in the goldens.
typedef struct tapped {
    mh_tap_kind kind;
    const char *weights_name, *hidden_name;
    size_t layers, T, S;
    float *weights[MOST_LAYERS], *hidden[MOST_LAYERS];
} tapped;

static size_t add_taps(const golden *g, tapped *stack, mh_tap *taps)
{
    for (size_t i = 0; i < stack->layers; i++) {
        stack->weights[i] = calloc(g->B * g->H * stack->T * stack->S, sizeof(float));
        stack->hidden[i] = calloc(g->B * stack->T * g->D, sizeof(float));
        taps[i] = mh_tap_make(stack->kind, i);
        taps[i].weights = mh_tensor_4d(stack->weights[i], MH_F32, g->B, g->H, stack->T, stack->S);
        if (stack->hidden_name)
            taps[i].hidden = mh_tensor_3d(stack->hidden[i], MH_F32, 1, g->B * stack->T, g->D);
    }
    return stack->layers;
}

static void expect_stack(const golden *g, tapped *stack)
{
    char name[48];
    for (size_t i = 0; i < stack->layers; i++) {
        snprintf(name, sizeof name, "out.%s.%zu", stack->weights_name, i);
        expect_all(g, name, stack->weights[i]);
        snprintf(name, sizeof name, "out.%s.%zu", stack->hidden_name, i + 1);
        if (stack->hidden_name && i + 1 < stack->layers) // the last one's is after the final norm
            expect_all(g, name, stack->hidden[i]);
        free(stack->weights[i]);
        free(stack->hidden[i]);
    }
}

static void equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        whisper w;
        open_whisper(&w, names[i], NULL);
        golden *g = &w.g;
        mh_tap taps[3 * MOST_LAYERS];
        char name[48];
        size_t count = 0;
        const size_t L = mh_model_describe(g->model)->decoder_layers;
        tapped stacks[] = {
            {MH_TAP_ENCODER, "encoder.attention", "encoder.hidden", g->layers, w.S, w.S, {0}, {0}},
            {MH_TAP_DECODER, "decoder.attention", "decoder.hidden", L, g->T, g->T, {0}, {0}},
            {MH_TAP_CROSS, "cross", NULL, L, g->T, w.S, {0}, {0}}};
        for (size_t j = 0; j < 3; j++)
            count += add_taps(g, &stacks[j], taps + count);
        g->input.taps = taps;
        g->input.tap_count = count;
        run_whisper(&w);
        g->input.tap_count = 0;
        for (size_t j = 0; j < 3; j++)
            expect_stack(g, &stacks[j]);
        find_memory(&w);
        snprintf(name, sizeof name, "out.encoder.hidden.%zu", g->layers);
        expect_all(g, name, w.memory);
        snprintf(name, sizeof name, "out.decoder.hidden.%zu", L);
        expect_all(g, name, g->hidden);
        expect_all(g, "out.logits", w.logits);
        close_whisper(&w);
    }
}

// ---- token by token -----------------------------------------------------------------------------

static mh_decoding *start_decoding(whisper *w)
{
    golden *g = &w->g;
    mh_decoding *decoding;
    find_memory(w);
    const mh_tensor memory = mh_tensor_3d(w->memory, MH_F32, g->B, w->S, g->D);
    test_ok(g->context, mh_decoding_create(g->context, mh_model_transformer(g->model), &memory,
                                           NULL, 1, &decoding));
    return decoding;
}

// g->hidden (B, 1, D) of the tokens (B) at a position.
static void step(whisper *w, mh_decoding *decoding, const int32_t *ids, size_t position)
{
    golden *g = &w->g;
    int64_t positions[8];
    mh_tensor x = mh_tensor_2d(g->hidden, MH_F32, g->B, g->D);
    mh_tensor tokens = mh_tensor_3d(g->hidden, MH_F32, g->B, 1, g->D);
    for (size_t b = 0; b < g->B; b++)
        positions[b] = (int64_t)position;
    test_ok(g->context, mh_model_embed_targets(g->context, g->model, ids, positions, &x));
    test_ok(g->context, mh_decoding_step(g->context, decoding, NULL, 0, &tokens, &tokens));
}

static void steps_equal_forward(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        whisper w;
        open_whisper(&w, names[i], NULL);
        golden *g = &w.g;
        run_whisper(&w);
        float *all = malloc(g->rows * g->D * sizeof *all);
        memcpy(all, g->hidden, g->rows * g->D * sizeof *all);
        mh_decoding *decoding = start_decoding(&w);
        for (size_t t = 0; t < g->T; t++) {
            int32_t ids[8];
            for (size_t b = 0; b < g->B; b++)
                ids[b] = g->ids[b * g->T + t];
            step(&w, decoding, ids, t);
            for (size_t b = 0; b < g->B; b++)
                assert_memory_equal(g->hidden + b * g->D, all + (b * g->T + t) * g->D,
                                    g->D * sizeof *all);
        }
        mh_decoding_free(decoding);
        free(all);
        close_whisper(&w);
    }
}

static int32_t likeliest(const float *logits, size_t V)
{
    size_t best = 0;
    for (size_t i = 1; i < V; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static void greedy_equals_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        whisper w;
        open_whisper(&w, names[i], NULL);
        golden *g = &w.g;
        const mh_tensor expected = expected_tensor(g, "greedy.ids");
        const size_t V = mh_model_describe(g->model)->target_vocabulary;
        mh_decoding *decoding = start_decoding(&w);
        int32_t ids[8];
        for (size_t b = 0; b < g->B; b++)
            ids[b] = g->ids[b * g->T];
        for (size_t t = 0; t < expected.shape[1]; t++) {
            step(&w, decoding, ids, t);
            find_logits(&w);
            for (size_t b = 0; b < g->B; b++) {
                ids[b] = likeliest(w.logits + b * V, V);
                assert_int_equal(ids[b],
                                 ((const int64_t *)expected.data)[b * expected.shape[1] + t]);
            }
        }
        mh_decoding_free(decoding);
        close_whisper(&w);
    }
}

// ---- mistakes -----------------------------------------------------------------------------------

// How far (RMS) logits are off must be what the same mistake does to transformers, if `kind` is not
// NULL, and more than any tolerance.
static void expect_moved(whisper *w, const char *what, const char *kind)
{
    golden *g = &w->g;
    const mh_tensor t = expected_tensor(g, "out.logits");
    const size_t count = mh_tensor_count(&t);
    double sum = 0;
    char key[48];
    for (size_t i = 0; i < count; i++)
        sum += pow((double)w->logits[i] - (double)((const float *)t.data)[i], 2);
    const double moved = sqrt(sum / (double)count);
    if (!(moved > 1000 * tolerance(g, "out.logits")))
        fail_msg("%s: %s moves logits by %g only", g->name, what, moved);
    if (!kind)
        return;
    snprintf(key, sizeof key, "sabotage.%s", kind);
    const char *text = mh_tensor_file_metadata(g->expected, key);
    assert_non_null(text);
    if (!(fabs(moved - atof(text)) < 2e-3 * moved))
        fail_msg("%s: %s moves logits by %g, expected %s", g->name, what, moved, text);
}

static void change_scale(mh_description *d)
{
    d->block.scale = d->decoder.scale =
        1.25f / sqrtf((float)(d->block.d_model / d->block.num_heads));
}
static void other_activation(mh_description *d)
{
    d->block.activation = d->decoder.activation = MH_RELU;
}
static void other_norm(mh_description *d) { d->block.norm_eps = d->decoder.norm_eps = 0.1f; }
static void merge_heads(mh_description *d) { d->block.num_heads = d->decoder.num_heads = 2; }
static void drop_final_norm(mh_description *d) { d->final_norm = false; }

// Of Hugging Face's folder; sizes of OpenAI's file are those of its tensors.
static void notice_change(const char *what, const char *kind, void (*change)(mh_description *))
{
    whisper w;
    open_whisper(&w, "whisper", change);
    run_whisper(&w);
    expect_moved(&w, what, kind);
    close_whisper(&w);
}

static void notice_positions(const char *name, mh_end end, const char *kind)
{
    whisper w;
    open_whisper(&w, name, NULL);
    mh_tensor *table = &w.g.model->ends[end], given = *table;
    float *zeros = calloc(mh_tensor_count(table), sizeof *zeros);
    *table = mh_tensor_2d(zeros, MH_F32, given.shape[0], given.shape[1]);
    run_whisper(&w);
    expect_moved(&w, "no positions", kind);
    *table = given;
    free(zeros);
    close_whisper(&w);
}

// Targets that see those after them.
static void notice_mask(const char *name)
{
    whisper w;
    open_whisper(&w, name, NULL);
    golden *g = &w.g;
    const size_t rows = g->B * w.S;
    mh_transformer_options o = mh_model_block_options(g->model, &g->input);
    const mh_model_tokens targets = mh_model_target_tokens(g->model, &g->input);
    float *block = calloc((rows + 2 * g->rows) * g->D, sizeof *block);
    int32_t indices[2 * MOST_ROWS];
    mh_tensor x = mh_tensor_2d(block, MH_F32, rows, g->D);
    mh_tensor y = mh_tensor_2d(block + rows * g->D, MH_F32, g->rows, g->D);
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    o.tgt_causal = false;
    test_ok(g->context, mh_model_embed_sound(g->context, g->model, &g->input, &x));
    test_ok(g->context, mh_model_embed_tokens(g->context, g->model, &targets,
                                              block + (rows + g->rows) * g->D, indices, &y));
    test_ok(g->context, mh_transformer_forward(g->context, mh_model_transformer(g->model), &o, &x,
                                               &y, &hidden));
    find_logits(&w);
    expect_moved(&w, "no mask", "mask");
    free(block);
    close_whisper(&w);
}

static void mistakes_are_noticed(void **state)
{
    (void)state;
    notice_change("a wrong scale", "scale", change_scale);
    notice_change("another activation", NULL, other_activation);
    notice_change("another epsilon", NULL, other_norm);
    notice_change("no final norm", NULL, drop_final_norm);
    notice_change("half the heads", NULL, merge_heads);
    for (size_t i = 0; i < NAMES; i++) {
        notice_positions(names[i], MH_END_POSITION, "positions.encoder");
        notice_positions(names[i], MH_END_TARGET_POSITION, "positions.decoder");
        notice_mask(names[i]);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

static void refuses_other_features(void **state)
{
    (void)state;
    whisper w;
    open_whisper(&w, "whisper", NULL);
    golden *g = &w.g;
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    w.features[1].shape[0]--;
    test_refused(g->context, mh_model_hidden(g->context, g->model, &g->input, &hidden),
                 MH_ERROR_ARGUMENT, "features[1]: found");
    close_whisper(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_transformers),         cmocka_unit_test(steps_equal_forward),
        cmocka_unit_test(greedy_equals_transformers), cmocka_unit_test(mistakes_are_noticed),
        cmocka_unit_test(refuses_other_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
