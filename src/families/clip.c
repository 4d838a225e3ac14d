// SPDX-License-Identifier: MIT
// CLIP: a tower for pictures and one for texts, whose embeddings share a space. Directories have
// both, or one of them.
#include "families/family.h"

static void tower_defaults(mh_description *d)
{
    d->block.order = MH_NORM_BEFORE;
    d->block.activation = MH_SILU; // quick GELU
    d->activation_scale = 1.702f;
    d->final_norm = true;
    d->layers = 12;
}

static void vision_defaults(mh_description *d)
{
    tower_defaults(d);
    d->block.d_model = 768;
    d->block.num_heads = 12;
    d->block.dim_feedforward = 3072;
    d->embedding_norm = true;
    d->vision = (mh_vision){.image = 224, .patch = 32, .channels = 3, .first = 1};
}

// The end token, which is the last one, has the text's vector.
static void text_defaults(mh_description *d)
{
    tower_defaults(d);
    d->block.d_model = 512;
    d->block.num_heads = 8;
    d->block.dim_feedforward = 2048;
    d->causal = true;
    d->vocabulary = 49408;
    d->positions = 77;
}

static void vision_finish(mh_description *d)
{
    const size_t side = d->vision.image / d->vision.patch;
    d->positions = side * side + 1;
}

#define TOWER_KEYS                                                                                 \
    {"hidden_size", MH_KEY_SIZE, MH_FIELD(block.d_model), false, NULL},                            \
        {"num_hidden_layers", MH_KEY_SIZE, MH_FIELD(layers), false, NULL},                         \
        {"num_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), false, NULL},              \
        {"intermediate_size", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), false, NULL},          \
        {"hidden_act", MH_KEY_SCALED, 0, false, NULL},                                             \
    {                                                                                              \
        "layer_norm_eps", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL                      \
    }

static const mh_key vision_keys[] = {
    TOWER_KEYS,
    {"image_size", MH_KEY_SIZE, MH_FIELD(vision.image), false, NULL},
    {"patch_size", MH_KEY_SIZE, MH_FIELD(vision.patch), false, NULL},
    {"num_channels", MH_KEY_SIZE, MH_FIELD(vision.channels), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};
static const mh_key text_keys[] = {
    TOWER_KEYS,
    {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), false, NULL},
    {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(positions), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

#define TOWER_RULES                                                                                \
    {"embeddings.position_embedding", "position_embedding", MH_PART_ALL, false},                   \
        {"encoder.layers.%.self_attn.q_proj", "layers.%.self_attn.in_proj", MH_PART_Q, false},     \
        {"encoder.layers.%.self_attn.k_proj", "layers.%.self_attn.in_proj", MH_PART_K, false},     \
        {"encoder.layers.%.self_attn.v_proj", "layers.%.self_attn.in_proj", MH_PART_V, false},     \
        {"encoder.layers.%.self_attn.out_proj", "layers.%.self_attn.out_proj", MH_PART_ALL,        \
         false},                                                                                   \
        {"encoder.layers.%.layer_norm1", "layers.%.norm1", MH_PART_ALL, false},                    \
        {"encoder.layers.%.layer_norm2", "layers.%.norm2", MH_PART_ALL, false},                    \
        {"encoder.layers.%.mlp.fc1", "layers.%.linear1", MH_PART_ALL, false},                      \
    {                                                                                              \
        "encoder.layers.%.mlp.fc2", "layers.%.linear2", MH_PART_ALL, false                         \
    }

static const mh_tensor_rule vision_rules[] = {
    {"embeddings.patch_embedding", "patch_embedding", MH_PART_ALL, false},
    TOWER_RULES,
    {"embeddings.class_embedding", "class_token.weight", MH_PART_ALL, false},
    {"pre_layrnorm", "embedding_norm", MH_PART_ALL, false},
    {"post_layernorm", "norm", MH_PART_ALL, false},
    {"/visual_projection", "projection", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};
static const mh_tensor_rule text_rules[] = {
    {"embeddings.token_embedding", "token_embedding", MH_PART_ALL, false},
    TOWER_RULES,
    {"final_layer_norm", "norm", MH_PART_ALL, false},
    {"/text_projection", "projection", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const vision_prefixes[] = {"vision_model.", "", NULL};
static const char *const text_prefixes[] = {"text_model.", "", NULL};
static const char *const vision_ignored[] = {"embeddings.position_ids", "/text_model.*",
                                             "/text_projection.weight", "/logit_scale", NULL};
static const char *const text_ignored[] = {"embeddings.position_ids", "/vision_model.*",
                                           "/visual_projection.weight", "/logit_scale", NULL};

static const mh_family text_tower = {
    .model_type = "clip",
    .prefixes = text_prefixes,
    .keys = text_keys,
    .rules = text_rules,
    .ignored = text_ignored,
    .defaults = text_defaults,
    .section = "text_config",
};
const mh_family mh_family_clip = {
    .model_type = "clip",
    .prefixes = vision_prefixes,
    .keys = vision_keys,
    .rules = vision_rules,
    .ignored = vision_ignored,
    .defaults = vision_defaults,
    .section = "vision_config",
    .finish = vision_finish,
    .text = &text_tower,
};
const mh_family mh_family_clip_vision = {
    .model_type = "clip_vision_model",
    .prefixes = vision_prefixes,
    .keys = vision_keys,
    .rules = vision_rules,
    .ignored = vision_ignored,
    .defaults = vision_defaults,
    .finish = vision_finish,
};
const mh_family mh_family_clip_text = {
    .model_type = "clip_text_model",
    .prefixes = text_prefixes,
    .keys = text_keys,
    .rules = text_rules,
    .ignored = text_ignored,
    .defaults = text_defaults,
};
