// SPDX-License-Identifier: MIT
// Models that read pictures against what Hugging Face's transformers computes for them in float64
// (tests/goldens/make_vision.py): hidden states and attention weights of every layer, logits,
// pooled output, embeddings; pictures of another size, whose positions are interpolated. Our f32
// error may be twice that of transformers' own, and mistakes are noticed.
#include "model/model_internal.h"
#include "support.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 3, MOST = 1 << 16 };

typedef struct vision {
    const char *name;
    mh_context *context;
    mh_model *model;
    mh_tensor_file *expected;
    mh_tensor pixels[B];
    int64_t starts[B + 1];
    mh_model_input input;
    size_t rows, D;
    float *hidden; // (rows, D)
} vision;

// ---- goldens ------------------------------------------------------------------------------------

static mh_tensor expected_of(const vision *v, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(v->expected, name, &t))
        fail_msg("%s: no tensor %s", v->name, name);
    return t;
}

static bool is_expected(const vision *v, const char *name)
{
    mh_tensor t;
    return mh_tensor_file_find(v->expected, name, &t);
}

static double number_of(const vision *v, const char *kind, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", kind, name);
    const char *text = mh_tensor_file_metadata(v->expected, key);
    if (!text)
        fail_msg("%s: no %s", v->name, key);
    return strtod(text, NULL);
}

static double tolerance(const vision *v, const char *name)
{
    double most, rms, size;
    char key[160];
    snprintf(key, sizeof key, "error.%s", name);
    const char *text = mh_tensor_file_metadata(v->expected, key);
    assert_non_null(text);
    assert_int_equal(sscanf(text, "%lf %lf %lf", &most, &rms, &size), 3);
    return 2 * most + 4e-7 * size + 1e-7;
}

// `count` values from `begin` on of the tensor `name`.
static void expect_values(const vision *v, const char *name, size_t begin, const float *found,
                          size_t count)
{
    const float *expected = (const float *)expected_of(v, name).data + begin;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= tolerance(v, name)))
            fail_msg("%s: %s[%zu]: found %.9g, expected %.9g within %.3g", v->name, name, begin + i,
                     (double)found[i], (double)expected[i], tolerance(v, name));
}

static void set_pixels(vision *v, const char *name)
{
    const mh_tensor all = expected_of(v, name);
    v->starts[0] = 0;
    for (size_t b = 0; b < B; b++) {
        v->pixels[b] =
            mh_tensor_3d((float *)all.data + b * all.shape[1] * all.shape[2] * all.shape[3], MH_F32,
                         all.shape[1], all.shape[2], all.shape[3]);
        v->starts[b + 1] = v->starts[b] + (int64_t)mh_model_picture_rows(
                                              &v->model->description.vision, &v->pixels[b]);
    }
    v->rows = (size_t)v->starts[B];
    v->input = mh_model_input_default();
    v->input.sequences = B;
    v->input.starts = v->starts;
    v->input.pixels = v->pixels;
    free(v->hidden);
    v->hidden = calloc(v->rows * v->D, sizeof *v->hidden);
}

static void open_vision(vision *v, const char *name, void (*change)(mh_description *))
{
    *v = (vision){.name = name};
    char path[512];
    assert_int_equal(mh_context_create(NULL, &v->context, NULL, 0), MH_OK);
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s", name);
    if (mh_model_load_changed(v->context, path, NULL, change, &v->model))
        fail_msg("%s", mh_error_message(v->context));
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s/expected.safetensors", name);
    assert_int_equal(mh_tensor_file_open(v->context, path, &v->expected), MH_OK);
    v->D = mh_model_describe(v->model)->d_model;
    set_pixels(v, "in.pixels");
}

static void close_vision(vision *v)
{
    free(v->hidden);
    mh_model_free(v->model);
    mh_tensor_file_free(v->expected);
    mh_context_free(v->context);
}

static void run_hidden(vision *v)
{
    mh_tensor hidden = mh_tensor_2d(v->hidden, MH_F32, v->rows, v->D);
    if (mh_model_hidden(v->context, v->model, &v->input, &hidden))
        fail_msg("%s: %s", v->name, mh_error_message(v->context));
}

