// SPDX-License-Identifier: MIT
// The results of a sequence do not depend on the batch it is in: hidden states, logits, pooled
// vectors, classes and embeddings have the same bits alone and in random batches, in any order,
// with 1 to 8 threads, in f32 and bf16, at every level. On the small models of
// tests/goldens/models/ and, if $MH_MINILM names its directory, on all-MiniLM-L6-v2.
#include "support.h"

#include <multihead/pretrained.h>

enum { SEQUENCES = 12, MOST_TOKENS = 48, MOST_THREADS = 8, BATCHES = 12 };

// Sequences, and what a context of one thread computed for each by itself.
typedef struct alone {
    size_t length[SEQUENCES];
    int32_t ids[SEQUENCES][MOST_TOKENS];
    float *hidden[SEQUENCES];    // (length, D)
    float *logits[SEQUENCES];    // (length, vocabulary)
    float *pooled[SEQUENCES];    // (D)
    float *classes[SEQUENCES];   // (labels)
    float *embedding[SEQUENCES]; // (D)
} alone;

// Outputs of a batch; those that the model has no head for are NULL.
typedef struct outputs {
    float *hidden, *logits, *pooled, *classes, *embeddings;
} outputs;

static mh_model *load_at(mh_context *context, const char *directory, mh_precision precision)
{
    mh_model *model;
    mh_model_options o = mh_model_options_default();
    o.precision = precision;
    test_ok(context, mh_model_load(context, directory, &o, &model));
    return model;
}

static bool has_pooler(mh_context *context, const mh_model *model, const mh_model_input *input,
                       const mh_tensor *hidden, mh_tensor *pooled)
{
    const mh_status status = mh_model_pool(context, model, input, hidden, pooled);
    if (status != MH_ERROR_UNSUPPORTED)
        test_ok(context, status);
    return status == MH_OK;
}

static outputs run_batch(mh_context *context, const mh_model *model, const mh_model_input *input)
{
    const mh_model_info *info = mh_model_describe(model);
    const size_t rows = (size_t)input->starts[input->sequences], n = input->sequences;
    outputs out = {0};
    out.hidden = calloc(rows * info->d_model, sizeof(float));
    out.embeddings = calloc(n * info->d_model, sizeof(float));
    out.pooled = calloc(n * info->d_model, sizeof(float));
    mh_tensor hidden = mh_tensor_2d(out.hidden, MH_F32, rows, info->d_model);
    mh_tensor embeddings = mh_tensor_2d(out.embeddings, MH_F32, n, info->d_model);
    mh_tensor pooled = mh_tensor_2d(out.pooled, MH_F32, n, info->d_model);
    test_ok(context, mh_model_hidden(context, model, input, &hidden));
    test_ok(context, mh_model_embed(context, model, MH_POOLING_MEAN, true, input, &embeddings));
    if (!has_pooler(context, model, input, &hidden, &pooled)) {
        free(out.pooled);
        out.pooled = NULL;
    }
    if (info->abilities & (MH_CAN_FILL | MH_CAN_GENERATE)) {
        out.logits = calloc(rows * info->vocabulary, sizeof(float));
        mh_tensor logits = mh_tensor_2d(out.logits, MH_F32, rows, info->vocabulary);
        test_ok(context, mh_model_logits(context, model, &hidden, &logits));
    }
    if (info->abilities & MH_CAN_CLASSIFY) {
        out.classes = calloc(n * info->labels, sizeof(float));
        mh_tensor classes = mh_tensor_2d(out.classes, MH_F32, n, info->labels);
        test_ok(context, mh_model_classify(context, model, input, &hidden, &classes));
    }
    return out;
}

static void free_outputs(outputs *out)
{
    free(out->hidden);
    free(out->logits);
    free(out->pooled);
    free(out->classes);
    free(out->embeddings);
}

static mh_model_input batch_input(const alone *a, const size_t *chosen, size_t n, int64_t *starts,
                                  int32_t *ids)
{
    mh_model_input input = mh_model_input_default();
    starts[0] = 0;
    for (size_t b = 0; b < n; b++) {
        memcpy(ids + starts[b], a->ids[chosen[b]], a->length[chosen[b]] * sizeof *ids);
        starts[b + 1] = starts[b] + (int64_t)a->length[chosen[b]];
    }
    input.sequences = n, input.starts = starts, input.ids = ids;
    return input;
}

