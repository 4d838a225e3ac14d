// SPDX-License-Identifier: MIT
// BERT and its kin: MiniLM, BGE, E5, GTE; RoBERTa and XLM-RoBERTa, whose positions start at 2 and
// whose heads have other names.
#include "families/family.h"

static void bert_defaults(mh_description *d)
{
    d->block.order = MH_NORM_AFTER;
    d->block.norm_eps = 1e-12f;
    d->block.activation = MH_GELU;
    d->embedding_norm = true;
    d->types = 2;
    d->pool_activation = MH_TANH;
    d->lm_activation = MH_GELU;
    d->tied = true;
}

// RoBERTa's padding token is 1, and positions count from the next number.
static void roberta_defaults(mh_description *d)
{
    bert_defaults(d);
    d->block.norm_eps = 1e-5f;
    d->position_offset = 2;
}

#define COMMON_KEYS                                                                                \
    {"hidden_size", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},                             \
        {"num_hidden_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},                          \
        {"num_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},               \
        {"intermediate_size", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},           \
        {"hidden_act", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},                \
        {"layer_norm_eps", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},                   \
        {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},                             \
        {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(positions), true, NULL},                 \
        {"type_vocab_size", MH_KEY_COUNT, MH_FIELD(types), false, NULL},                           \
        {"position_embedding_type", MH_KEY_IS, 0, false, "\"absolute\""},                          \
        {"is_decoder", MH_KEY_IS, 0, false, "false"},                                              \
    {                                                                                              \
        "add_cross_attention", MH_KEY_IS, 0, false, "false"                                        \
    }

static const mh_key bert_keys[] = {
    COMMON_KEYS,
    {"hidden_act", MH_KEY_ACTIVATION, MH_FIELD(lm_activation), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_key roberta_keys[] = {COMMON_KEYS, {NULL, MH_KEY_SIZE, 0, false, NULL}};

#define COMMON_RULES                                                                               \
    {"embeddings.word_embeddings", "token_embedding", MH_PART_ALL, false},                         \
        {"embeddings.position_embeddings", "position_embedding", MH_PART_ALL, false},              \
        {"embeddings.token_type_embeddings", "type_embedding", MH_PART_ALL, false},                \
        {"embeddings.LayerNorm", "embedding_norm", MH_PART_ALL, false},                            \
        {"encoder.layer.%.attention.self.query", "layers.%.self_attn.in_proj", MH_PART_Q, false},  \
        {"encoder.layer.%.attention.self.key", "layers.%.self_attn.in_proj", MH_PART_K, false},    \
        {"encoder.layer.%.attention.self.value", "layers.%.self_attn.in_proj", MH_PART_V, false},  \
        {"encoder.layer.%.attention.output.dense", "layers.%.self_attn.out_proj", MH_PART_ALL,     \
         false},                                                                                   \
        {"encoder.layer.%.attention.output.LayerNorm", "layers.%.norm1", MH_PART_ALL, false},      \
        {"encoder.layer.%.intermediate.dense", "layers.%.linear1", MH_PART_ALL, false},            \
        {"encoder.layer.%.output.dense", "layers.%.linear2", MH_PART_ALL, false},                  \
    {                                                                                              \
        "encoder.layer.%.output.LayerNorm", "layers.%.norm2", MH_PART_ALL, false                   \
    }

static const mh_tensor_rule bert_rules[] = {
    COMMON_RULES,
    {"pooler.dense", "pooler", MH_PART_ALL, false},
    {"/classifier", "classifier", MH_PART_ALL, false},
    {"/cls.predictions.transform.dense", "lm_transform", MH_PART_ALL, false},
    {"/cls.predictions.transform.LayerNorm", "lm_norm", MH_PART_ALL, false},
    {"/cls.predictions.decoder|/cls.predictions", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const mh_tensor_rule roberta_rules[] = {
    COMMON_RULES,
    {"/classifier.dense|pooler.dense", "pooler", MH_PART_ALL, false}, // the first is written
    {"/classifier.out_proj", "classifier", MH_PART_ALL, false},
    {"/lm_head.dense", "lm_transform", MH_PART_ALL, false},
    {"/lm_head.layer_norm", "lm_norm", MH_PART_ALL, false},
    {"/lm_head.decoder|/lm_head", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const bert_prefixes[] = {"bert.", "", NULL};
static const char *const roberta_prefixes[] = {"roberta.", "", NULL};
static const char *const bert_ignored[] = {"embeddings.position_ids", "/cls.seq_relationship.*",
                                           NULL};

const mh_family mh_family_bert = {
    .model_type = "bert",
    .prefixes = bert_prefixes,
    .keys = bert_keys,
    .rules = bert_rules,
    .ignored = bert_ignored,
    .defaults = bert_defaults,
};
const mh_family mh_family_roberta = {
    .model_type = "roberta",
    .prefixes = roberta_prefixes,
    .keys = roberta_keys,
    .rules = roberta_rules,
    .ignored = bert_ignored,
    .defaults = roberta_defaults,
};
const mh_family mh_family_xlm_roberta = {
    .model_type = "xlm-roberta",
    .prefixes = roberta_prefixes,
    .keys = roberta_keys,
    .rules = roberta_rules,
    .ignored = bert_ignored,
    .defaults = roberta_defaults,
};
