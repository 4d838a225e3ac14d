// SPDX-License-Identifier: MIT
// Shared by block*.c and feed_forward.c.
#ifndef MH_NN_BLOCK_INTERNAL_H
#define MH_NN_BLOCK_INTERNAL_H

#include "nn/block_layer.h"

// Where a block applies dropout; the values are part of its random streams.
typedef enum mh_dropout_site {
    MH_AT_SELF = 0,  // weights of self-attention
    MH_AT_CROSS = 1, // and of cross-attention
    MH_AT_SELF_OUTPUT = 2,
    MH_AT_CROSS_OUTPUT = 3,
    MH_AT_HIDDEN = 4,
    MH_AT_FEED_FORWARD_OUTPUT = 5,
} mh_dropout_site;

static inline mh_dropout_site mh_branch_site(mh_sublayer kind)
{
    return kind == MH_SELF    ? MH_AT_SELF_OUTPUT
           : kind == MH_CROSS ? MH_AT_CROSS_OUTPUT
                              : MH_AT_FEED_FORWARD_OUTPUT;
}

// The dropout options there: probability 0 if not in training.
mh_dropout_options mh_block_dropout(const mh_block *block, const mh_pass *pass,
                                    mh_dropout_site site);

// The dtype of mh_block_saved.inner: f32 if it is on the residual path rather than a norm.
static inline mh_dtype mh_inner_dtype(const mh_block *block, const mh_pass *pass)
{
    return block->config.order == MH_NORM_AFTER ? MH_F32 : pass->operands;
}

// Attention of sublayer i on x, without the residual; `options` receives its masking rules.
mh_attention_call mh_block_attention(const mh_block *block, const mh_pass *pass, size_t i,
                                     const mh_tensor *x, mh_attention_options *options);

// y = residual + dropout(down(activation(up(u)))), residual NULL: none.
void mh_feed_forward_layout(const mh_block *block, const mh_pass *pass, bool keep, mh_arena *arena,
                            mh_block_saved *saved);
void mh_feed_forward_layout_backward(const mh_block *block, const mh_pass *pass, mh_arena *arena,
                                     mh_block_scratch *scratch);
mh_status mh_feed_forward(mh_context *context, const mh_block *block, const mh_pass *pass,
                          const mh_tensor *u, const mh_dropout_options *dropout,
                          const mh_tensor *residual, const mh_block_saved *saved, mh_tensor *y);
mh_status mh_feed_forward_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                   const mh_tensor *u, const mh_block_saved *saved,
                                   const mh_block_scratch *scratch, const mh_tensor *dy,
                                   mh_tensor *du);

#endif