static void run_alone(mh_context *context, const mh_model *model, alone *a)
{
    const size_t most = mh_model_describe(model)->max_length;
    const size_t vocabulary = mh_model_describe(model)->vocabulary;
    const size_t longest = most && most < MOST_TOKENS ? most : MOST_TOKENS;
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < SEQUENCES; i++) {
        int64_t starts[2];
        int32_t ids[MOST_TOKENS];
        a->length[i] = i == 0 ? 1 : i == 1 ? longest : test_between(&rng, 1, longest);
        for (size_t t = 0; t < a->length[i]; t++)
            a->ids[i][t] = (int32_t)test_between(&rng, 0, vocabulary - 1);
        const mh_model_input input = batch_input(a, &i, 1, starts, ids);
        const outputs out = run_batch(context, model, &input);
        a->hidden[i] = out.hidden, a->logits[i] = out.logits, a->pooled[i] = out.pooled;
        a->classes[i] = out.classes, a->embedding[i] = out.embeddings;
    }
}

static void free_alone(alone *a)
{
    for (size_t i = 0; i < SEQUENCES; i++) {
        outputs out = {a->hidden[i], a->logits[i], a->pooled[i], a->classes[i], a->embedding[i]};
        free_outputs(&out);
    }
}

static void expect_bits(const char *what, size_t b, const float *found, const float *expected,
                        size_t count)
{
    if (expected && memcmp(found, expected, count * sizeof *found) != 0)
        fail_msg("%s of sequence %zu differ from those of the sequence alone", what, b);
}

static void expect_batch(const alone *a, const mh_model_info *info, const size_t *chosen,
                         const mh_model_input *input, const outputs *out)
{
    const size_t D = info->d_model, V = info->vocabulary, C = info->labels;
    for (size_t b = 0; b < input->sequences; b++) {
        const size_t i = chosen[b], row = (size_t)input->starts[b];
        expect_bits("hidden states", b, out->hidden + row * D, a->hidden[i], a->length[i] * D);
        expect_bits("embeddings", b, out->embeddings + b * D, a->embedding[i], D);
        if (out->logits)
            expect_bits("logits", b, out->logits + row * V, a->logits[i], a->length[i] * V);
        if (out->pooled)
            expect_bits("pooled vectors", b, out->pooled + b * D, a->pooled[i], D);
        if (out->classes)
            expect_bits("classes", b, out->classes + b * C, a->classes[i], C);
    }
}

// Batches of 1 to 16 sequences, some of them more than once.
static void run_random_batch(mh_context *context, const mh_model *model, const alone *a,
                             test_rng *rng)
{
    enum { MOST = 16 };
    size_t chosen[MOST];
    int64_t starts[MOST + 1];
    int32_t ids[MOST * MOST_TOKENS];
    const size_t n = test_between(rng, 1, MOST);
    for (size_t b = 0; b < n; b++)
        chosen[b] = test_between(rng, 0, SEQUENCES - 1);
    const mh_model_input input = batch_input(a, chosen, n, starts, ids);
    outputs out = run_batch(context, model, &input);
    expect_batch(a, mh_model_describe(model), chosen, &input, &out);
    free_outputs(&out);
}

static void check_model(const char *level, const char *directory, mh_precision precision,
                        size_t batches)
{
    alone a = {0};
    test_rng rng = {test_seed() + 1};
    mh_context *context = test_context(level, 1);
    mh_model *model = load_at(context, directory, precision);
    run_alone(context, model, &a);
    for (size_t threads = 1; threads <= MOST_THREADS; threads++) {
        mh_context *other = test_context(level, threads);
        for (size_t i = 0; i < batches; i++)
            run_random_batch(other, model, &a, &rng);
        mh_context_free(other);
    }
    free_alone(&a);
    mh_model_free(model);
    mh_context_free(context);
}

static void check_precisions(const char *level, const char *directory, size_t batches)
{
    check_model(level, directory, MH_PRECISION_F32, batches);
    check_model(level, directory, MH_PRECISION_BF16, batches);
}

static void check_small_models(const char *level)
{
    static const char *const models[] = {
        "bert", "bert-classifier",       "roberta-mlm", "roberta-classifier",
        "gpt2", "distilbert-classifier", "gpt2-untied", "distilbert-mlm",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        snprintf(path, sizeof path, MH_GOLDENS "/models/%s", models[i]);
        check_precisions(level, path, test_cases(BATCHES));
    }
}

static void small_models(void **state)
{
    (void)state;
    test_at_levels(check_small_models);
}

static void minilm(void **state)
{
    (void)state;
    if (!getenv("MH_MINILM")) {
        print_message("MH_MINILM does not name all-MiniLM-L6-v2: only small models\n");
        return;
    }
    check_precisions(NULL, getenv("MH_MINILM"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_models),
        cmocka_unit_test(minilm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
