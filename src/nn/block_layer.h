// SPDX-License-Identifier: MIT
// One Transformer block: two or three sublayers f, each in a residual connection with norms.
//
//     before:  out = x + f(norm(x))     after:  out = norm(x + f(x))
//     both:    out = x + norm'(f(norm(x)))
//
// f is self-attention, in decoders cross-attention, and the feed-forward network. All tensors are
// rows of d_model values; see attention_layer.h.
#ifndef MH_NN_BLOCK_LAYER_H
#define MH_NN_BLOCK_LAYER_H

#include "nn/attention_layer.h"
#include "nn/norm_layer.h"

enum { MH_MOST_SUBLAYERS = 3 };
typedef enum mh_sublayer { MH_SELF, MH_CROSS, MH_FEED_FORWARD } mh_sublayer;

typedef struct mh_block {
    mh_block_config config; // complete; its rope_scaling is in `self`
    uint32_t index;         // among all blocks, for dropout and packed weights
    size_t first;           // float of its parameters, of a trainable one
    size_t layer;           // in its stack
    size_t count;           // of sublayers
    mh_sublayer kinds[MH_MOST_SUBLAYERS];
    mh_attention_layer self, cross;
    mh_affine up, down;                                               // feed-forward
    mh_norm_layer norms[MH_MOST_SUBLAYERS], posts[MH_MOST_SUBLAYERS]; // posts: MH_NORM_BOTH
    size_t rope; // index of its table in mh_pass.ropes
} mh_block;

// Activations saved by a forward pass. For each sublayer `inner` is norm(x), or x + f(x) if the
// norm comes after.
typedef struct mh_block_saved {
    void *inner[MH_MOST_SUBLAYERS];                           // (rows, D)
    float *out[MH_MOST_SUBLAYERS];                            // (rows, D)
    float *mean[MH_MOST_SUBLAYERS], *rstd[MH_MOST_SUBLAYERS]; // (rows)
    float *branch[MH_MOST_SUBLAYERS];                         // (rows, D): f, MH_NORM_BOTH
    float *post_mean[MH_MOST_SUBLAYERS], *post_rstd[MH_MOST_SUBLAYERS];
    // (rows, F or 2 F): before the activation; and (rows, F) after it and dropout. ReLU needs no
    // `before`: its backward only needs the sign, which hidden has too, except for dropped
    // elements, whose gradient is 0 anyway.
    float *before;
    void *hidden;
    mh_attention_saved self, cross;
} mh_block_saved;

// Workspace of a backward pass, shared by all blocks.
typedef struct mh_block_scratch {
    float *dsum, *dinput; // (rows, D)
    float *dresidual;     // (rows, D): parallel blocks
    void *dbranch;        // (rows, D)
    void *dhidden;        // (rows, F)
    void *dbefore;        // (rows, 2 F), if gated
    mh_arena attention;   // workspace of attention's backward
} mh_block_scratch;

// Checks the config and completes it. Error: MH_ERROR_ARGUMENT.
mh_status mh_block_create(mh_context *context, const mh_block_config *config, uint32_t index,
                          size_t layer, mh_block *block);
void mh_block_declare(mh_parameter_list *list, const char *prefix, bool xavier, mh_block *block);

// The output is saved->out[block->count - 1], which is part of this layout.
void mh_block_layout(const mh_block *block, const mh_pass *pass, bool keep, mh_arena *arena,
                     mh_block_saved *saved);
void mh_block_layout_backward(const mh_block *block, const mh_pass *pass, mh_arena *arena,
                              mh_block_scratch *scratch);

mh_status mh_block_forward(mh_context *context, const mh_block *block, const mh_pass *pass,
                           const mh_tensor *x, mh_block_saved *saved);

// dx (rows, D) holds the gradient of the output and gets that of the input; dmemory (or NULL) is
// added to.
mh_status mh_block_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                            const mh_tensor *x, mh_block_saved *saved, mh_block_scratch *scratch,
                            float *dx, float *dmemory);

#endif
