// SPDX-License-Identifier: MIT
// The feed-forward network: down(activation(up(u))), or gated, down(activation(gate) * up), where
// one product computes gate and up as the two halves of `before`.
#include "base/compiler.h"
#include "nn/block_internal.h"
#include <multihead/ops.h>

// The columns of `before`.
static size_t up_width(const mh_block *block)
{
    return block->config.gated ? 2 * block->config.dim_feedforward : block->config.dim_feedforward;
}

// The dtype of hidden's gradient: f32 if an activation other than ReLU still changes it.
static mh_dtype dhidden_dtype(const mh_block *block, const mh_pass *pass)
{
    return block->config.activation == MH_RELU && !block->config.gated ? pass->operands : MH_F32;
}

void mh_feed_forward_layout(const mh_block *block, const mh_pass *pass, bool keep, mh_arena *arena,
                            mh_block_saved *saved)
{
    const mh_block_config *c = &block->config;
    const size_t rows = mh_batch_rows(&pass->rows);
    if (c->gated || (keep && c->activation != MH_RELU))
        saved->before = mh_arena_take(arena, rows * up_width(block), sizeof(float));
    saved->hidden = mh_arena_take(arena, rows * c->dim_feedforward, mh_dtype_size(pass->operands));
}

void mh_feed_forward_layout_backward(const mh_block *block, const mh_pass *pass, mh_arena *arena,
                                     mh_block_scratch *scratch)
{
    const size_t rows = mh_batch_rows(&pass->rows);
    scratch->dhidden = mh_arena_take(arena, rows * block->config.dim_feedforward,
                                     mh_dtype_size(dhidden_dtype(block, pass)));
    if (block->config.gated)
        scratch->dbefore =
            mh_arena_take(arena, rows * up_width(block), mh_dtype_size(pass->operands));
}

static mh_tensor half_of(const mh_tensor *pair, size_t which)
{
    const size_t F = pair->shape[1] / 2;
    return mh_tensor_slice(*pair, 1, which * F, F);
}

// hidden = dropout(activation(gate) * up)
static mh_status gate_hidden(mh_context *context, const mh_block *block, const mh_pass *pass,
                             const mh_dropout_options *dropout, const mh_tensor *u,
                             mh_tensor *before, mh_tensor *hidden)
{
    mh_tensor gate = half_of(before, 0), up = half_of(before, 1);
    MH_TRY(mh_affine_forward(context, &block->up, pass, NULL, u, before));
    MH_TRY(mh_glu(context, block->config.activation, &gate, &up, hidden));
    return dropout->probability > 0 ? mh_dropout(context, dropout, hidden, hidden) : MH_OK;
}

mh_status mh_feed_forward(mh_context *context, const mh_block *block, const mh_pass *pass,
                          const mh_tensor *u, const mh_dropout_options *dropout,
                          const mh_tensor *residual, const mh_block_saved *saved, mh_tensor *y)
{
    const mh_block_config *c = &block->config;
    const size_t rows = u->shape[0];
    mh_tensor hidden = mh_tensor_2d(saved->hidden, pass->operands, rows, c->dim_feedforward);
    mh_tensor before = mh_tensor_2d(saved->before, MH_F32, rows, up_width(block));
    const mh_dropout_options inside = mh_block_dropout(block, pass, MH_AT_HIDDEN);
    mh_linear_options up = mh_linear_options_default(), down = up;
    up.dropout = &inside;
    up.activation = &c->activation;
    up.preactivation = saved->before ? &before : NULL;
    down.dropout = dropout;
    down.residual = residual;
    if (c->gated)
        MH_TRY(gate_hidden(context, block, pass, &inside, u, &before, &hidden));
    else
        MH_TRY(mh_affine_forward(context, &block->up, pass, &up, u, &hidden));
    return mh_affine_forward(context, &block->down, pass, &down, &hidden, y);
}

static mh_status gated_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                const mh_dropout_options *dropout, const mh_tensor *u,
                                mh_tensor *before, mh_tensor *dhidden, void *dbefore, mh_tensor *du)
{
    const mh_tensor d = mh_tensor_2d(dbefore, pass->operands, u->shape[0], up_width(block));
    const mh_tensor gate = half_of(before, 0), up = half_of(before, 1);
    mh_tensor dgate = half_of(&d, 0), dup = half_of(&d, 1);
    if (dropout->probability > 0)
        MH_TRY(mh_dropout(context, dropout, dhidden, dhidden));
    MH_TRY(mh_glu_backward(context, block->config.activation, &gate, &up, dhidden, &dgate, &dup));
    return mh_affine_backward(context, &block->up, pass, NULL, NULL, u, &d, du);
}

mh_status mh_feed_forward_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                   const mh_tensor *u, const mh_block_saved *saved,
                                   const mh_block_scratch *scratch, const mh_tensor *dy,
                                   mh_tensor *du)
{
    const mh_block_config *c = &block->config;
    const size_t rows = u->shape[0], F = c->dim_feedforward;
    const mh_tensor hidden = mh_tensor_2d(saved->hidden, pass->operands, rows, F);
    mh_tensor before = mh_tensor_2d(saved->before, MH_F32, rows, up_width(block));
    mh_tensor dhidden = mh_tensor_2d(scratch->dhidden, dhidden_dtype(block, pass), rows, F);
    const mh_dropout_options dropout = mh_block_dropout(block, pass, MH_AT_HIDDEN);
    mh_linear_options down = mh_linear_options_default();
    const bool masked = !c->gated && !saved->before;
    if (!c->gated)
        down.dropout = &dropout;
    MH_TRY(mh_affine_backward(context, &block->down, pass, &down, masked ? &hidden : NULL, &hidden,
                              dy, &dhidden));
    if (c->gated)
        return gated_backward(context, block, pass, &dropout, u, &before, &dhidden,
                              scratch->dbefore, du);
    if (saved->before)
        MH_TRY(mh_activate_backward(context, c->activation, &before, &dhidden, &dhidden));
    return mh_affine_backward(context, &block->up, pass, NULL, NULL, u, &dhidden, du);
}
