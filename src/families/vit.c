// SPDX-License-Identifier: MIT
// Vision Transformers: ViT; DeiT with its distillation token; DINOv2 with a scale per branch.
#include "families/family.h"

static void vit_defaults(mh_description *d)
{
    d->block.order = MH_NORM_BEFORE;
    d->block.norm_eps = 1e-12f;
    d->block.activation = MH_GELU;
    d->final_norm = true;
    d->pool_activation = MH_TANH;
    d->label_input = MH_LABELS_FIRST;
    d->vision =
        (mh_vision){.image = 224, .patch = 16, .channels = 3, .first = 1, .patch_bias = true};
}

static void deit_defaults(mh_description *d)
{
    vit_defaults(d);
    d->vision.first = 2;
}

static void dinov2_defaults(mh_description *d)
{
    vit_defaults(d);
    d->block.norm_eps = 1e-6f;
    d->label_input = MH_LABELS_FIRST_MEAN;
    d->layer_scale = true;
    d->vision.patch = 14;
    d->vision.mlp_ratio = 4;
}

// Rows of the table of positions.
static void vit_finish(mh_description *d)
{
    const size_t side = d->vision.image / d->vision.patch;
    d->positions = side * side + d->vision.first;
}

// A gated feed-forward has two thirds of the width, in multiples of 8.
static void dinov2_finish(mh_description *d)
{
    const size_t F = d->vision.mlp_ratio * d->block.d_model;
    vit_finish(d);
    d->block.dim_feedforward = d->vision.gated ? (F * 2 / 3 + 7) / 8 * 8 : F;
    d->block.gated = d->vision.gated;
    if (d->vision.gated)
        d->block.activation = MH_SILU;
}

#define VISION_KEYS                                                                                \
    {"hidden_size", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},                             \
        {"num_hidden_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},                          \
        {"num_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},               \
        {"hidden_act", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},                \
        {"layer_norm_eps", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},                   \
        {"qkv_bias", MH_KEY_BOOL, MH_FIELD(block.attention_bias), false, NULL},                    \
        {"image_size", MH_KEY_SIZE, MH_FIELD(vision.image), false, NULL},                          \
        {"patch_size", MH_KEY_SIZE, MH_FIELD(vision.patch), false, NULL},                          \
    {                                                                                              \
        "num_channels", MH_KEY_SIZE, MH_FIELD(vision.channels), false, NULL                        \
    }

