// SPDX-License-Identifier: MIT
// Our own translators, as mh_translator_save writes them: nn.Transformer's parameters under
// PyTorch's names, one token table for source, target and head, and positions that are a sine and a
// cosine in turn. Its size follows from the tokenizer, and is the table's.
#include "families/family.h"

static void translator_defaults(mh_description *d)
{
    d->final_norm = true;
    d->sinusoidal = d->interleaved = true;
    d->scale_embedding = true;
    d->shared = true;
    d->tied = true;
}

static void translator_finish(mh_description *d)
{
    d->block.order = d->norm_first ? MH_NORM_BEFORE : MH_NORM_AFTER;
    d->decoder = d->block;
    d->decoder.cross_attention = true;
}

static const mh_key keys[] = {
    {"d_model", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},
    {"nhead", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},
    {"num_encoder_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},
    {"num_decoder_layers", MH_KEY_SIZE, MH_FIELD(decoder_layers), true, NULL},
    {"dim_feedforward", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},
    {"max_length", MH_KEY_SIZE, MH_FIELD(positions), true, NULL},
    {"activation", MH_KEY_ACTIVATION, MH_FIELD(block.activation), true, NULL},
    {"norm_first", MH_KEY_BOOL, MH_FIELD(norm_first), true, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

// A parameter that the file has under its own name.
#define SAME(name)                                                                                 \
    {                                                                                              \
        name, name, MH_PART_ALL, false                                                             \
    }
#define ATTENTION(name)                                                                            \
    SAME(name ".in_proj_weight"), SAME(name ".in_proj_bias"), SAME(name ".out_proj")
#define LAYER(name)                                                                                \
    ATTENTION(name ".self_attn"), SAME(name ".linear1"), SAME(name ".linear2"),                    \
        SAME(name ".norm1"), SAME(name ".norm2")

static const mh_tensor_rule rules[] = {
    {"embedding", "token_embedding", MH_PART_ALL, false},
    LAYER("encoder.layers.%"),
    SAME("encoder.norm"),
    LAYER("decoder.layers.%"),
    ATTENTION("decoder.layers.%.multihead_attn"),
    SAME("decoder.layers.%.norm3"),
    SAME("decoder.norm"),
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"", NULL};
static const char *const ignored[] = {NULL};

const mh_family mh_family_translator = {.model_type = "multihead translator",
                                        .prefixes = prefixes,
                                        .keys = keys,
                                        .rules = rules,
                                        .ignored = ignored,
                                        .defaults = translator_defaults,
                                        .finish = translator_finish,
                                        .own = true};
