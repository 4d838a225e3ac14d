// SPDX-License-Identifier: MIT
// What attention_layer*.c share.
#ifndef MH_NN_ATTENTION_LAYER_RUN_H
#define MH_NN_ATTENTION_LAYER_RUN_H

#include "nn/attention_layer.h"

// Rows of `width` floats seen as heads (B, heads, T, E); packed: (1, heads, rows, E).
mh_tensor mh_heads_view(const mh_batch *batch, float *rows, size_t width, size_t heads,
                        size_t head_step, size_t E);

// Heads of q (which 0), k (1) or v (2), in the projections' results or in their gradients.
mh_tensor mh_attention_layer_heads(const mh_attention_layer *layer, const mh_attention_call *call,
                                   const mh_attention_saved *saved, int which, bool gradient);

enum { MH_LAYER_MASKS = MH_OWN_MASKS + 2 };

// Puts all masks of a call, made wider by the further keys where there are some, into `masks`, and
// those into `options`, whose own masks come first. With further keys the causal rule and the
// window become a mask too.
mh_status mh_attention_layer_masks(mh_context *context, const mh_attention_layer *layer,
                                   const mh_attention_call *call, const mh_attention_saved *saved,
                                   mh_mask masks[MH_LAYER_MASKS], mh_attention_options *options);

// Keys that every query sees besides those given: 0, 1 or 2.
size_t mh_attention_layer_extra(const mh_attention_layer *layer);

#endif
