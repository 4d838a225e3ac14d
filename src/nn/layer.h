// SPDX-License-Identifier: MIT
// One layer of an encoder or decoder: two or three sublayers, each in a residual connection with a
// norm, which comes before the sublayer (norm_first) or after the sum.
//
//     norm_first:  out = x + f(norm(x))           else:  out = norm(x + f(x))
//
// f is self-attention, in decoders cross-attention, and the feed-forward network
// linear2(activation(linear1(u))). All tensors are rows of d_model values; see attention_layer.h.
#ifndef MH_NN_LAYER_H
#define MH_NN_LAYER_H

#include "nn/attention_layer.h"

enum { MH_MOST_SUBLAYERS = 3 };
typedef enum mh_sublayer { MH_SELF, MH_CROSS, MH_FEED_FORWARD } mh_sublayer;

typedef struct mh_layer {
    const mh_transformer_config *config;
    uint32_t index; // among all layers, for dropout
    size_t count;   // of sublayers
    mh_sublayer kinds[MH_MOST_SUBLAYERS];
    mh_attention_layer self, cross;
    mh_affine linear1, linear2;
    ptrdiff_t norms[MH_MOST_SUBLAYERS], norm_biases[MH_MOST_SUBLAYERS];
} mh_layer;

// Activations saved by a forward pass. For each sublayer `inner` is norm(x) if norm_first, else
// x + f(x).
typedef struct mh_layer_saved {
    void *inner[MH_MOST_SUBLAYERS];                           // (rows, D)
    float *out[MH_MOST_SUBLAYERS];                            // (rows, D)
    float *mean[MH_MOST_SUBLAYERS], *rstd[MH_MOST_SUBLAYERS]; // (rows)
    // (rows, F): before the activation, and after it and dropout. ReLU needs no `before`: its
    // backward only needs the sign, which hidden has too, except for dropped elements, whose
    // gradient is 0 anyway.
    float *before;
    void *hidden;
    mh_attention_saved self, cross;
} mh_layer_saved;

// Workspace of a backward pass, shared by all layers.
typedef struct mh_layer_scratch {
    float *dsum, *dinput; // (rows, D)
    void *dbranch;        // (rows, D)
    void *dhidden;        // (rows, F)
    mh_arena attention;   // workspace of attention's backward
} mh_layer_scratch;

// One call.
typedef struct mh_layer_call {
    mh_dtype operands; // of values that are only operands of products; backward has its forward's
    mh_batch rows, memory_rows;
    mh_tensor memory; // (rows, D), for decoders
    const mh_tensor *mask, *padding, *memory_mask, *memory_padding;
    bool causal;
    mh_kv_cache *cache, *memory_cache; // for incremental decoding, or NULL
    bool training;
    uint64_t seed;
    uint32_t step;
    bool fresh;                            // gradients are written, not added to
    const mh_tap *tap, *cross_tap;         // or NULL
    const bool *disabled, *cross_disabled; // (H) or NULL
    const mh_packed_weights *packed;       // or NULL
} mh_layer_call;

// Checks the config's sizes through its attention.
mh_status mh_layer_create(mh_context *context, const mh_transformer_config *config, bool decoder,
                          uint32_t index, mh_layer *layer);
void mh_layer_declare(mh_parameter_list *list, const char *prefix, bool xavier, mh_layer *layer);

// The output is saved->out[layer->count - 1], which is part of this layout.
void mh_layer_layout(const mh_layer *layer, const mh_layer_call *call, bool keep, mh_arena *arena,
                     mh_layer_saved *saved);
void mh_layer_layout_backward(const mh_layer *layer, const mh_layer_call *call, mh_arena *arena,
                              mh_layer_scratch *scratch);

mh_status mh_layer_forward(mh_context *context, const mh_layer *layer, const float *parameters,
                           const mh_layer_call *call, const mh_tensor *x, mh_layer_saved *saved);

// dx (rows, D) holds the gradient of the output and gets that of the input; dmemory (or NULL) is
// added to.
mh_status mh_layer_backward(mh_context *context, const mh_layer *layer, const float *parameters,
                            const mh_layer_call *call, const mh_tensor *x, mh_layer_saved *saved,
                            mh_layer_scratch *scratch, float *gradients, float *dx, float *dmemory);

// A norm over rows of D: y = norm(x).
mh_status mh_norm_forward(mh_context *context, const mh_transformer_config *config,
                          const float *parameters, ptrdiff_t weight, ptrdiff_t bias,
                          const mh_tensor *x, mh_tensor *y, float *mean, float *rstd);
mh_status mh_norm_backward(mh_context *context, const mh_transformer_config *config,
                           const float *parameters, ptrdiff_t weight, ptrdiff_t bias,
                           const mh_tensor *x, const float *mean, const float *rstd,
                           const mh_tensor *dy, float *gradients, bool fresh, mh_tensor *dx);

#endif
