// SPDX-License-Identifier: MIT
// Shared by layer.c and layer_grad.c.
#ifndef MH_NN_LAYER_CALLS_H
#define MH_NN_LAYER_CALLS_H

#include "nn/layer.h"
#include <math.h>
#include <multihead/ops.h>
#include <stdio.h>

// Where a layer applies dropout.
typedef enum mh_dropout_place {
    MH_AT_SELF,  // weights of self-attention
    MH_AT_CROSS, // and of cross-attention
    MH_AT_SELF_OUTPUT,
    MH_AT_CROSS_OUTPUT,
    MH_AT_HIDDEN,
    MH_AT_FEED_FORWARD_OUTPUT,
} mh_dropout_place;

static inline mh_dropout_place mh_branch_place(mh_sublayer kind)
{
    return kind == MH_SELF    ? MH_AT_SELF_OUTPUT
           : kind == MH_CROSS ? MH_AT_CROSS_OUTPUT
                              : MH_AT_FEED_FORWARD_OUTPUT;
}

static inline bool mh_layer_drops(const mh_layer *layer, const mh_layer_call *call)
{
    return call->training && layer->config->dropout > 0;
}

// The dtypes of mh_layer_saved's inner, f32 if it is on the residual path rather than a norm, and
// of the gradient of its hidden, f32 if an activation other than ReLU still changes it.
static inline mh_dtype mh_inner_dtype(const mh_layer *layer, const mh_layer_call *call)
{
    return layer->config->norm_first ? call->operands : MH_F32;
}
static inline mh_dtype mh_dhidden_dtype(const mh_layer *layer, const mh_layer_call *call)
{
    return layer->config->activation == MH_RELU ? call->operands : MH_F32;
}

// Attention of sublayer i on x; without the engine's options and the residual.
mh_attention_call mh_layer_attention(const mh_layer *layer, const mh_layer_call *call, size_t i,
                                     const mh_tensor *x);

// The dropout options there: probability 0 if not in training.
mh_dropout_options mh_layer_dropout(const mh_layer *layer, const mh_layer_call *call,
                                    mh_dropout_place place);

#endif
