// SPDX-License-Identifier: MIT
// What layer.c and layer_grad.c share.
#ifndef MH_NN_LAYER_CALLS_H
#define MH_NN_LAYER_CALLS_H

#include "nn/layer.h"
#include <math.h>
#include <multihead/ops.h>
#include <stdio.h>

// Where a layer drops numbers.
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

// What a forward pass of some rows has left behind.
static inline mh_tensor mh_layer_inner(const mh_layer *layer, const mh_layer_saved *saved,
                                       size_t rows, size_t i)
{
    const mh_dtype dtype = layer->config->norm_first ? saved->operands : MH_F32;
    return mh_tensor_2d(saved->inner[i], dtype, rows, layer->config->d_model);
}

static inline mh_tensor mh_layer_hidden(const mh_layer *layer, const mh_layer_saved *saved,
                                        size_t rows)
{
    return mh_tensor_2d(saved->hidden, saved->operands, rows, layer->config->dim_feedforward);
}

// Attention of sublayer i on x; without the engine's options and the residual.
mh_attention_call mh_layer_attention(const mh_layer *layer, const mh_layer_call *call, size_t i,
                                     const mh_tensor *x);

uint64_t mh_layer_seed(const mh_layer *layer, const mh_layer_call *call, mh_dropout_place place);

// How numbers are dropped there: with probability 0 if not in training.
mh_dropout_options mh_layer_dropout(const mh_layer *layer, const mh_layer_call *call,
                                    mh_dropout_place place);

#endif
