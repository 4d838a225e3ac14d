// SPDX-License-Identifier: MIT
// Attention layers of published models by the names of their tensors; see layer_names.h. The
// first entry that fits a name is used, so that those of a stack come before general ones.
#include "layer_names.h"

#include <stdio.h>
#include <string.h>

#define PROJECTIONS "q_proj", "k_proj", "v_proj"

static const attention_names table[] = {
    // CLIP
    {"vision", "vision_model.encoder.layers.%.self_attn.", PROJECTIONS, "out_proj", 0},
    {"text", "text_model.encoder.layers.%.self_attn.", PROJECTIONS, "out_proj", LAYER_CAUSAL},
    // BART, Marian, Whisper
    {"encoder", "encoder.layers.%.self_attn.", PROJECTIONS, "out_proj", 0},
    {"decoder", "decoder.layers.%.self_attn.", PROJECTIONS, "out_proj", LAYER_CAUSAL},
    {"cross", "decoder.layers.%.encoder_attn.", PROJECTIONS, "out_proj", 0},
    // nn.Transformer
    {"encoder", "encoder.layers.%.self_attn.", "in_proj", NULL, NULL, "out_proj", 0},
    {"decoder", "decoder.layers.%.self_attn.", "in_proj", NULL, NULL, "out_proj", LAYER_CAUSAL},
    {"cross", "decoder.layers.%.multihead_attn.", "in_proj", NULL, NULL, "out_proj", 0},
    // T5
    {"encoder", "encoder.block.%.layer.0.SelfAttention.", "q", "k", "v", "o", LAYER_UNSCALED},
    {"decoder", "decoder.block.%.layer.0.SelfAttention.", "q", "k", "v", "o",
     LAYER_UNSCALED | LAYER_CAUSAL},
    {"cross", "decoder.block.%.layer.1.EncDecAttention.", "q", "k", "v", "o", LAYER_UNSCALED},
    // Whisper as OpenAI has it
    {"encoder", "encoder.blocks.%.attn.", "query", "key", "value", "out", LAYER_HEADS_OF_64},
    {"decoder", "decoder.blocks.%.attn.", "query", "key", "value", "out",
     LAYER_HEADS_OF_64 | LAYER_CAUSAL},
    {"cross", "decoder.blocks.%.cross_attn.", "query", "key", "value", "out", LAYER_HEADS_OF_64},
    // BERT, RoBERTa; ViT, DeiT, DINOv2 before transformers 5; DistilBERT
    {"", "layer.%.attention.", "self.query", "self.key", "self.value", "output.dense", 0},
    {"", "layer.%.attention.", "attention.query", "attention.key", "attention.value",
     "output.dense", 0},
    {"", "layer.%.attention.", "q_lin", "k_lin", "v_lin", "out_lin", 0},
    // ViT since transformers 5
    {"", "layers.%.attention.", PROJECTIONS, "o_proj", 0},
    // GPT-NeoX, Pythia
    {"", "layers.%.attention.", "query_key_value", NULL, NULL, "dense",
     LAYER_CAUSAL | LAYER_INTERLEAVED},
    // Llama, Mistral, Qwen, Gemma
    {"", "layers.%.self_attn.", PROJECTIONS, "o_proj", LAYER_CAUSAL},
    // nn.TransformerEncoder
    {"", "layers.%.self_attn.", "in_proj", NULL, NULL, "out_proj", 0},
    // GPT-2
    {"", "h.%.attn.", "c_attn", NULL, NULL, "c_proj", LAYER_CAUSAL | LAYER_IN_OUT},
    // timm
    {"", "blocks.%.attn.", "qkv", NULL, NULL, "proj", 0},
};

// What follows `base` in `name`, which begins with it; NULL if it does not.
static const char *skip_base(const char *base, const char *name, size_t *number)
{
    for (; *base; base++) {
        if (*base != '%') {
            if (*name++ != *base)
                return NULL;
            continue;
        }
        if (*name < '0' || *name > '9')
            return NULL;
        for (*number = 0; *name >= '0' && *name <= '9'; name++)
            *number = *number < 1000000 ? *number * 10 + (size_t)(*name - '0') : *number;
    }
    return name;
}

// The length of the name before the projection if it is the weight of this q, else 0. Before the
// base may be other parts of a name.
static size_t match_names(const attention_names *n, const char *name, size_t *number)
{
    const size_t size = strlen(n->q);
    for (const char *at = name; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL) {
        const char *rest = skip_base(n->base, at, number);
        if (rest && strncmp(rest, n->q, size) == 0 &&
            (strcmp(rest + size, ".weight") == 0 || strcmp(rest + size, "_weight") == 0))
            return (size_t)(rest - name);
    }
    return 0;
}

static const attention_names *classify_name(const char *name, size_t *number, size_t *base_size)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        *base_size = match_names(&table[i], name, number);
        if (*base_size)
            return &table[i];
    }
    return NULL;
}

static void add_layer(attention_search *s, const attention_names *names, size_t number,
                      const char *base, size_t base_size)
{
    size_t i = 0;
    while (i < s->count && strcmp(s->stacks[i].name, names->stack) != 0)
        i++;
    if (i == MOST_STACKS || base_size >= LAYER_NAME_BYTES)
        return;
    if (i == s->count)
        s->stacks[s->count++].name = names->stack;
    if (number >= s->stacks[i].layers)
        s->stacks[i].layers = number + 1;
    if (number != s->layer || s->stacks[i].names)
        return;
    s->stacks[i].names = names;
    snprintf(s->stacks[i].base, LAYER_NAME_BYTES, "%.*s", (int)base_size, base);
}

void find_attention_layers(const mh_tensor_file *file, attention_search *search)
{
    const char *name;
    for (size_t i = 0; (name = mh_tensor_file_name(file, i)); i++) {
        size_t number = 0, base_size = 0;
        const attention_names *names = classify_name(name, &number, &base_size);
        if (names)
            add_layer(search, names, number, name, base_size);
    }
}

bool find_layer_tensor(const mh_tensor_file *file, const char *base, const char *stem,
                       const char *kind, size_t *index, mh_tensor *tensor)
{
    char name[LAYER_NAME_BYTES + 64];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s%c%s", base, stem, i ? '_' : '.', kind);
        if (mh_tensor_file_index(file, name, index))
            return mh_tensor_file_describe(file, *index, tensor);
    }
    return false;
}
