// SPDX-License-Identifier: MIT
// Example 10: translate. Loads a model directory, translates sentences by beam search, and prints
// the two best of each with their scores, and for the best the source token that each of its tokens
// attended to most.
//
// usage: 10_translate [MODEL [TEXT...]]       default: models/fr-en, from the top of this project
#include <multihead/multihead.h>
#include <multihead/translator.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TEXTS = 64, BEST = 2 };

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "10_translate: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// The source token that target token t attended to most, averaged over all heads of all decoder
// layers.
static size_t strongest(const mh_translation *translation, size_t t)
{
    const size_t S = translation->source->count;
    const float *row = translation->attention + t * S;
    size_t best = 0;
    for (size_t s = 1; s < S; s++)
        best = row[s] > row[best] ? s : best;
    return best;
}

// Token i of a text is the bytes from the end of the previous token to its own end.
static void show_token(const char *text, const size_t *ends, size_t i)
{
    const size_t begin = i ? ends[i - 1] : 0;
    printf("[%.*s]", (int)(ends[i] - begin), text + begin);
}

static void show_alignment(const mh_translation *translation)
{
    const mh_tokens *source = translation->source;
    for (size_t t = 0; t < translation->count && source->count; t++) {
        printf("            ");
        show_token(translation->text.bytes, translation->ends, t);
        printf(" from ");
        show_token(source->text.data, source->ends, strongest(translation, t));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : "models/fr-en";
    mh_text texts[MOST_TEXTS] = {{"Où est la gare ?", 17}, {"Le chat noir dort.", 18}};
    size_t count = argc > 2 ? 0 : 2;
    for (int i = 2; i < argc && count < MOST_TEXTS; i++)
        texts[count++] = (mh_text){argv[i], strlen(argv[i])};

    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "10_translate: %s\n", error);
        return EXIT_FAILURE;
    }
    mh_translator *translator; // may be shared by any number of threads, each with its own context
    must(mh_translator_load(context, directory, MH_PRECISION_NATIVE, &translator));

    mh_translate_options options = mh_translate_options_default();
    options.n_best = BEST;
    options.attention = true;
    mh_translations *translations;
    must(mh_translate(context, translator, &options, texts, count, &translations));
    for (size_t i = 0; i < count; i++) {
        printf("  %.*s\n", (int)texts[i].size, texts[i].bytes);
        for (size_t rank = 0; rank < BEST; rank++) {
            const mh_translation *translation = mh_translations_at(translations, i, rank);
            if (translation)
                printf("    %6.3f  %s\n", translation->score, translation->text.bytes);
        }
        show_alignment(mh_translations_at(translations, i, 0));
    }
    mh_translations_free(translations);
    mh_translator_free(translator);
    mh_context_free(context);
    return EXIT_SUCCESS;
}
