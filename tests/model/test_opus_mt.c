// SPDX-License-Identifier: MIT
// opus-mt-fr-en as it is published, a Marian in PyTorch's format before 1.6: token ids of a
// sentence, and the two largest logits of each step of its translation, which transformers 5.23
// computed in float64. Its own f32 error is 2.7e-5. The model's directory is $MH_OPUS_MT
// (tools/fetch_models.py opus-mt-fr-en prints it); without it nothing is tested.
#include "support.h"

#include <math.h>
#include <multihead/pretrained.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 59513, STEPS = 7 };
static const char text[] = "Où est la gare ?";
static const int32_t source[] = {3716, 43, 8, 11090, 99, 0};
static const int32_t target[STEPS] = {PAD, 1830, 6, 9, 4, 2399, 54}; // Where's the station?
static const struct {
    size_t first; // <pad> is never chosen
    double logit;
    size_t second;
    double second_logit;
} expected[STEPS] = {
    {1830, 7.134669, 41, 4.033865},     {6, 9.276729, 32, 7.750212},
    {9, 9.438277, 111, 3.217284},       {4, 9.612695, 33, 6.139226},
    {2399, 11.530965, 2238, 10.352212}, {54, 5.146959, 99, 0.944774},
    {0, 5.882207, 291, 0.332927},
};

static void check_ids(mh_context *context, const mh_model *model)
{
    mh_encoding e = {0};
    const mh_text t = {text, strlen(text)};
    test_ok(context,
            mh_tokenizer_encode_text(context, mh_model_tokenizer(model), NULL, t, NULL, &e));
    assert_int_equal(e.count, sizeof source / sizeof *source);
    assert_memory_equal(e.ids, source, sizeof source);
    mh_encoding_free(context, &e);
}

static void check_row(const float *logits, size_t V, size_t step, double *error)
{
    size_t best = 0;
    for (size_t v = 0; v < V; v++)
        if (v != PAD && logits[v] > logits[best])
            best = v;
    assert_int_equal(best, expected[step].first);
    *error = fmax(*error, fabs((double)logits[best] - expected[step].logit));
    *error =
        fmax(*error, fabs((double)logits[expected[step].second] - expected[step].second_logit));
}

static void equals_transformers(void **state)
{
    mh_context *context = test_context(NULL, 0);
    mh_model *model;
    (void)state;
    test_ok(context, mh_model_load(context, getenv("MH_OPUS_MT"), NULL, &model));
    check_ids(context, model);
    const mh_model_info *info = mh_model_describe(model);
    const size_t V = info->target_vocabulary, D = info->d_model;
    float *memory = malloc(STEPS * (D + V) * sizeof *memory);
    mh_tensor hidden = mh_tensor_2d(memory, MH_F32, STEPS, D);
    mh_tensor logits = mh_tensor_2d(memory + STEPS * D, MH_F32, STEPS, V);
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = (const int64_t[]){0, sizeof source / sizeof *source};
    input.ids = source;
    input.target_starts = (const int64_t[]){0, STEPS};
    input.target_ids = target;
    test_ok(context, mh_model_hidden(context, model, &input, &hidden));
    test_ok(context, mh_model_logits(context, model, &hidden, &logits));
    double error = 0;
    for (size_t i = 0; i < STEPS; i++)
        check_row((const float *)logits.data + i * V, V, i, &error);
    print_message("logits within %.1e\n", error);
    assert_true(error < 2e-5);
    free(memory);
    mh_model_free(model);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_transformers)};
    if (!getenv("MH_OPUS_MT")) {
        printf("test_opus_mt: skipped, MH_OPUS_MT does not name its directory\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
