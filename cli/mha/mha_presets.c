// SPDX-License-Identifier: MIT
// The presets of `multihead mha`: sizes of one attention layer of well-known models.
#include "mha.h"

#include <stdio.h>
#include <string.h>

// Aliases are the names on Hugging Face's hub and other common ones; is_name() ignores spelling.
static const preset presets[] = {
    {"transformer-base", "Transformer-base", "transformer", 512, 8},
    {"bert-base", "BERT-Base",
     "bert|bert-base-uncased|bert-base-cased|google-bert/bert-base-uncased|"
     "google-bert/bert-base-cased|bert-base-multilingual-cased",
     768, 12},
    {"bert-large", "BERT-Large",
     "bert-large-uncased|bert-large-cased|google-bert/bert-large-uncased|"
     "google-bert/bert-large-cased",
     1024, 16},
    {"gpt2-small", "GPT-2 Small", "gpt2|openai-community/gpt2|gpt2-124m", 768, 12},
    {"gpt2-large", "GPT-2 Large", "openai-community/gpt2-large|gpt2-774m", 1280, 20},
    {"gpt3", "GPT-3 175B", "gpt3-175b|davinci", 12288, 96},
    {"vit-b-16", "ViT-B/16",
     "vit|vit-base|vit-base-16|vit-base-patch16|vit-base-patch16-224|google/vit-base-patch16-224",
     768, 12},
    {"whisper-tiny", "Whisper-tiny", "openai/whisper-tiny|whisper-tiny.en|openai/whisper-tiny.en",
     384, 6},
    {NULL, NULL, NULL, 0, 0},
};
enum { PRESETS = sizeof presets / sizeof *presets - 1 };

const preset *find_preset(struct argp_state *state, const char *name)
{
    const char *names[PRESETS + 1] = {NULL};
    char known[256] = "";
    for (size_t i = 0; i < PRESETS; i++) {
        const preset *p = &presets[i];
        if (is_name(name, p->name) || is_name(name, p->aliases))
            return p;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", p->name);
        names[i] = p->name;
    }
    const char *nearest = nearest_name(name, names);
    if (nearest)
        argp_error(state, "--preset: found '%s', did you mean '%s'? There are: %s", name, nearest,
                   known);
    argp_error(state, "--preset: found '%s', expected one of: %s", name, known);
    return NULL;
}

// in_proj (3D, D) and its bias, out_proj (D, D) and its bias.
static size_t preset_parameters(const preset *p) { return 4 * p->embed_dim * (p->embed_dim + 1); }

void print_presets(bool json)
{
    if (!json)
        printf("%-17s %-17s %6s %6s %6s %12s %10s %10s\n", "preset", "one layer of", "D", "heads",
               "E", "parameters", "f32", "bf16");
    for (const preset *p = presets; p->name; p++) {
        const size_t count = preset_parameters(p), E = p->embed_dim / p->heads;
        if (json)
            printf("{\"preset\": \"%s\", \"model\": \"%s\", \"embed_dim\": %zu, \"heads\": %zu, "
                   "\"head_dim\": %zu, \"parameters\": %zu, \"bytes_f32\": %zu, \"bytes_bf16\": "
                   "%zu}\n",
                   p->name, p->model, p->embed_dim, p->heads, E, count, 4 * count, 2 * count);
        else
            printf("%-17s %-17s %6zu %6zu %6zu %12zu %7.1f MB %7.1f MB\n", p->name, p->model,
                   p->embed_dim, p->heads, E, count, 4e-6 * (double)count, 2e-6 * (double)count);
    }
}
