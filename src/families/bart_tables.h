// SPDX-License-Identifier: MIT
// What Marian, BART and mBART have in common: keys, names of tensors, and a decoder that is the
// encoder with cross-attention.
#ifndef MH_FAMILIES_BART_TABLES_H
#define MH_FAMILIES_BART_TABLES_H

#include "families/family.h"

// The decoder's block.
void mh_bart_finish(mh_description *d);

#define MH_BART_KEYS                                                                               \
    {"d_model", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},                                 \
        {"encoder_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},                             \
        {"encoder_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},           \
        {"encoder_ffn_dim", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},             \
        {"decoder_layers", MH_KEY_SIZE, MH_FIELD(decoder_layers), true, NULL},                     \
        {"decoder_attention_heads", MH_KEY_SIZE, MH_FIELD(decoder.num_heads), true, NULL},         \
        {"decoder_ffn_dim", MH_KEY_SIZE, MH_FIELD(decoder.dim_feedforward), true, NULL},           \
        {"activation_function", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},       \
        {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},                             \
        {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(positions), true, NULL},                 \
        {"scale_embedding", MH_KEY_BOOL, MH_FIELD(scale_embedding), false, NULL},                  \
        {"tie_word_embeddings", MH_KEY_BOOL, MH_FIELD(tied), false, NULL},                         \
        {"decoder_start_token_id", MH_KEY_TOKEN, MH_FIELD(decoder_start), false, NULL},            \
    {                                                                                              \
        "pad_token_id", MH_KEY_TOKEN, MH_FIELD(frozen_token), false, NULL                          \
    }

#define MH_BART_ATTENTION(source, target)                                                          \
    {source ".q_proj", target ".in_proj", MH_PART_Q, false},                                       \
        {source ".k_proj", target ".in_proj", MH_PART_K, false},                                   \
        {source ".v_proj", target ".in_proj", MH_PART_V, false},                                   \
    {                                                                                              \
        source ".out_proj", target ".out_proj", MH_PART_ALL, false                                 \
    }

#define MH_BART_RULES                                                                              \
    {"encoder.embed_tokens|shared", "token_embedding", MH_PART_ALL, false},                        \
        MH_BART_ATTENTION("encoder.layers.%.self_attn", "encoder.layers.%.self_attn"),             \
        {"encoder.layers.%.self_attn_layer_norm", "encoder.layers.%.norm1", MH_PART_ALL, false},   \
        {"encoder.layers.%.fc1", "encoder.layers.%.linear1", MH_PART_ALL, false},                  \
        {"encoder.layers.%.fc2", "encoder.layers.%.linear2", MH_PART_ALL, false},                  \
        {"encoder.layers.%.final_layer_norm", "encoder.layers.%.norm2", MH_PART_ALL, false},       \
        MH_BART_ATTENTION("decoder.layers.%.self_attn", "decoder.layers.%.self_attn"),             \
        {"decoder.layers.%.self_attn_layer_norm", "decoder.layers.%.norm1", MH_PART_ALL, false},   \
        MH_BART_ATTENTION("decoder.layers.%.encoder_attn", "decoder.layers.%.multihead_attn"),     \
        {"decoder.layers.%.encoder_attn_layer_norm", "decoder.layers.%.norm2", MH_PART_ALL,        \
         false},                                                                                   \
        {"decoder.layers.%.fc1", "decoder.layers.%.linear1", MH_PART_ALL, false},                  \
        {"decoder.layers.%.fc2", "decoder.layers.%.linear2", MH_PART_ALL, false},                  \
        {"decoder.layers.%.final_layer_norm", "decoder.layers.%.norm3", MH_PART_ALL, false},       \
        {"/lm_head", "lm_head", MH_PART_ALL, false},                                               \
    {                                                                                              \
        "/final_logits_bias", "lm_head.bias", MH_PART_ALL, false                                   \
    }

#endif
