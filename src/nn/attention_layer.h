// SPDX-License-Identifier: MIT
// Multi-head attention inside the modules: everything is a matrix of rows (tokens) here, and a
// batch maps rows to sequences. A projection computes some of q, k, v from the rows of one input;
// one projection computes all three if query, key and value are the same.
//
//     rows (T*B, D) -- in_proj --> q | k | v -- heads are views (B, H, T, E) -- [norm] [rotate] --+
//                                                                                                 |
//     rows (T*B, D) <-- out_proj --- heads (T*B, H*Ev) <----------- attention --------------------+
#ifndef MH_NN_ATTENTION_LAYER_H
#define MH_NN_ATTENTION_LAYER_H

#include "base/arena.h"
#include "nn/affine.h"

// A module's attention: its sizes, and the offsets of its parameters.
typedef struct mh_attention_layer {
    mh_mha_config config;    // complete: defaults are filled in
    mh_rope_scaling scaling; // where config.rope_scaling is not NULL
    size_t E, Ev;            // widths of a head
    size_t q, k, v;          // and of all heads: H E, G E, G Ev
    bool fused;              // one matrix for q, k and v
    bool out_bias;           // in a block independent of config.bias
    ptrdiff_t in_weight;     // or q_weight
    ptrdiff_t k_weight, v_weight, in_bias, bias_k, bias_v, sinks, q_norm, k_norm;
    mh_affine out;
    size_t in_slot, q_slot, kv_slot; // of packed matrices
} mh_attention_layer;

// Checks a config and completes it.
mh_status mh_attention_layer_check(mh_context *context, const mh_mha_config *config,
                                   mh_attention_layer *layer);
void mh_attention_layer_declare(mh_parameter_list *list, const char *prefix, bool xavier,
                                mh_attention_layer *layer);

// The frequencies (width/2) of a layer's rotary embedding, by its scaling rule; returns the factor
// of cosines and sines.
float mh_rope_frequencies(const mh_attention_layer *layer, double *frequencies);

// y (rows, width) = x W^T + b for the rows of a matrix from `weight` on.
typedef struct mh_projection {
    int input; // 0 query, 1 key, 2 value
    mh_affine map;
    size_t width; // columns of y
    float *y;     // (rows, width)
    void *dy;     // the same, of pass->operands
} mh_projection;

// Activations saved by a forward pass.
typedef struct mh_attention_saved {
    mh_projection projections[3];
    size_t projection_count;
    float *normed_q, *normed_k; // (rows, H E), (rows, G E): after qk_norm, or NULL
    float *rstd_q, *rstd_k;     // (rows, H), (rows, G)
    mh_tensor q, k,
        v; // heads (B, H, T, E), (B, G, S', E), (B, G, S', Ev): views of the above, or of
    float *extra_keys, *extra_values; // (B, G, S', E), where there are extra keys
    float *heads;                     // (rows, H Ev)
    float *lse;                       // (B, H, T), packed (1, H, rows)
    float *dheads;                    // (rows, H Ev); from here on: for backward
    float *dextra_keys, *dextra_values;
    float *dsinks;                     // (H)
    float *drelative;                  // (H, T, S)
    uint8_t *wide_padding, *wide_mask; // masks, widened by the extra keys
    uint8_t *wide_rule;                // and the causal rule and the window as a mask (T, S')
} mh_attention_saved;

enum { MH_OWN_MASKS = 5 }; // in options; the module's three are added

// One attention of a pass.
typedef struct mh_attention_call {
    const mh_pass *pass;
    mh_tensor inputs[3];                   // query, key, value: (rows, width), any float dtype
    mh_batch queries, keys;                // key and value have the same
    const mh_tensor *padding_mask;         // (B, S) or NULL
    const mh_tensor *mask;                 // (T, S), (B * H, T, S) or NULL
    const mh_tensor *relative;             // (1, H, T, S) f32, added, or NULL
    const mh_attention_options *attention; // at most MH_OWN_MASKS masks, or NULL
    bool cross; // key and value are another input than query, whatever their addresses
    mh_kv_cache *cache;
    bool cached; // the cache has all keys and values already: only queries are projected
    int64_t first;
    const mh_rope_table *rope; // cosines and sines, or NULL: computed from `first`
    uint64_t seed;
    const mh_tensor *weights;   // (B, H, T, S') or (B, 1, T, S'), or NULL
    bool average, dropped;      // of these
    const size_t *weight_heads; // NULL: all
    size_t weight_head_count;
    const mh_tap *tap;                        // for its q, k, v and out, or NULL
    const bool *disabled;                     // (H): disabled heads, or NULL
    const mh_dropout_options *output_dropout; // of the output, or NULL
    const mh_tensor *residual;                // added to the output after that, or NULL
} mh_attention_call;

// Whether the call has a positional masking rule: causal or a window.
bool mh_attention_call_has_rule(const mh_attention_call *call);

// Whether they are the same view of the same data.
bool mh_same_rows(const mh_tensor *a, const mh_tensor *b);

// Plans and lays out a call's workspace (with `keep`: for a backward pass later); see base/arena.h.
// Then the workspace of its backward, which layers may share, as nothing in it is kept.
void mh_attention_layer_layout(const mh_attention_layer *layer, const mh_attention_call *call,
                               bool keep, mh_arena *arena, mh_attention_saved *saved);
void mh_attention_layer_layout_backward(const mh_attention_layer *layer,
                                        const mh_attention_call *call, mh_arena *arena,
                                        mh_attention_saved *saved);

// output (rows, D) = residual + dropout(attention).
mh_status mh_attention_layer_forward(mh_context *context, const mh_attention_layer *layer,
                                     const mh_attention_call *call, mh_attention_saved *saved,
                                     mh_tensor *output);

// Projects keys and values of the call's key rows and appends them to call->cache, the first
// counts[b] of sequence b: the memory's, once, before decoding.
mh_status mh_attention_layer_fill_cache(mh_context *context, const mh_attention_layer *layer,
                                        const mh_attention_call *call, const int64_t *counts,
                                        mh_attention_saved *saved);

// The gradients from doutput (rows, D): parameters' go to the pass, which may overwrite except with
// interleaved matrices and extra keys; those of the inputs are written to dinputs[i] (data NULL:
// not wanted), or, with add_to_keys, those of key and value are added; equal inputs share the first
// one's.
mh_status mh_attention_layer_backward(mh_context *context, const mh_attention_layer *layer,
                                      const mh_attention_call *call,
                                      const mh_attention_saved *saved, const mh_tensor *doutput,
                                      mh_tensor dinputs[3], bool add_to_keys);

// A seed for dropout number `stream` of step `step`.
uint64_t mh_mix_seed(uint64_t seed, uint32_t step, uint32_t stream);

#endif
