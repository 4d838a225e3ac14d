// SPDX-License-Identifier: MIT
// GPT-2 and DistilGPT-2, minGPT: norms before, learned positions, matrices stored as (in, out).
#include "families/family.h"

static void gpt2_defaults(mh_description *d)
{
    d->block.order = MH_NORM_BEFORE;
    d->block.activation = MH_GELU_TANH;
    d->final_norm = true;
    d->causal = true;
    d->tied = true;
}

static const mh_key keys[] = {
    {"n_embd", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},
    {"n_layer", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},
    {"n_head", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},
    {"n_inner", MH_KEY_COUNT, MH_FIELD(block.dim_feedforward), false, NULL}, // null: 4 n_embd
    {"n_positions", MH_KEY_SIZE, MH_FIELD(positions), true, NULL},
    {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},
    {"activation_function", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},
    {"layer_norm_epsilon", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},
    {"tie_word_embeddings", MH_KEY_BOOL, MH_FIELD(tied), false, NULL},
    {"scale_attn_weights", MH_KEY_IS, 0, false, "true"},
    {"scale_attn_by_inverse_layer_idx", MH_KEY_IS, 0, false, "false"},
    {"add_cross_attention", MH_KEY_IS, 0, false, "false"},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    {"wte", "token_embedding", MH_PART_ALL, false},
    {"wpe", "position_embedding", MH_PART_ALL, false},
    {"h.%.ln_1", "layers.%.norm1", MH_PART_ALL, false},
    {"h.%.attn.c_attn", "layers.%.self_attn.in_proj", MH_PART_ALL, true},
    {"h.%.attn.c_proj", "layers.%.self_attn.out_proj", MH_PART_ALL, true},
    {"h.%.ln_2", "layers.%.norm2", MH_PART_ALL, false},
    {"h.%.mlp.c_fc", "layers.%.linear1", MH_PART_ALL, true},
    {"h.%.mlp.c_proj", "layers.%.linear2", MH_PART_ALL, true},
    {"ln_f", "norm", MH_PART_ALL, false},
    {"/lm_head", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"transformer.", "", NULL};
static const char *const ignored[] = {"h.%.attn.bias", "h.%.attn.masked_bias", NULL};

const mh_family mh_family_gpt2 = {
    .model_type = "gpt2",
    .prefixes = prefixes,
    .keys = keys,
    .rules = rules,
    .ignored = ignored,
    .defaults = gpt2_defaults,
};