// ---- parity -------------------------------------------------------------------------------------

static void check_layers(vision *v)
{
    const mh_model_info *info = mh_model_describe(v->model);
    const size_t T = v->rows / B, H = info->heads;
    mh_tap taps[4];
    float *weights[4], *outputs[4];
    char name[32];
    for (size_t i = 0; i < info->layers; i++) {
        weights[i] = calloc(B * H * T * T, sizeof(float));
        outputs[i] = calloc(v->rows * v->D, sizeof(float));
        taps[i] = mh_tap_make(MH_TAP_ENCODER, i);
        taps[i].weights = mh_tensor_4d(weights[i], MH_F32, B, H, T, T);
        taps[i].hidden = mh_tensor_3d(outputs[i], MH_F32, 1, v->rows, v->D);
    }
    v->input.taps = taps;
    v->input.tap_count = info->layers;
    run_hidden(v);
    v->input.tap_count = 0;
    for (size_t i = 0; i < info->layers; i++) {
        snprintf(name, sizeof name, "out.attention.%zu", i);
        expect_values(v, name, 0, weights[i], B * H * T * T);
        snprintf(name, sizeof name, "out.hidden.%zu", i + 1);
        expect_values(v, name, 0, outputs[i], v->rows * v->D);
        free(weights[i]);
        free(outputs[i]);
    }
    if (strcmp(v->name, "clip") != 0) // whose last hidden states are before the norm
        expect_values(v, "out.last", 0, v->hidden, v->rows * v->D);
}

static void check_heads(vision *v, const char *name)
{
    static float out[MOST];
    const mh_model_info *info = mh_model_describe(v->model);
    mh_tensor hidden = mh_tensor_2d(v->hidden, MH_F32, v->rows, v->D);
    mh_tensor logits = mh_tensor_2d(out, MH_F32, B, info->labels);
    if (!(info->abilities & MH_CAN_CLASSIFY))
        return;
    test_ok(v->context, mh_model_classify(v->context, v->model, &v->input, &hidden, &logits));
    expect_values(v, name, 0, out, B * info->labels);
}

static void check_pooler(vision *v)
{
    static float out[MOST];
    mh_tensor hidden = mh_tensor_2d(v->hidden, MH_F32, v->rows, v->D);
    mh_tensor pooled = mh_tensor_2d(out, MH_F32, B, v->D);
    test_ok(v->context, mh_model_pool(v->context, v->model, &v->input, &hidden, &pooled));
    expect_values(v, "out.pooled", 0, out, B * v->D);
}

static void equal_transformers(void **state)
{
    static const char *const names[] = {"vit",    "vit-renamed",  "deit", "deit-student",
                                        "dinov2", "dinov2-gated", "clip"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        vision v;
        open_vision(&v, names[i], NULL);
        check_layers(&v);
        check_heads(&v, "out.logits");
        if (is_expected(&v, "out.pooled"))
            check_pooler(&v);
        close_vision(&v);
    }
}

static void other_sizes_equal_transformers(void **state)
{
    static const char *const names[] = {"vit", "deit", "deit-student", "dinov2"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        vision v;
        open_vision(&v, names[i], NULL);
        set_pixels(&v, "in.wide");
        run_hidden(&v);
        check_heads(&v, "out.wide");
        close_vision(&v);
    }
    vision v;
    open_vision(&v, "vit-renamed", NULL);
    set_pixels(&v, "in.wide");
    run_hidden(&v);
    expect_values(&v, "out.wide", 0, v.hidden, v.rows * v.D);
    close_vision(&v);
}

// ---- CLIP ---------------------------------------------------------------------------------------

static void pictures_of_clip(vision *v, const char *pixels, const char *name, float *out)
{
    const size_t P = mh_model_describe(v->model)->embedding_dim;
    mh_tensor embeddings = mh_tensor_2d(out, MH_F32, B, P);
    set_pixels(v, pixels);
    test_ok(v->context,
            mh_model_embed(v->context, v->model, MH_POOLING_CLS, false, &v->input, &embeddings));
    expect_values(v, name, 0, out, B * P);
}

