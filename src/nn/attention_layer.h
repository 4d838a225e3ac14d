// SPDX-License-Identifier: MIT
// Multi-head attention inside the modules: everything is a matrix of rows (tokens) here, and a
// batch maps rows to sequences. A projection computes some of q, k, v from the rows of one input;
// one projection computes all three if query, key and value are the same.
//
//     rows (T*B, D) -- in_proj --> q | k | v --- heads are views (B, H, T, E) ---> attention
//                                                                                     |
//     rows (T*B, D) <-- out_proj --- heads (T*B, H*E) <-------------------------------+
#ifndef MH_NN_ATTENTION_LAYER_H
#define MH_NN_ATTENTION_LAYER_H

#include "base/arena.h"
#include "nn/affine.h"
#include "nn/packed_weights.h"

// Which rows of a matrix are token t of sequence b: row b * batch_step + t * token_step; or, if
// starts is not NULL, row starts[b] + t.
typedef struct mh_batch {
    size_t sequences, length; // B, T; packed: sequences, rows in all
    size_t batch_step, token_step;
    const int64_t *starts;
} mh_batch;

size_t mh_batch_rows(const mh_batch *batch);

// A module's attention: its sizes, and the offsets of its parameters.
typedef struct mh_attention_layer {
    mh_mha_config config; // complete: defaults are filled in
    size_t E;             // width of a head
    bool fused;           // one matrix for q, k and v
    ptrdiff_t in_weight;  // or q_weight
    ptrdiff_t k_weight, v_weight, in_bias, bias_k, bias_v, sinks;
    mh_affine out;
} mh_attention_layer;

// Checks a config and completes it.
mh_status mh_attention_layer_check(mh_context *context, const mh_mha_config *config,
                                   mh_attention_layer *layer);
void mh_attention_layer_declare(mh_parameter_list *list, const char *prefix, bool xavier,
                                mh_attention_layer *layer);

// y (rows, width) = x W^T + b for the rows of a matrix from `weight` on.
typedef struct mh_projection {
    int input; // 0 query, 1 key, 2 value
    mh_affine map;
    size_t width; // columns of y
    float *y;     // (rows, width)
    void *dy;     // the same, of call->operands
} mh_projection;

// Activations saved by a forward pass.
typedef struct mh_attention_saved {
    mh_projection projections[3];
    size_t projection_count;
    mh_tensor q, k, v; // heads (B, H, T, E), (B, G, S', E) twice: views of the projections, or of
    float *extra_keys, *extra_values; // (B, G, S', E), where there are extra keys
    float *heads;                     // (rows, H E)
    float *lse;                       // (B, H, T), packed (1, H, rows)
    float *dheads;                    // (rows, H E); from here on: for backward
    float *dextra_keys, *dextra_values;
    float *dsinks;                     // (H)
    uint8_t *wide_padding, *wide_mask; // masks, widened by the extra keys
    uint8_t *wide_rule;                // and the causal rule and the window as a mask (T, S')
} mh_attention_saved;

enum { MH_OWN_MASKS = 6 }; // in options; the module's two are added

// One call.
typedef struct mh_attention_call {
    mh_tensor inputs[3];                   // query, key, value: (rows, width), any float dtype
    mh_batch queries, keys;                // key and value have the same
    const mh_tensor *padding_mask;         // (B, S) or NULL
    const mh_tensor *mask;                 // (T, S), (B * H, T, S) or NULL
    const mh_attention_options *attention; // at most MH_OWN_MASKS masks, or NULL
    mh_kv_cache *cache;
    bool cached; // the cache has all keys and values already: only queries are projected
    int64_t first;
    mh_dtype operands; // of values that are only operands of products
    bool training;
    uint64_t seed;
    bool fresh;                 // backward writes the parameters' gradients, else it adds to them
    const mh_tensor *weights;   // (B, H, T, S') or (B, 1, T, S'), or NULL
    bool average, dropped;      // of these
    const size_t *weight_heads; // NULL: all
    size_t weight_head_count;
    const mh_tap *tap;                        // for its q, k, v and out, or NULL
    const bool *disabled;                     // (H): disabled heads, or NULL
    const mh_dropout_options *output_dropout; // of the output, or NULL
    const mh_tensor *residual;                // added to the output after that, or NULL
    const mh_packed_weights *packed;          // or NULL
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
                                     const float *parameters, const mh_attention_call *call,
                                     mh_attention_saved *saved, mh_tensor *output);

// The gradients from doutput (rows, D): parameters' are added to `gradients` (or NULL), or written
// there if call->fresh, which is not supported with interleaved matrices and extra keys; those of
// the inputs are written to dinputs[i] (data NULL: not wanted), or, with add_to_keys, those of key
// and value are added; equal inputs share the first one's.
mh_status mh_attention_layer_backward(mh_context *context, const mh_attention_layer *layer,
                                      const float *parameters, const mh_attention_call *call,
                                      const mh_attention_saved *saved, const mh_tensor *doutput,
                                      float *gradients, mh_tensor dinputs[3], bool add_to_keys);

// A seed for dropout number `stream` of step `step`.
uint64_t mh_mix_seed(uint64_t seed, uint32_t step, uint32_t stream);

#endif
