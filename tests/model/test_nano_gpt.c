// SPDX-License-Identifier: MIT
// nano-gpt, a trained GPT-2 (3 layers, 3 heads, 48 wide) that sorts letters, against the tensors
// that its authors' run computed: q, k, v, weights and output of an attention, hidden states of all
// layers, logits and probabilities. The model's directory is $MH_NANO_GPT (tools/fetch_models.py
// nano-gpt prints it), the tensors are $MH_TEST_DATA/nano-gpt/partials.json; without them nothing
// is tested.
#include "support.h"
#include "support/buffer.h"
#include "text/base64.h"

#include <jansson.h>
#include <math.h>
#include <multihead/pretrained.h>

enum { B = 3, T = 11, D = 48, H = 3, E = D / H, LAYERS = 3, V = 3, ROWS = B * T };
enum { LETTERS = 6, SEQUENCES = 3 * 3 * 3 * 3 * 3 * 3 };

typedef struct nano {
    mh_context *context;
    mh_model *model;
    json_t *partials;
} nano;

static nano open_nano(void)
{
    nano n = {.context = test_context(NULL, 0)};
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/nano-gpt/partials.json", getenv("MH_TEST_DATA"));
    n.partials = json_load_file(path, 0, &error);
    if (!n.partials)
        fail_msg("%s: %s", path, error.text);
    test_ok(n.context, mh_model_load(n.context, getenv("MH_NANO_GPT"), NULL, &n.model));
    return n;
}

static void close_nano(nano *n)
{
    json_decref(n->partials);
    mh_model_free(n->model);
    mh_context_free(n->context);
}

// The `count` floats of a tensor of the authors' run.
static void read_partial(const nano *n, const char *name, size_t count, float *values)
{
    const json_t *data = json_object_get(json_object_get(n->partials, name), "data");
    mh_buffer bytes = {0};
    if (!data)
        fail_msg("no tensor %s", name);
    test_ok(n->context, mh_base64_decode(n->context, json_string_value(data),
                                         json_string_length(data), &bytes));
    assert_int_equal(bytes.size, count * sizeof *values);
    memcpy(values, bytes.data, bytes.size); // little-endian, like every level here
    mh_buffer_free(n->context, &bytes);
}

// Both runs are f32, so that large values may differ by units of their last place: 2.6e-6 of 8 at
// avx2, 1.4e-6 at avx512.
static void expect_partial(const nano *n, const char *name, const float *found, size_t count,
                           double tolerance)
{
    static float expected[ROWS * D];
    double worst = 0;
    assert_in_range(count, 1, ROWS * D);
    read_partial(n, name, count, expected);
    for (size_t i = 0; i < count; i++) {
        const double error = fabs((double)found[i] - (double)expected[i]);
        if (!(error <= tolerance + 2e-7 * fabs((double)expected[i])))
            fail_msg("%s[%zu]: found %.9g, expected %.9g", name, i, (double)found[i],
                     (double)expected[i]);
        worst = fmax(worst, error);
    }
    print_message("%s within %.2g\n", name, worst);
}

// (H, rows, E) of a packed batch to (B, H, T, E).
static void split_sequences(const float *from, float *to)
{
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            memcpy(to + (b * H + h) * T * E, from + (h * ROWS + b * T) * E, T * E * sizeof *to);
}

static void expect_heads(const nano *n, const char *name, const float *packed, double tolerance)
{
    float split[ROWS * D];
    split_sequences(packed, split);
    expect_partial(n, name, split, ROWS * D, tolerance);
}

typedef struct tapped {
    float q[ROWS * D], k[ROWS * D], v[ROWS * D], weights[B * H * T * T], out[ROWS * D];
    float layers[LAYERS][ROWS * D], hidden[ROWS * D], logits[ROWS * V];
} tapped;

static void set_taps(tapped *t, mh_tap taps[LAYERS])
{
    for (size_t i = 0; i < LAYERS; i++) {
        taps[i] = mh_tap_make(MH_TAP_ENCODER, i);
        taps[i].hidden = mh_tensor_3d(t->layers[i], MH_F32, 1, ROWS, D);
    }
    taps[0].q = mh_tensor_4d(t->q, MH_F32, 1, H, ROWS, E);
    taps[0].k = mh_tensor_4d(t->k, MH_F32, 1, H, ROWS, E);
    taps[0].v = mh_tensor_4d(t->v, MH_F32, 1, H, ROWS, E);
    taps[0].weights = mh_tensor_4d(t->weights, MH_F32, B, H, T, T);
    taps[0].out = mh_tensor_3d(t->out, MH_F32, 1, ROWS, D);
}

