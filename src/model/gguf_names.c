// SPDX-License-Identifier: MIT
// GGUF's names of tensors. They are the same for all architectures, so there are three tables, not
// one per family: q, k and v apart with a gated feed-forward network, q, k and v in one matrix, and
// BERT, whose norms come after. Matrices are (out, in) and fused ones are stacked in all of them;
// norms that a family stores as w - 1 are stored as w.
#include "model/gguf_config.h"

#define ENDS                                                                                       \
    {"token_embd", "token_embedding", MH_PART_ALL, false},                                         \
        {"position_embd", "position_embedding", MH_PART_ALL, false},                               \
        {"output_norm", "norm", MH_PART_ALL, false},                                               \
    {                                                                                              \
        "output", "lm_head", MH_PART_ALL, false                                                    \
    }

#define SEPARATE                                                                                   \
    {"blk.%.attn_q", "layers.%.self_attn.in_proj", MH_PART_Q, false},                              \
        {"blk.%.attn_k", "layers.%.self_attn.in_proj", MH_PART_K, false},                          \
    {                                                                                              \
        "blk.%.attn_v", "layers.%.self_attn.in_proj", MH_PART_V, false                             \
    }

#define COMMON                                                                                     \
    {"blk.%.attn_output", "layers.%.self_attn.out_proj", MH_PART_ALL, false},                      \
    {                                                                                              \
        "blk.%.ffn_down", "layers.%.linear2", MH_PART_ALL, false                                   \
    }

#define NORMS_BEFORE                                                                               \
    {"blk.%.attn_norm", "layers.%.norm1", MH_PART_ALL, false},                                     \
    {                                                                                              \
        "blk.%.ffn_norm", "layers.%.norm2", MH_PART_ALL, false                                     \
    }

const mh_tensor_rule mh_gguf_gated_rules[] = {
    ENDS,
    SEPARATE,
    COMMON,
    NORMS_BEFORE,
    {"blk.%.attn_q_norm", "layers.%.self_attn.q_norm", MH_PART_ALL, false},
    {"blk.%.attn_k_norm", "layers.%.self_attn.k_norm", MH_PART_ALL, false},
    {"blk.%.post_attention_norm", "layers.%.norm1_post", MH_PART_ALL, false},
    {"blk.%.post_ffw_norm", "layers.%.norm2_post", MH_PART_ALL, false},
    {"blk.%.ffn_gate", "layers.%.linear1", MH_PART_GATE, false},
    {"blk.%.ffn_up", "layers.%.linear1", MH_PART_UP, false},
    {NULL, NULL, MH_PART_ALL, false},
};

const mh_tensor_rule mh_gguf_fused_rules[] = {
    ENDS,
    {"blk.%.attn_qkv", "layers.%.self_attn.in_proj", MH_PART_ALL, false},
    COMMON,
    NORMS_BEFORE,
    {"blk.%.ffn_up", "layers.%.linear1", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

const mh_tensor_rule mh_gguf_bert_rules[] = {
    ENDS,
    {"token_types", "type_embedding", MH_PART_ALL, false},
    {"token_embd_norm", "embedding_norm", MH_PART_ALL, false},
    SEPARATE,
    COMMON,
    {"blk.%.attn_output_norm", "layers.%.norm1", MH_PART_ALL, false},
    {"blk.%.layer_output_norm", "layers.%.norm2", MH_PART_ALL, false},
    {"blk.%.ffn_up", "layers.%.linear1", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

void mh_gguf_names(const mh_tensor_file *file, mh_family *family, bool *permuted)
{
    static const char *const prefixes[] = {"", NULL};
    static const char *const ignored[] = {"rope_freqs.weight", NULL};
    const mh_gguf_architecture *architecture = mh_gguf_architecture_of(file);
    family->prefixes = prefixes;
    family->ignored = ignored;
    family->rules = architecture->rules;
    *permuted = architecture->permuted;
}
