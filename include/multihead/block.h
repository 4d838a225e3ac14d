// SPDX-License-Identifier: MIT
// multihead/block.h: the general Transformer block, of which BERT, GPT-2, Llama, T5, ViT and
// Whisper are settings, and Transformers made of such blocks.
//
//     before:  x + f(norm(x))                 GPT-2, Llama, ViT, Whisper
//     after:   norm(x + f(x))                 BERT, Marian, nn.Transformer
//     both:    x + norm'(f(norm(x)))          Gemma 2 and 3
//
// f is self-attention, then cross-attention in decoders, then the feed-forward network; a parallel
// block adds attention and feed-forward of the same input: x + attention(norm(x)) + ff(norm'(x)).
//
// A Transformer of blocks is an mh_transformer: forward, backward, taps, disabled heads and
// incremental decoding are those of nn.h. Its parameters have nn.Transformer's names, and
//
//     self_attn.q_norm.weight, self_attn.k_norm.weight   qk_norm
//     linear1.weight (2 F, D)                            gated: the gate's rows, then those of up
//     norm1_post.weight, ...                             MH_NORM_BOTH
//     relative_bias.weight (buckets, H)                  of the stack: encoder.relative_bias.weight
//
// Scaled branches (layer scale, residual multipliers) are folded into out_proj and linear2, and RMS
// weights stored as 1 + w into w, by whoever loads them.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_BLOCK_H
#define MULTIHEAD_BLOCK_H

#include <multihead/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mh_norm_kind {
    MH_NORM_LAYER = 0,
    MH_NORM_RMS = 1,
} mh_norm_kind;

typedef enum mh_norm_order {
    MH_NORM_AFTER = 0,  // norm(x + f(x))
    MH_NORM_BEFORE = 1, // x + f(norm(x))
    MH_NORM_BOTH = 2,   // x + norm'(f(norm(x)))
} mh_norm_order;

typedef struct mh_block_config {
    size_t struct_size;     // sizeof(mh_block_config)
    size_t d_model;         // D: no default
    mh_precision precision; // MH_PRECISION_F32: of all matrix products
    float dropout;          // 0; of attention weights, branches and the hidden layer, in training

    mh_norm_kind norm;   // MH_NORM_LAYER
    mh_norm_order order; // MH_NORM_AFTER
    float norm_eps;      // 1e-5
    bool norm_bias;      // true; layer norms only

    size_t num_heads;                    // H: no default
    size_t kv_heads;                     // G, 0: H
    size_t head_dim;                     // E, 0: D / H
    size_t value_dim;                    // Ev, 0: head_dim
    bool attention_bias;                 // true: of q, k and v
    unsigned missing_bias;               // 0; MH_BIAS_Q | MH_BIAS_K | MH_BIAS_V: those have none
    bool out_bias;                       // true
    bool qk_norm;                        // false; true: RMS norm of each head's q and k
    float scale;                         // MH_SCALE_DEFAULT: 1 / sqrt(E)
    float softcap;                       // 0: none
    int64_t window;                      // -1: none; else a query sees this many keys before it
    bool sinks;                          // false
    bool alibi;                          // false
    bool rope;                           // false
    bool rope_interleaved;               // false: pairs (x_i, x_{i+width/2})
    double rope_base;                    // 10000
    size_t rope_width;                   // 0: E; the rest of a head is not rotated
    const mh_rope_scaling *rope_scaling; // NULL: none
    size_t relative_buckets;     // 0: none; T5's relative position bias, of the stack's first block
    size_t relative_distance;    // 128: positions further apart share the last bucket
    bool relative_bidirectional; // false: keys after the query share bucket 0
    bool cross_attention;        // false; true: decoders

    size_t dim_feedforward;   // F: no default
    bool gated;               // false; true: activation(gate) * up
    mh_activation activation; // MH_RELU
    bool feed_forward_bias;   // true
    bool parallel;            // false; true: attention and feed-forward of the same input
} mh_block_config;

static inline mh_block_config mh_block_config_default(void)
{
    mh_block_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.precision = MH_PRECISION_F32;
    config.norm_eps = 1e-5f;
    config.norm_bias = config.attention_bias = config.out_bias = config.feed_forward_bias = true;
    config.scale = MH_SCALE_DEFAULT;
    config.window = -1;
    config.rope_base = 10000;
    config.relative_distance = 128;
    return config;
}

// A stack of blocks, all of the same d_model, heads and precision. Blocks may differ in everything
// else: windows and rotary bases per layer.
typedef struct mh_stack_config {
    size_t struct_size;                   // sizeof(mh_stack_config)
    size_t layers;                        // 0
    const mh_block_config *const *blocks; // (layers)
    bool final_norm;                      // true: with the last block's kind, epsilon and bias
} mh_stack_config;

static inline mh_stack_config mh_stack_config_default(void)
{
    mh_stack_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.final_norm = true;
    return config;
}

// A Transformer of an encoder, a decoder (whose blocks have cross-attention), or both; NULL for the
// other. A decoder-only model is an encoder whose calls are causal. Batch first. Parameters are
// layers.N.*, norm.*, or with both stacks encoder.layers.N.* ... as in nn.Transformer.
//
// `trainable` false: for inference. Matrices are then not among the parameters' values, which are
// vectors only; each is packed by mh_transformer_pack before the first call. Their entries in the
// parameters' list have offsets beyond `floats`.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_transformer_create_blocks(mh_context *context,
                                                            const mh_stack_config *encoder,
                                                            const mh_stack_config *decoder,
                                                            bool trainable,
                                                            mh_transformer **transformer);

// Packs a matrix of a Transformer for inference: `name` as in the parameters' list, `weight` of
// that shape and of any float dtype. The matrix of the context's level and the blocks' precision;
// it is not a view of `weight`. Not thread-safe; once all are packed, the Transformer is immutable.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_transformer_pack(mh_context *context, mh_transformer *transformer,
                                                   const char *name, const mh_tensor *weight);

// Bytes of the parameters' values and of the packed matrices.
MH_API size_t mh_transformer_bytes(const mh_transformer *transformer);

// The same if all its packed matrices were mh_packed_matrix_bytes_bf16.
MH_API size_t mh_transformer_bytes_bf16(const mh_context *context,
                                        const mh_transformer *transformer);

#ifdef __cplusplus
}
#endif
#endif