static void run_tapped(const nano *n, tapped *t)
{
    static const int64_t starts[B + 1] = {0, T, 2 * T, 3 * T};
    mh_tap taps[LAYERS];
    float letters[ROWS];
    int32_t ids[ROWS];
    mh_model_input input = mh_model_input_default();
    mh_tensor hidden = mh_tensor_2d(t->hidden, MH_F32, ROWS, D);
    mh_tensor logits = mh_tensor_2d(t->logits, MH_F32, ROWS, V);
    read_partial(n, "idx", ROWS, letters);
    for (size_t i = 0; i < ROWS; i++)
        ids[i] = (int32_t)letters[i];
    set_taps(t, taps);
    input.sequences = B, input.starts = starts, input.ids = ids;
    input.taps = taps, input.tap_count = LAYERS;
    test_ok(n->context, mh_model_hidden(n->context, n->model, &input, &hidden));
    test_ok(n->context, mh_model_logits(n->context, n->model, &hidden, &logits));
}

static void softmax_rows(const float *logits, float *probabilities)
{
    for (size_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (size_t v = 0; v < V; v++)
            sum += exp((double)logits[i * V + v]);
        for (size_t v = 0; v < V; v++)
            probabilities[i * V + v] = (float)(exp((double)logits[i * V + v]) / sum);
    }
}

static void equal_tensors(void **state)
{
    static tapped t;
    static float probabilities[ROWS * V];
    nano n = open_nano();
    (void)state;
    run_tapped(&n, &t);
    expect_heads(&n, "q", t.q, 5e-7);
    expect_heads(&n, "k", t.k, 5e-7);
    expect_heads(&n, "v", t.v, 5e-7);
    expect_partial(&n, "attSm", t.weights, B * H * T * T, 5e-7);
    expect_partial(&n, "yProj", t.out, ROWS * D, 1e-7);
    expect_partial(&n, "block0", t.layers[0], ROWS * D, 1e-6);
    expect_partial(&n, "block1", t.layers[1], ROWS * D, 1e-6);
    expect_partial(&n, "block2", t.layers[2], ROWS * D, 2e-6);
    expect_partial(&n, "ln_f", t.hidden, ROWS * D, 2e-6);
    expect_partial(&n, "lm_head", t.logits, ROWS * V, 2e-6);
    softmax_rows(t.logits, probabilities);
    expect_partial(&n, "probs", probabilities, ROWS * V, 1e-6);
    close_nano(&n);
}

// Appends to each sequence of `length` letters the one with the largest logit.
static void append_letters(const nano *n, size_t length, int32_t letters[SEQUENCES][2 * LETTERS])
{
    static int64_t starts[SEQUENCES + 1];
    static int32_t ids[SEQUENCES * T];
    static float rows[SEQUENCES * T * D], scores[SEQUENCES * T * V];
    const size_t count = SEQUENCES * length;
    mh_model_input input = mh_model_input_default();
    mh_tensor hidden = mh_tensor_2d(rows, MH_F32, count, D);
    mh_tensor logits = mh_tensor_2d(scores, MH_F32, count, V);
    for (size_t i = 0; i < SEQUENCES; i++) {
        starts[i + 1] = (int64_t)((i + 1) * length);
        memcpy(ids + i * length, letters[i], length * sizeof *ids);
    }
    input.sequences = SEQUENCES, input.starts = starts, input.ids = ids;
    test_ok(n->context, mh_model_hidden(n->context, n->model, &input, &hidden));
    test_ok(n->context, mh_model_logits(n->context, n->model, &hidden, &logits));
    for (size_t i = 0; i < SEQUENCES; i++) {
        const float *last = scores + ((i + 1) * length - 1) * V;
        int32_t best = 0;
        for (int32_t v = 1; v < V; v++)
            best = last[v] > last[best] ? v : best;
        letters[i][length] = best;
    }
}

static bool is_sorted_copy(const int32_t letters[2 * LETTERS])
{
    int left[V] = {0};
    for (size_t i = 0; i < LETTERS; i++)
        left[letters[i]]++;
    for (size_t i = LETTERS; i < 2 * LETTERS; i++)
        if (left[letters[i]]-- == 0 || (i > LETTERS && letters[i] < letters[i - 1]))
            return false;
    return true;
}

// All sequences of six letters A, B, C.
static void sorts_letters(void **state)
{
    static int32_t letters[SEQUENCES][2 * LETTERS];
    nano n = open_nano();
    (void)state;
    for (size_t i = 0; i < SEQUENCES; i++)
        for (size_t j = 0, rest = i; j < LETTERS; j++, rest /= V)
            letters[i][j] = (int32_t)(rest % V);
    for (size_t length = LETTERS; length < 2 * LETTERS; length++)
        append_letters(&n, length, letters);
    size_t sorted = 0;
    for (size_t i = 0; i < SEQUENCES; i++)
        sorted += is_sorted_copy(letters[i]);
    print_message("%zu of %d sequences are sorted\n", sorted, SEQUENCES);
    assert_int_equal(sorted, SEQUENCES);
    close_nano(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_tensors),
        cmocka_unit_test(sorts_letters),
    };
    if (!getenv("MH_NANO_GPT") || !getenv("MH_TEST_DATA")) {
        printf(
            "test_nano_gpt: skipped, MH_NANO_GPT and MH_TEST_DATA do not name its directories\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
