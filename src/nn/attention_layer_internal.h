// SPDX-License-Identifier: MIT
// Shared by attention_layer*.c.
#ifndef MH_NN_ATTENTION_LAYER_INTERNAL_H
#define MH_NN_ATTENTION_LAYER_INTERNAL_H

#include "nn/attention_layer.h"

// A view of rows of `width` floats as heads (B, heads, T, E); packed: (1, heads, rows, E).
mh_tensor mh_heads_view(const mh_batch *batch, float *rows, size_t width, size_t heads,
                        size_t head_step, size_t E);

// Heads of q (which 0), k (1) or v (2), in the projections' outputs or in their gradients.
mh_tensor mh_attention_layer_heads(const mh_attention_layer *layer, const mh_attention_call *call,
                                   const mh_attention_saved *saved, int which, bool gradient);

// The engine's options for a call, without its masks.
mh_attention_options mh_attention_layer_options(const mh_attention_layer *layer,
                                                const mh_attention_call *call);

// The lse output (B, H, T) of a call.
mh_tensor mh_attention_layer_lse(const mh_attention_layer *layer, const mh_attention_call *call,
                                 const mh_attention_saved *saved);

// Rotates x (B, heads, T, E) in place; `inverse` for gradients.
mh_status mh_attention_layer_rotate(mh_context *context, const mh_attention_layer *layer,
                                    const mh_attention_call *call, bool inverse, mh_tensor *x);

// Sets the columns of disabled heads to 0 in heads (rows, H Ev).
void mh_attention_layer_disable(const mh_attention_layer *layer, const mh_attention_call *call,
                                float *heads);

enum { MH_LAYER_MASKS = MH_OWN_MASKS + 3 };

// Collects all masks of a call in `masks`, widened by extra keys if there are any, and sets them in
// `options`, whose own masks come first and the relative bias last. With extra keys the causal rule
// and the window become a mask too.
mh_status mh_attention_layer_masks(mh_context *context, const mh_attention_layer *layer,
                                   const mh_attention_call *call, const mh_attention_saved *saved,
                                   mh_mask masks[MH_LAYER_MASKS], mh_attention_options *options);

// Extra keys, which every query attends to: 0, 1 or 2.
size_t mh_attention_layer_extra(const mh_attention_layer *layer);

#endif
