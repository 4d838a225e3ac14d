// SPDX-License-Identifier: MIT
// T5 and Flan-T5, mT5: RMS norms before, no biases, scores that are not scaled but have a relative
// position bias, and a feed-forward network with or without a gate. The encoder may be alone. T5's
// first version scales the decoder's output before the head, which is the token table; later ones
// have a head of their own.
#include "families/family.h"
#include <math.h>

static void t5_defaults(mh_description *d)
{
    mh_block_config *b = &d->block;
    b->norm = MH_NORM_RMS;
    b->order = MH_NORM_BEFORE;
    b->norm_eps = 1e-6f;
    b->norm_bias = b->attention_bias = b->out_bias = b->feed_forward_bias = false;
    b->scale = 1;
    b->relative_buckets = 32;
    d->final_norm = true;
    d->shared = true;
    d->lm_scaled = true;
}

static void mt5_defaults(mh_description *d)
{
    t5_defaults(d);
    d->block.gated = true;
    d->block.activation = MH_GELU_TANH;
    d->lm_scaled = false;
}

static void t5_finish(mh_description *d)
{
    if (!d->decoder_layers)
        d->decoder_layers = d->layers;
    d->decoder = d->block;
    d->decoder.cross_attention = true;
    d->block.relative_bidirectional = true;
    if (d->lm_scaled)
        d->lm_scale = (float)(1 / sqrt((double)d->block.d_model));
}

#define T5_KEYS                                                                                    \
    {"d_model", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},                                 \
        {"d_kv", MH_KEY_SIZE, MH_FIELD(block.head_dim), true, NULL},                               \
        {"d_ff", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},                        \
        {"num_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},                                 \
        {"num_decoder_layers", MH_KEY_COUNT, MH_FIELD(decoder_layers), false, NULL},               \
        {"num_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},                         \
        {"relative_attention_num_buckets", MH_KEY_SIZE, MH_FIELD(block.relative_buckets), false,   \
         NULL},                                                                                    \
        {"relative_attention_max_distance", MH_KEY_SIZE, MH_FIELD(block.relative_distance), false, \
         NULL},                                                                                    \
        {"feed_forward_proj", MH_KEY_FEED_FORWARD, MH_FIELD(block), false, NULL},                  \
        {"layer_norm_epsilon", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},               \
        {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},                             \
    {                                                                                              \
        "decoder_start_token_id", MH_KEY_TOKEN, MH_FIELD(decoder_start), false, NULL               \
    }

// Whether the output is scaled was told by tie_word_embeddings before it had a key of its own.
static const mh_key t5_keys[] = {
    T5_KEYS,
    {"tie_word_embeddings", MH_KEY_BOOL, MH_FIELD(lm_scaled), false, NULL},
    {"scale_decoder_outputs", MH_KEY_BOOL, MH_FIELD(lm_scaled), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_key mt5_keys[] = {T5_KEYS, {NULL, MH_KEY_SIZE, 0, false, NULL}};

#define SUBLAYERS(stack, norm, feed_forward)                                                       \
    {stack ".block.%.layer.0.SelfAttention.q", stack ".layers.%.self_attn.in_proj", MH_PART_Q,     \
     false},                                                                                       \
        {stack ".block.%.layer.0.SelfAttention.k", stack ".layers.%.self_attn.in_proj", MH_PART_K, \
         false},                                                                                   \
        {stack ".block.%.layer.0.SelfAttention.v", stack ".layers.%.self_attn.in_proj", MH_PART_V, \
         false},                                                                                   \
        {stack ".block.%.layer.0.SelfAttention.o", stack ".layers.%.self_attn.out_proj",           \
         MH_PART_ALL, false},                                                                      \
        {stack ".block.%.layer.0.layer_norm", stack ".layers.%.norm1", MH_PART_ALL, false},        \
        {stack ".block.0.layer.0.SelfAttention.relative_attention_bias", stack ".relative_bias",   \
         MH_PART_ALL, false},                                                                      \
        {stack ".block.%.layer." feed_forward ".DenseReluDense.wi", stack ".layers.%.linear1",     \
         MH_PART_ALL, false},                                                                      \
        {stack ".block.%.layer." feed_forward ".DenseReluDense.wi_0", stack ".layers.%.linear1",   \
         MH_PART_GATE, false},                                                                     \
        {stack ".block.%.layer." feed_forward ".DenseReluDense.wi_1", stack ".layers.%.linear1",   \
         MH_PART_UP, false},                                                                       \
        {stack ".block.%.layer." feed_forward ".DenseReluDense.wo", stack ".layers.%.linear2",     \
         MH_PART_ALL, false},                                                                      \
        {stack ".block.%.layer." feed_forward ".layer_norm", stack ".layers.%.norm" norm,          \
         MH_PART_ALL, false},                                                                      \
    {                                                                                              \
        stack ".final_layer_norm", stack ".norm", MH_PART_ALL, false                               \
    }

static const mh_tensor_rule rules[] = {
    {"shared|encoder.embed_tokens", "token_embedding", MH_PART_ALL, false},
    SUBLAYERS("encoder", "2", "1"),
    SUBLAYERS("decoder", "3", "2"),
    {"decoder.block.%.layer.1.EncDecAttention.q", "decoder.layers.%.multihead_attn.in_proj",
     MH_PART_Q, false},
    {"decoder.block.%.layer.1.EncDecAttention.k", "decoder.layers.%.multihead_attn.in_proj",
     MH_PART_K, false},
    {"decoder.block.%.layer.1.EncDecAttention.v", "decoder.layers.%.multihead_attn.in_proj",
     MH_PART_V, false},
    {"decoder.block.%.layer.1.EncDecAttention.o", "decoder.layers.%.multihead_attn.out_proj",
     MH_PART_ALL, false},
    {"decoder.block.%.layer.1.layer_norm", "decoder.layers.%.norm2", MH_PART_ALL, false},
    {"lm_head", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

// The first models have a relative bias in cross-attention, which was never used.
static const char *const prefixes[] = {"", NULL};
static const char *const ignored[] = {
    "encoder.embed_tokens.*", "decoder.embed_tokens.*",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.*", NULL};

const mh_family mh_family_t5 = {.model_type = "t5",
                                .prefixes = prefixes,
                                .keys = t5_keys,
                                .rules = rules,
                                .ignored = ignored,
                                .defaults = t5_defaults,
                                .finish = t5_finish};
const mh_family mh_family_mt5 = {.model_type = "mt5",
                                 .prefixes = prefixes,
                                 .keys = mt5_keys,
                                 .rules = rules,
                                 .ignored = ignored,
                                 .defaults = mt5_defaults,
                                 .finish = t5_finish};