static const mh_key vit_keys[] = {
    VISION_KEYS,
    {"intermediate_size", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},
    {"pooler_act", MH_KEY_ACTIVATION, MH_FIELD(pool_activation), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_key dinov2_keys[] = {
    VISION_KEYS,
    {"mlp_ratio", MH_KEY_SIZE, MH_FIELD(vision.mlp_ratio), false, NULL},
    {"use_swiglu_ffn", MH_KEY_BOOL, MH_FIELD(vision.gated), false, NULL},
    {"apply_layernorm", MH_KEY_IS, 0, false, "true"},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

// Names of files since 2020, and of transformers 5 in memory, which are those of files that other
// programs write: layers of ViT are then outside of the encoder, those of DINOv2 are not.
#define VISION_RULES                                                                               \
    {"embeddings.patch_embeddings.projection", "patch_embedding", MH_PART_ALL, false},             \
        {"embeddings.cls_token", "class_token.weight", MH_PART_ALL, false},                        \
        {"embeddings.distillation_token", "distillation_token.weight", MH_PART_ALL, false},        \
        {"embeddings.position_embeddings", "position_embedding.weight", MH_PART_ALL, false},       \
        {"encoder.layer.%.attention.attention.query|layers.%.attention.q_proj|"                    \
         "encoder.layer.%.attention.q_proj",                                                       \
         "layers.%.self_attn.in_proj", MH_PART_Q, false},                                          \
        {"encoder.layer.%.attention.attention.key|layers.%.attention.k_proj|"                      \
         "encoder.layer.%.attention.k_proj",                                                       \
         "layers.%.self_attn.in_proj", MH_PART_K, false},                                          \
        {"encoder.layer.%.attention.attention.value|layers.%.attention.v_proj|"                    \
         "encoder.layer.%.attention.v_proj",                                                       \
         "layers.%.self_attn.in_proj", MH_PART_V, false},                                          \
        {"encoder.layer.%.attention.output.dense|layers.%.attention.o_proj|"                       \
         "encoder.layer.%.attention.o_proj",                                                       \
         "layers.%.self_attn.out_proj", MH_PART_ALL, false},                                       \
        {"layernorm", "norm", MH_PART_ALL, false},                                                 \
    {                                                                                              \
        "/classifier|/cls_classifier", "classifier", MH_PART_ALL, false                            \
    }

static const mh_tensor_rule vit_rules[] = {
    VISION_RULES,
    {"encoder.layer.%.layernorm_before|layers.%.layernorm_before", "layers.%.norm1", MH_PART_ALL,
     false},
    {"encoder.layer.%.layernorm_after|layers.%.layernorm_after", "layers.%.norm2", MH_PART_ALL,
     false},
    {"encoder.layer.%.intermediate.dense|layers.%.mlp.fc1", "layers.%.linear1", MH_PART_ALL, false},
    {"encoder.layer.%.output.dense|layers.%.mlp.fc2", "layers.%.linear2", MH_PART_ALL, false},
    {"pooler.dense", "pooler", MH_PART_ALL, false},
    {"/distillation_classifier", "distillation_classifier", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const mh_tensor_rule dinov2_rules[] = {
    VISION_RULES,
    {"encoder.layer.%.norm1|layers.%.norm1", "layers.%.norm1", MH_PART_ALL, false},
    {"encoder.layer.%.norm2|layers.%.norm2", "layers.%.norm2", MH_PART_ALL, false},
    {"encoder.layer.%.mlp.fc1|encoder.layer.%.mlp.weights_in|layers.%.mlp.fc1|"
     "layers.%.mlp.weights_in",
     "layers.%.linear1", MH_PART_ALL, false},
    {"encoder.layer.%.mlp.gate_proj", "layers.%.linear1", MH_PART_GATE, false},
    {"encoder.layer.%.mlp.up_proj", "layers.%.linear1", MH_PART_UP, false},
    {"encoder.layer.%.mlp.fc2|encoder.layer.%.mlp.weights_out|encoder.layer.%.mlp.down_proj|"
     "layers.%.mlp.fc2|layers.%.mlp.weights_out",
     "layers.%.linear2", MH_PART_ALL, false},
    {"encoder.layer.%.layer_scale1.lambda1|layers.%.layer_scale1.lambda1", "layers.%.scale1",
     MH_PART_ALL, false},
    {"encoder.layer.%.layer_scale2.lambda1|layers.%.layer_scale2.lambda1", "layers.%.scale2",
     MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const vit_prefixes[] = {"vit.", "", NULL};
static const char *const deit_prefixes[] = {"deit.", "", NULL};
static const char *const dinov2_prefixes[] = {"dinov2.", "", NULL};
static const char *const vision_ignored[] = {"embeddings.mask_token", NULL};

const mh_family mh_family_vit = {
    .model_type = "vit",
    .prefixes = vit_prefixes,
    .keys = vit_keys,
    .rules = vit_rules,
    .ignored = vision_ignored,
    .defaults = vit_defaults,
    .finish = vit_finish,
};
const mh_family mh_family_deit = {
    .model_type = "deit",
    .prefixes = deit_prefixes,
    .keys = vit_keys,
    .rules = vit_rules,
    .ignored = vision_ignored,
    .defaults = deit_defaults,
    .finish = vit_finish,
};
const mh_family mh_family_dinov2 = {
    .model_type = "dinov2",
    .prefixes = dinov2_prefixes,
    .keys = dinov2_keys,
    .rules = dinov2_rules,
    .ignored = vision_ignored,
    .defaults = dinov2_defaults,
    .finish = dinov2_finish,
};