// Texts without their padding; the last token is the end.
static void texts_of_clip(vision *v, float *out)
{
    const mh_tensor padded = expected_of(v, "in.input_ids"),
                    mask = expected_of(v, "in.attention_mask");
    const mh_model *text = mh_model_text_tower(v->model);
    const size_t P = mh_model_describe(text)->embedding_dim, T = padded.shape[1];
    int32_t ids[64];
    int64_t starts[B + 1] = {0};
    size_t rows = 0;
    for (size_t b = 0; b < B; b++) {
        for (size_t i = 0; i < T; i++)
            if (((const int64_t *)mask.data)[b * T + i])
                ids[rows++] = (int32_t)((const int64_t *)padded.data)[b * T + i];
        starts[b + 1] = (int64_t)rows;
    }
    mh_model_input input = mh_model_input_default();
    input.sequences = B;
    input.starts = starts;
    input.ids = ids;
    mh_tensor embeddings = mh_tensor_2d(out, MH_F32, B, P);
    test_ok(v->context,
            mh_model_embed(v->context, text, MH_POOLING_LAST, false, &input, &embeddings));
    expect_values(v, "out.text_embeds", 0, out, B * P);
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static void clip_matches_texts(void **state)
{
    static float pictures[B * 64], texts[B * 64], logits[B * B];
    vision v;
    open_vision(&v, "clip", NULL);
    const mh_model_info *info = mh_model_describe(v.model);
    const size_t P = info->embedding_dim;
    (void)state;
    assert_true(info->abilities & MH_CAN_MATCH);
    pictures_of_clip(&v, "in.wide", "out.wide", pictures);
    pictures_of_clip(&v, "in.pixels", "out.image_embeds", pictures);
    texts_of_clip(&v, texts);
    for (size_t i = 0; i < B; i++)
        for (size_t j = 0; j < B; j++)
            logits[i * B + j] =
                (float)(info->logit_scale * cosine(pictures + i * P, texts + j * P, P));
    expect_values(&v, "out.logits", 0, logits, B * B);
    close_vision(&v);
}

// ---- mistakes -----------------------------------------------------------------------------------

// By how much (RMS) logits, or the last hidden states, are off.
static double distance(vision *v)
{
    static float out[MOST];
    const mh_model_info *info = mh_model_describe(v->model);
    const bool labels = info->abilities & MH_CAN_CLASSIFY;
    mh_tensor hidden = mh_tensor_2d(v->hidden, MH_F32, v->rows, v->D);
    mh_tensor logits = mh_tensor_2d(out, MH_F32, B, info->labels);
    run_hidden(v);
    if (labels)
        test_ok(v->context, mh_model_classify(v->context, v->model, &v->input, &hidden, &logits));
    const float *expected = expected_of(v, labels ? "out.logits" : "out.last").data;
    const size_t count = labels ? B * info->labels : v->rows * v->D;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += pow((double)(labels ? out : v->hidden)[i] - (double)expected[i], 2);
    return sqrt(sum / (double)count);
}

// Far from what is expected, by what the same mistake does to transformers.
static void expect_noticed(const char *name, const char *kind, void (*change)(mh_description *))
{
    vision v;
    open_vision(&v, name, change);
    const double moved = distance(&v), theirs = kind ? number_of(&v, "sabotage", kind) : moved;
    if (!(moved > 1e-3) || !(fabs(moved - theirs) <= 0.01 * theirs))
        fail_msg("%s, %s: moved by %.4g, expected %.4g", name, kind, moved, theirs);
    close_vision(&v);
}

static void change_scale(mh_description *d)
{
    d->block.scale = 1.25f / sqrtf((float)(d->block.d_model / d->block.num_heads));
}
static void drop_layer_scale(mh_description *d) { d->layer_scale = false; }
static void other_activation(mh_description *d) { d->block.activation = MH_RELU; }
static void other_norm(mh_description *d) { d->block.norm_eps = 0.1f; }
static void drop_final_norm(mh_description *d) { d->final_norm = false; }

static void mistakes_are_noticed(void **state)
{
    static const char *const names[] = {"vit",          "vit-renamed", "deit",
                                        "deit-student", "dinov2",      "dinov2-gated"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        expect_noticed(names[i], "scale", change_scale);
        expect_noticed(names[i], NULL, other_activation);
        expect_noticed(names[i], NULL, other_norm);
        expect_noticed(names[i], NULL, drop_final_norm);
    }
    expect_noticed("dinov2", "layer_scale", drop_layer_scale);
    expect_noticed("dinov2-gated", "layer_scale", drop_layer_scale);
}

static void plain_activation(mh_description *d)
{
    d->activation_scale = 1; // SiLU, not quick GELU
}

static void clips_mistakes_are_noticed(void **state)
{
    static void (*const changes[])(mh_description *) = {change_scale, plain_activation, other_norm};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        static float out[B * 64];
        vision v;
        open_vision(&v, "clip", changes[i]);
        mh_tensor embeddings = mh_tensor_2d(out, MH_F32, B, 24);
        test_ok(v.context,
                mh_model_embed(v.context, v.model, MH_POOLING_CLS, false, &v.input, &embeddings));
        const float *expected = expected_of(&v, "out.image_embeds").data;
        double most = 0;
        for (size_t j = 0; j < B * 24; j++)
            most = fmax(most, fabs((double)out[j] - (double)expected[j]));
        assert_true(most > 100 * tolerance(&v, "out.image_embeds"));
        close_vision(&v);
    }
}

