// SPDX-License-Identifier: MIT
// The presets of `multihead mha`: one attention layer of each model in presets/presets.c.
#include "mha.h"

#include <stdio.h>

// Models that have the same layers as a preset and differ in what surrounds them.
static const struct {
    const char *names, *preset; // names as in is_name()
} same_layers[] = {
    {"bert-base-cased|google-bert/bert-base-cased|bert-base-multilingual-cased", "bert-base"},
    {"bert-large-cased|google-bert/bert-large-cased", "bert-large"},
    {"whisper-tiny.en|openai/whisper-tiny.en", "whisper-tiny"},
};

const model_preset *find_layer_preset(struct argp_state *state, const char *name)
{
    for (size_t i = 0; i < sizeof same_layers / sizeof *same_layers; i++)
        if (is_name(name, same_layers[i].names))
            return find_preset(state, same_layers[i].preset);
    return find_preset(state, name);
}

void set_preset_sizes(const model_preset *p, mh_mha_config *config)
{
    config->embed_dim = p->d_model;
    config->num_heads = p->heads;
    config->kv_heads = preset_kv_heads(p);
    config->bias = p->family->bias;
    config->rope = config->rope || p->family->rope;
}

// in_proj ((H + 2G) E, D), out_proj (D, H E), and their biases.
static size_t layer_parameters(const model_preset *p)
{
    const size_t E = preset_head_dim(p), D = p->d_model, bias = p->family->bias;
    return (p->heads + 2 * preset_kv_heads(p)) * E * (D + bias) + D * (p->heads * E + bias);
}

void print_presets(bool json)
{
    if (!json)
        printf("%-17s %-17s %6s %6s %6s %12s %10s %10s\n", "preset", "one layer of", "D", "heads",
               "E", "parameters", "f32", "bf16");
    for (const model_preset *p = model_presets; p->name; p++) {
        const size_t count = layer_parameters(p), E = preset_head_dim(p);
        if (json)
            printf("{\"preset\": \"%s\", \"model\": \"%s\", \"embed_dim\": %zu, \"heads\": %zu, "
                   "\"head_dim\": %zu, \"parameters\": %zu, \"bytes_f32\": %zu, \"bytes_bf16\": "
                   "%zu}\n",
                   p->name, p->model, p->d_model, p->heads, E, count, 4 * count, 2 * count);
        else
            printf("%-17s %-17s %6zu %6zu %6zu %12zu %7.1f MB %7.1f MB\n", p->name, p->model,
                   p->d_model, p->heads, E, count, 4e-6 * (double)count, 2e-6 * (double)count);
    }
}
