// SPDX-License-Identifier: MIT
// Example 14: continue a text with a language model, and print it while it is generated. Samples
// twice with the same seed, which gives the same text twice.
//
// usage: 14_generate [MODEL TEXT]
//
// Without arguments it runs a tiny model of this project's tests, which has no tokenizer, on ids.
#include <multihead/generate.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "14_generate: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// Called for every token: its text, or its id if the model has no tokenizer.
static mh_generate_action print_token(void *user, const mh_generated_token *token)
{
    const bool *has_text = user;
    if (*has_text)
        fwrite(token->text.bytes, 1, token->text.size, stdout);
    else
        printf("%d (%.2f) ", (int)token->token.id, token->token.logprob);
    if (token->last)
        printf("\nended by %s\n", token->finish == MH_FINISH_STOP ? "the model" : "the limit");
    fflush(stdout);
    return MH_GENERATE_CONTINUE;
}

int main(int argc, char **argv)
{
    static const int32_t ids[] = {2, 17, 42, 8, 3};
    static const int64_t starts[] = {0, 5};
    bool has_text = argc == 3;
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: 14_generate [MODEL TEXT]\n");
        return EXIT_FAILURE;
    }
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return EXIT_FAILURE;
    mh_model *model;
    must(mh_model_load(context, has_text ? argv[1] : "tests/goldens/models/gpt2", NULL, &model));

    mh_generate_options options = mh_generate_options_default();
    options.max_tokens = 20;
    options.temperature = 0.8;
    options.top_p = 0.95;
    options.seed = 7;
    options.on_token = print_token;
    options.user = &has_text;
    for (int i = 0; i < 2; i++) {
        mh_generations *generations;
        if (has_text) {
            const mh_text prompt = {argv[2], strlen(argv[2])};
            must(mh_generate_texts(context, model, &options, &prompt, 1, &generations));
        } else {
            must(mh_generate(context, model, &options, starts, ids, 1, &generations));
        }
        const mh_generation *result = mh_generations_at(generations, 0);
        printf("%zu tokens after %zu of the prompt\n", result->count, result->prompt_count);
        mh_generations_free(generations);
    }
    mh_model_free(model);
    mh_context_free(context);
    return EXIT_SUCCESS;
}