// ---- promises -----------------------------------------------------------------------------------

// A picture's rows do not depend on the others, nor on the number of threads.
static void equal_bits(void **state)
{
    vision v;
    open_vision(&v, "dinov2", NULL);
    mh_context_options o = mh_context_options_default();
    mh_context *context;
    (void)state;
    o.threads = 3;
    assert_int_equal(mh_context_create(&o, &context, NULL, 0), MH_OK);
    run_hidden(&v);
    for (size_t b = 0; b < B; b++) {
        const size_t rows = (size_t)(v.starts[b + 1] - v.starts[b]);
        float *alone = calloc(rows * v.D, sizeof *alone);
        mh_tensor hidden = mh_tensor_2d(alone, MH_F32, rows, v.D);
        mh_model_input input = v.input;
        input.sequences = 1;
        input.starts = (const int64_t[]){0, (int64_t)rows};
        input.pixels = &v.pixels[b];
        test_ok(context, mh_model_hidden(context, v.model, &input, &hidden));
        assert_memory_equal(alone, v.hidden + (size_t)v.starts[b] * v.D,
                            rows * v.D * sizeof *alone);
        free(alone);
    }
    mh_context_free(context);
    close_vision(&v);
}

static void expect_refused(vision *v, const mh_model_input *input, const char *message)
{
    mh_tensor hidden = mh_tensor_2d(v->hidden, MH_F32, v->rows, v->D);
    assert_int_equal(mh_model_hidden(v->context, v->model, input, &hidden), MH_ERROR_ARGUMENT);
    if (!strstr(mh_error_message(v->context), message))
        fail_msg("found \"%s\", expected \"%s\"", mh_error_message(v->context), message);
}

static void wrong_inputs_are_refused(void **state)
{
    vision v;
    open_vision(&v, "vit", NULL);
    mh_model_input input = v.input;
    mh_tensor wrong[B];
    int64_t starts[B + 1];
    const int32_t ids[B] = {0};
    (void)state;
    input.pixels = NULL;
    input.ids = ids;
    expect_refused(&v, &input, "pixels: found NULL");
    input.pixels = wrong;
    memcpy(wrong, v.pixels, sizeof wrong);
    wrong[1] = mh_tensor_slice(v.pixels[1], 0, 0, 2);
    expect_refused(&v, &input, "pixels[1]: found f32 (2, 16, 16), expected f32 (3, height, width)");
    wrong[1] = mh_tensor_slice(v.pixels[1], 2, 0, 3);
    expect_refused(&v, &input, "pixels[1]: found f32 (3, 16, 3)");
    memcpy(wrong, v.pixels, sizeof wrong);
    memcpy(starts, v.starts, sizeof starts);
    starts[2]++;
    input.starts = starts;
    expect_refused(&v, &input, "starts[1]: found 18 rows of the picture, expected 17");
    close_vision(&v);
}

