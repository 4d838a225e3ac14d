// SPDX-License-Identifier: MIT
// Example 12: embeddings of a published model. Loads a directory as Hugging Face has it, turns
// three sentences into vectors, and prints the cosine of each pair: the first two mean nearly the
// same.
//
// usage: 12_embeddings [MODEL]
// Without MODEL, a small BERT with random weights, which has no tokenizer, gets token ids; run it
// from the top of this project.
#include <multihead/pretrained.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 3 };

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "12_embeddings: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// Sequence b of a batch is ids[starts[b]] to ids[starts[b + 1] - 1]: there is no padding.
static void embed_ids(const mh_model *model, mh_tensor *embeddings)
{
    static const int32_t ids[] = {2, 5, 6, 7, 3, 2, 5, 6, 8, 3, 2, 40, 41, 3};
    static const int64_t starts[COUNT + 1] = {0, 5, 10, 14};
    mh_model_input input = mh_model_input_default();
    input.sequences = COUNT;
    input.ids = ids;
    input.starts = starts;
    must(mh_model_embed(context, model, MH_POOLING_MEAN, true, &input, embeddings));
}

static void embed_texts(const mh_model *model, mh_tensor *embeddings)
{
    static const char *const sentences[COUNT] = {
        "A man is eating food.", "Someone is having a meal.", "The bill was passed."};
    const mh_model_info *info = mh_model_describe(model);
    mh_text texts[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        texts[i] = (mh_text){sentences[i], strlen(sentences[i])};
        printf("  %zu  %s\n", i + 1, sentences[i]);
    }
    must(mh_model_embed_texts(context, model, info->pooling, true, true, 0, texts, COUNT, NULL,
                              NULL, embeddings));
}

// The vectors have length 1, so their cosine is the sum of products.
static double cosine(const float *a, const float *b, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

int main(int argc, char **argv)
{
    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "12_embeddings: %s\n", error);
        return EXIT_FAILURE;
    }
    mh_model *model; // may be shared by any number of threads, each with its own context
    must(mh_model_load(context, argc > 1 ? argv[1] : "tests/goldens/models/bert", NULL, &model));
    const size_t width = mh_model_describe(model)->d_model;
    float *vectors = calloc(COUNT * width, sizeof *vectors);
    if (!vectors)
        return EXIT_FAILURE;
    mh_tensor embeddings = mh_tensor_2d(vectors, MH_F32, COUNT, width);
    if (mh_model_tokenizer(model))
        embed_texts(model, &embeddings);
    else
        embed_ids(model, &embeddings);
    for (size_t a = 0; a < COUNT; a++)
        for (size_t b = a + 1; b < COUNT; b++)
            printf("  cosine of %zu and %zu: %.3f\n", a + 1, b + 1,
                   cosine(vectors + a * width, vectors + b * width, width));
    free(vectors);
    mh_model_free(model);
    mh_context_free(context);
    return EXIT_SUCCESS;
}
