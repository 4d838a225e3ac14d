// SPDX-License-Identifier: MIT
// Llama, and what has its names: SmolLM and TinyLlama, which call themselves llama, Mistral (a
// window), Qwen 2 (bias of q, k and v), Qwen 3 (norms of q and k).
#include "families/family.h"

static void llama_defaults(mh_description *d)
{
    d->block.norm = MH_NORM_RMS;
    d->block.order = MH_NORM_BEFORE;
    d->block.norm_eps = 1e-6f;
    d->block.attention_bias = d->block.out_bias = d->block.feed_forward_bias = false;
    d->block.rope = true;
    d->block.gated = true;
    d->block.activation = MH_SILU;
    d->final_norm = true;
    d->causal = true;
}

static void mistral_defaults(mh_description *d)
{
    llama_defaults(d);
    d->window = 4096;
}

static void qwen2_defaults(mh_description *d)
{
    llama_defaults(d);
    d->block.attention_bias = true;
    d->window = 4096;
    d->windowed = false;
    d->full_first = 28;
}

static void qwen3_defaults(mh_description *d)
{
    qwen2_defaults(d);
    d->block.attention_bias = false;
    d->block.head_dim = 128;
    d->block.qk_norm = true;
}

#define COMMON_KEYS                                                                                \
    {"hidden_size", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},                             \
        {"num_hidden_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},                          \
        {"num_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},               \
        {"num_key_value_heads", MH_KEY_COUNT, MH_FIELD(block.kv_heads), false, NULL},              \
        {"head_dim", MH_KEY_COUNT, MH_FIELD(block.head_dim), false, NULL},                         \
        {"intermediate_size", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},           \
        {"hidden_act", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},                \
        {"rms_norm_eps", MH_KEY_FLOAT, MH_FIELD(block.norm_eps), false, NULL},                     \
        {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},                             \
        {"max_position_embeddings", MH_KEY_SIZE, MH_FIELD(longest), true, NULL},                   \
    {                                                                                              \
        "tie_word_embeddings", MH_KEY_BOOL, MH_FIELD(tied), false, NULL                            \
    }

#define ATTENTION_BIAS_KEYS                                                                        \
    {"attention_bias", MH_KEY_BOOL, MH_FIELD(block.attention_bias), false, NULL},                  \
    {                                                                                              \
        "attention_bias", MH_KEY_BOOL, MH_FIELD(block.out_bias), false, NULL                       \
    }

#define WINDOW_KEYS                                                                                \
    {"sliding_window", MH_KEY_COUNT, MH_FIELD(window), false, NULL},                               \
        {"use_sliding_window", MH_KEY_BOOL, MH_FIELD(windowed), false, NULL},                      \
    {                                                                                              \
        "max_window_layers", MH_KEY_COUNT, MH_FIELD(full_first), false, NULL                       \
    }

#define END_OF_KEYS                                                                                \
    {                                                                                              \
        NULL, MH_KEY_SIZE, 0, false, NULL                                                          \
    }

static const mh_key llama_keys[] = {
    COMMON_KEYS,
    ATTENTION_BIAS_KEYS,
    {"mlp_bias", MH_KEY_BOOL, MH_FIELD(block.feed_forward_bias), false, NULL},
    END_OF_KEYS,
};
static const mh_key mistral_keys[] = {
    COMMON_KEYS,
    {"sliding_window", MH_KEY_COUNT, MH_FIELD(window), false, NULL},
    END_OF_KEYS,
};
static const mh_key qwen2_keys[] = {COMMON_KEYS, WINDOW_KEYS, END_OF_KEYS};
static const mh_key qwen3_keys[] = {COMMON_KEYS, ATTENTION_BIAS_KEYS, WINDOW_KEYS, END_OF_KEYS};

static const mh_tensor_rule rules[] = {
    {"embed_tokens", "token_embedding", MH_PART_ALL, false},
    {"layers.%.input_layernorm", "layers.%.norm1", MH_PART_ALL, false},
    {"layers.%.self_attn.q_proj", "layers.%.self_attn.in_proj", MH_PART_Q, false},
    {"layers.%.self_attn.k_proj", "layers.%.self_attn.in_proj", MH_PART_K, false},
    {"layers.%.self_attn.v_proj", "layers.%.self_attn.in_proj", MH_PART_V, false},
    {"layers.%.self_attn.q_norm", "layers.%.self_attn.q_norm", MH_PART_ALL, false},
    {"layers.%.self_attn.k_norm", "layers.%.self_attn.k_norm", MH_PART_ALL, false},
    {"layers.%.self_attn.o_proj", "layers.%.self_attn.out_proj", MH_PART_ALL, false},
    {"layers.%.post_attention_layernorm", "layers.%.norm2", MH_PART_ALL, false},
    {"layers.%.mlp.gate_proj", "layers.%.linear1", MH_PART_GATE, false},
    {"layers.%.mlp.up_proj", "layers.%.linear1", MH_PART_UP, false},
    {"layers.%.mlp.down_proj", "layers.%.linear2", MH_PART_ALL, false},
    {"norm", "norm", MH_PART_ALL, false},
    {"/lm_head", "lm_head", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"model.", "", NULL};
static const char *const ignored[] = {"layers.%.self_attn.rotary_emb.inv_freq", NULL};

#define LLAMA_FAMILY(name)                                                                         \
    {                                                                                              \
        .model_type = #name, .prefixes = prefixes, .keys = name##_keys, .rules = rules,            \
        .ignored = ignored, .defaults = name##_defaults, .layer = mh_family_rotary_layer,          \
    }

const mh_family mh_family_llama = LLAMA_FAMILY(llama);
const mh_family mh_family_mistral = LLAMA_FAMILY(mistral);
const mh_family mh_family_qwen2 = LLAMA_FAMILY(qwen2);
const mh_family mh_family_qwen3 = LLAMA_FAMILY(qwen3);