static void training_is_refused(void **state)
{
    mh_context *context;
    mh_model *model;
    mh_model_options o = mh_model_options_default();
    (void)state;
    o.trainable = true;
    assert_int_equal(mh_context_create(NULL, &context, NULL, 0), MH_OK);
    assert_int_equal(mh_model_load(context, MH_GOLDENS "/models/dinov2", &o, &model),
                     MH_ERROR_UNSUPPORTED);
    assert_null(model);
    mh_context_free(context);
}

// With bf16 weights the folded factors are rounded once more: results stay within bf16's error.
static void bf16_is_close(void **state)
{
    static const char *const names[] = {"dinov2", "deit"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        vision v;
        open_vision(&v, names[i], NULL);
        mh_model_options o = mh_model_options_default();
        char path[512];
        o.precision = MH_PRECISION_BF16;
        snprintf(path, sizeof path, MH_GOLDENS "/models/%s", names[i]);
        mh_model_free(v.model);
        test_ok(v.context, mh_model_load(v.context, path, &o, &v.model));
        assert_true(distance(&v) < 0.05);
        close_vision(&v);
    }
}

// A trace has the picture as the model saw it: resized, and made smaller if it is too large.
static void traces_have_the_picture(void **state)
{
    enum { LONG = 1100, HIGH = 10, PATCH = 4 };
    static unsigned char pixels[LONG * HIGH * 3];
    const mh_image image = {23, 17, 3, pixels}, wide = {LONG, HIGH, 3, pixels};
    mh_image resized;
    mh_model_trace *trace;
    vision v;
    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * i / 7);
    open_vision(&v, "vit", NULL);
    test_ok(v.context, mh_model_trace_picture(v.context, v.model, NULL, "name", &image, &trace));
    mh_trace_picture p = mh_model_trace_view(trace)->picture;
    test_ok(v.context, mh_image_resize(v.context, &image, MH_RESAMPLE_BILINEAR, 16, 16, &resized));
    assert_int_equal(p.rows * 100 + p.columns, 404);
    assert_int_equal(p.height * 100 + p.width, 1616);
    assert_memory_equal(p.pixels, resized.pixels, 16 * 16 * 3);
    mh_image_free(v.context, &resized);
    mh_model_trace_free(trace);

    v.model->pictures.resizes = false; // 2 pixels below the last patches are not seen
    test_ok(v.context, mh_model_trace_picture(v.context, v.model, NULL, NULL, &wide, &trace));
    p = mh_model_trace_view(trace)->picture;
    assert_int_equal(p.rows * 1000 + p.columns, HIGH / PATCH * 1000 + LONG / PATCH);
    assert_int_equal(p.width, MH_TRACE_PICTURE_SIDE_MAX);
    assert_int_equal(p.height, 8 * MH_TRACE_PICTURE_SIDE_MAX / LONG);
    test_ok(v.context, mh_trace_check(v.context, mh_model_trace_view(trace)));
    mh_model_trace_free(trace);
    close_vision(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_transformers),
        cmocka_unit_test(other_sizes_equal_transformers),
        cmocka_unit_test(clip_matches_texts),
        cmocka_unit_test(mistakes_are_noticed),
        cmocka_unit_test(clips_mistakes_are_noticed),
        cmocka_unit_test(equal_bits),
        cmocka_unit_test(wrong_inputs_are_refused),
        cmocka_unit_test(training_is_refused),
        cmocka_unit_test(bf16_is_close),
        cmocka_unit_test(traces_have_the_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
