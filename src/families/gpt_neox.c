// SPDX-License-Identifier: MIT
// GPT-NeoX and Pythia: attention and feed-forward in parallel, each with its own norm, a quarter of
// each head rotated, q, k and v of each head together in one matrix.
#include "families/family.h"

static void gpt_neox_defaults(mh_description *d)
{
    d->block.order = MH_NORM_BEFORE;
    d->block.parallel = true;
    d->block.activation = MH_GELU;
    d->block.rope = true;
    d->rotary[MH_LAYER_FULL].part = d->rotary[MH_LAYER_SLIDING].part = 0.25;
    d->final_norm = true;
    d->causal = true;
}

static const mh_key keys[] = {
    {"hidden_size", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},
    {"num_hidden_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},
    {"num_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},
    {"intermediate_size", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},
    {"hidden_act", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},
    {"layer_norm_eps", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},
    {"use_parallel_residual", MH_KEY_BOOL, MH_FIELD(block.parallel), false, NULL},
    {"attention_bias", MH_KEY_BOOL, MH_FIELD(block.attention_bias), false, NULL},
    {"attention_bias", MH_KEY_BOOL, MH_FIELD(block.out_bias), false, NULL},
    {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},
    {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(longest), true, NULL},
    {"tie_word_embeddings", MH_KEY_BOOL, MH_FIELD(tied), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    {"embed_in", "token_embedding", MH_PART_ALL, false},
    {"layers.%.input_layernorm", "layers.%.norm1", MH_PART_ALL, false},
    {"layers.%.attention.query_key_value", "layers.%.self_attn.in_proj", MH_PART_QKV_BY_HEAD,
     false},
    {"layers.%.attention.dense", "layers.%.self_attn.out_proj", MH_PART_ALL, false},
    {"layers.%.post_attention_layernorm", "layers.%.norm2", MH_PART_ALL, false},
    {"layers.%.mlp.dense_h_to_4h", "layers.%.linear1", MH_PART_ALL, false},
    {"layers.%.mlp.dense_4h_to_h", "layers.%.linear2", MH_PART_ALL, false},
    {"final_layer_norm", "norm", MH_PART_ALL, false},
    {"/embed_out|/lm_head", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"gpt_neox.", "", NULL};
static const char *const ignored[] = {"layers.%.attention.bias", "layers.%.attention.masked_bias",
                                      "layers.%.attention.rotary_emb.inv_freq", NULL};

const mh_family mh_family_gpt_neox = {
    .model_type = "gpt_neox",
    .prefixes = prefixes,
    .keys = keys,
    .rules = rules,
    .ignored = ignored,
    .defaults = gpt_neox_defaults,
    .layer = mh_family_rotary_layer,
};
