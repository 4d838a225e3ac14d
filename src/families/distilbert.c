// SPDX-License-Identifier: MIT
// DistilBERT: BERT without token types and pooler, with names of its own.
#include "families/family.h"

static void distilbert_defaults(mh_description *d)
{
    d->block.order = MH_NORM_AFTER;
    d->block.norm_eps = 1e-12f;
    d->block.activation = MH_GELU;
    d->embedding_norm = true;
    d->pool_activation = MH_RELU;
    d->lm_activation = MH_GELU;
    d->tied = true;
}

static const mh_key keys[] = {
    {"dim", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},
    {"n_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},
    {"n_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},
    {"hidden_dim", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},
    {"activation", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},
    {"activation", MH_KEY_ACTIVATION, MH_FIELD(lm_activation), false, NULL},
    {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},
    {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(positions), true, NULL},
    {"sinusoidal_pos_embds", MH_KEY_IS, 0, false, "false"}, // stored as a table in any case
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    {"embeddings.word_embeddings", "token_embedding", MH_PART_ALL, false},
    {"embeddings.position_embeddings", "position_embedding", MH_PART_ALL, false},
    {"embeddings.LayerNorm", "embedding_norm", MH_PART_ALL, false},
    {"transformer.layer.%.attention.q_lin", "layers.%.self_attn.in_proj", MH_PART_Q, false},
    {"transformer.layer.%.attention.k_lin", "layers.%.self_attn.in_proj", MH_PART_K, false},
    {"transformer.layer.%.attention.v_lin", "layers.%.self_attn.in_proj", MH_PART_V, false},
    {"transformer.layer.%.attention.out_lin", "layers.%.self_attn.out_proj", MH_PART_ALL, false},
    {"transformer.layer.%.sa_layer_norm", "layers.%.norm1", MH_PART_ALL, false},
    {"transformer.layer.%.ffn.lin1", "layers.%.linear1", MH_PART_ALL, false},
    {"transformer.layer.%.ffn.lin2", "layers.%.linear2", MH_PART_ALL, false},
    {"transformer.layer.%.output_layer_norm", "layers.%.norm2", MH_PART_ALL, false},
    {"/pre_classifier", "pooler", MH_PART_ALL, false},
    {"/classifier", "classifier", MH_PART_ALL, false},
    {"/vocab_transform", "lm_transform", MH_PART_ALL, false},
    {"/vocab_layer_norm", "lm_norm", MH_PART_ALL, false},
    {"/vocab_projector", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"distilbert.", "", NULL};
static const char *const ignored[] = {"embeddings.position_ids", NULL};

const mh_family mh_family_distilbert = {
    .model_type = "distilbert",
    .prefixes = prefixes,
    .keys = keys,
    .rules = rules,
    .ignored = ignored,
    .defaults = distilbert_defaults,
};
