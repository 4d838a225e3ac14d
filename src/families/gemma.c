// SPDX-License-Identifier: MIT
// Gemma 2 (soft caps) and Gemma 3 (norms of q and k, two rotary bases): norms on both sides of a
// branch, stored as w - 1, GeGLU, and embeddings that are scaled. Published files of Gemma 3 leave
// out what equals the defaults of transformers, so these are here.
#include "families/family.h"

static void gemma_defaults(mh_description *d)
{
    d->block.norm = MH_NORM_RMS;
    d->block.order = MH_NORM_BOTH;
    d->block.norm_eps = 1e-6f;
    d->block.d_model = 2304;
    d->block.dim_feedforward = 9216;
    d->block.num_heads = 8;
    d->block.kv_heads = 4;
    d->block.head_dim = 256;
    d->block.attention_bias = d->block.out_bias = d->block.feed_forward_bias = false;
    d->block.scale = 1.0f / 16; // of query_pre_attn_scalar 256
    d->block.rope = true;
    d->block.gated = true;
    d->block.activation = MH_GELU_TANH;
    d->layers = 26;
    d->final_norm = true;
    d->norm_plus_one = true;
    d->causal = true;
    d->window = 4096;
    d->scale_embedding = d->round_scale = true;
    d->tied = true;
}

static void gemma2_defaults(mh_description *d)
{
    gemma_defaults(d);
    d->block.softcap = 50;
    d->logits_softcap = 30;
    d->full_every = 2;
    d->vocabulary = 256000;
    d->longest = 8192;
}

static void gemma3_defaults(mh_description *d)
{
    gemma_defaults(d);
    d->block.qk_norm = true;
    d->rotary[MH_LAYER_FULL].base = 1e6;
    d->rotary_by_kind = true;
    d->full_every = 6;
    d->vocabulary = 262208;
    d->longest = 131072;
}

static const mh_key keys[] = {
    {"hidden_size", MH_KEY_SIZE, MH_FIELD(block.d_model), false, NULL},
    {"num_hidden_layers", MH_KEY_SIZE, MH_FIELD(layers), false, NULL},
    {"num_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), false, NULL},
    {"num_key_value_heads", MH_KEY_SIZE, MH_FIELD(block.kv_heads), false, NULL},
    {"head_dim", MH_KEY_SIZE, MH_FIELD(block.head_dim), false, NULL},
    {"intermediate_size", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), false, NULL},
    {"hidden_activation", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},
    {"rms_norm_eps", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},
    {"attention_bias", MH_KEY_BOOL, MH_FIELD(block.attention_bias), false, NULL},
    {"attention_bias", MH_KEY_BOOL, MH_FIELD(block.out_bias), false, NULL},
    {"query_pre_attn_scalar", MH_KEY_INVERSE_ROOT, MH_FIELD(block.scale), false, NULL},
    {"attn_logit_softcapping", MH_KEY_FLOAT, MH_FIELD(block.softcap), false, NULL},
    {"final_logit_softcapping", MH_KEY_FLOAT, MH_FIELD(logits_softcap), false, NULL},
    {"sliding_window", MH_KEY_COUNT, MH_FIELD(window), false, NULL},
    {"sliding_window_pattern", MH_KEY_SIZE, MH_FIELD(full_every), false, NULL},
    {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), false, NULL},
    {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(longest), false, NULL},
    {"tie_word_embeddings", MH_KEY_BOOL, MH_FIELD(tied), false, NULL},
    {"use_bidirectional_attention", MH_KEY_IS, 0, false, "false"},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    {"embed_tokens", "token_embedding", MH_PART_ALL, false},
    {"layers.%.input_layernorm", "layers.%.norm1", MH_PART_ALL, false},
    {"layers.%.self_attn.q_proj", "layers.%.self_attn.in_proj", MH_PART_Q, false},
    {"layers.%.self_attn.k_proj", "layers.%.self_attn.in_proj", MH_PART_K, false},
    {"layers.%.self_attn.v_proj", "layers.%.self_attn.in_proj", MH_PART_V, false},
    {"layers.%.self_attn.q_norm", "layers.%.self_attn.q_norm", MH_PART_ALL, false},
    {"layers.%.self_attn.k_norm", "layers.%.self_attn.k_norm", MH_PART_ALL, false},
    {"layers.%.self_attn.o_proj", "layers.%.self_attn.out_proj", MH_PART_ALL, false},
    {"layers.%.post_attention_layernorm", "layers.%.norm1_post", MH_PART_ALL, false},
    {"layers.%.pre_feedforward_layernorm", "layers.%.norm2", MH_PART_ALL, false},
    {"layers.%.mlp.gate_proj", "layers.%.linear1", MH_PART_GATE, false},
    {"layers.%.mlp.up_proj", "layers.%.linear1", MH_PART_UP, false},
    {"layers.%.mlp.down_proj", "layers.%.linear2", MH_PART_ALL, false},
    {"layers.%.post_feedforward_layernorm", "layers.%.norm2_post", MH_PART_ALL, false},
    {"norm", "norm", MH_PART_ALL, false},
    {"/lm_head|/language_model.lm_head", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

// Of a model with pictures, text is what we run.
static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.",
                                       "", NULL};
static const char *const ignored[] = {"/vision_tower.*", "/multi_modal_projector.*",
                                      "/model.vision_tower.*", "/model.multi_modal_projector.*",
                                      NULL};

const mh_family mh_family_gemma2 = {
    .model_type = "gemma2",
    .prefixes = prefixes,
    .keys = keys,
    .rules = rules,
    .ignored = ignored,
    .defaults = gemma2_defaults,
    .layer = mh_family_rotary_layer,
};
const mh_family mh_family_gemma3_text = {
    .model_type = "gemma3_text",
    .prefixes = prefixes,
    .keys = keys,
    .rules = rules,
    .ignored = ignored,
    .defaults = gemma3_defaults,
    .layer = mh_family_rotary_layer,
};
const mh_family mh_family_gemma3 = {
    .model_type = "gemma3",
    .prefixes = prefixes,
    .keys = keys,
    .rules = rules,
    .ignored = ignored,
    .defaults = gemma3_defaults,
    .layer = mh_family_rotary_layer,
    .section = "text_config",
};
