// SPDX-License-Identifier: MIT
// A block's backward pass: its sublayers from the last to the first. For each, dx is the gradient
// on the residual path, to which the branch's gradient is added.
//
//     before:  dx += norm'(f'(dx))          after:  dx = norm'(dx);  dx += f'(dx)
//     both:    dx += norm'(f'(post'(dx)))
#include "base/compiler.h"
#include "base/size_math.h"
#include "nn/block_internal.h"
#include <multihead/ops.h>

void mh_block_layout_backward(const mh_block *block, const mh_pass *pass, mh_arena *arena,
                              mh_block_scratch *scratch)
{
    const size_t rows = mh_batch_rows(&pass->rows), elements = rows * block->config.d_model;
    const mh_tensor nothing = mh_tensor_2d(NULL, MH_F32, rows, block->config.d_model);
    scratch->dsum = mh_arena_take(arena, elements, sizeof(float));
    scratch->dbranch = mh_arena_take(arena, elements, mh_dtype_size(pass->operands));
    scratch->dinput = mh_arena_take(arena, elements, sizeof(float));
    if (block->config.parallel)
        scratch->dresidual = mh_arena_take(arena, elements, sizeof(float));
    mh_feed_forward_layout_backward(block, pass, arena, scratch);
    size_t most = 0;
    for (size_t i = 0; i < block->count; i++) {
        if (block->kinds[i] == MH_FEED_FORWARD)
            continue;
        mh_attention_options options;
        const mh_attention_layer *layer =
            block->kinds[i] == MH_CROSS ? &block->cross : &block->self;
        const mh_attention_call call = mh_block_attention(block, pass, i, &nothing, &options);
        mh_arena size = {0}, ignored = {0};
        mh_attention_saved saved;
        mh_attention_layer_layout(layer, &call, true, &ignored, &saved);
        mh_attention_layer_layout_backward(layer, &call, &size, &saved);
        arena->overflow |= size.overflow;
        most = mh_larger(most, size.used);
    }
    scratch->attention = (mh_arena){.base = mh_arena_take(arena, most, 1), .size = most};
}

static mh_status attention_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                    size_t i, const mh_tensor *u, mh_block_saved *saved,
                                    const mh_block_scratch *scratch, const mh_tensor *dy,
                                    mh_tensor *du, float *dmemory)
{
    const bool cross = block->kinds[i] == MH_CROSS;
    const mh_attention_layer *layer = cross ? &block->cross : &block->self;
    mh_attention_saved *attention = cross ? &saved->cross : &saved->self;
    mh_attention_options options;
    mh_attention_call call = mh_block_attention(block, pass, i, u, &options);
    call.weights = NULL;
    mh_arena arena = {.base = scratch->attention.base, .size = scratch->attention.size};
    mh_attention_layer_layout_backward(layer, &call, &arena, attention);
    mh_tensor dinputs[3] = {*du, {.data = NULL}, {.data = NULL}};
    if (cross && dmemory)
        dinputs[1] = mh_tensor_2d(dmemory, MH_F32, pass->memory.shape[0], pass->memory.shape[1]);
    return mh_attention_layer_backward(context, layer, &call, attention, dy, dinputs, cross);
}

// du = f'(dsum), through the branch's dropout.
static mh_status branch_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                 size_t i, const mh_tensor *u, mh_block_saved *saved,
                                 const mh_block_scratch *scratch, mh_tensor *dsum, mh_tensor *du,
                                 float *dmemory)
{
    const mh_dropout_options dropout =
        mh_block_dropout(block, pass, mh_branch_site(block->kinds[i]));
    mh_tensor dbranch = *dsum;
    if (dropout.probability > 0) {
        dbranch = mh_tensor_2d(scratch->dbranch, pass->operands, u->shape[0], u->shape[1]);
        MH_TRY(mh_dropout(context, &dropout, dsum, &dbranch));
    }
    if (block->kinds[i] == MH_FEED_FORWARD)
        return mh_feed_forward_backward(context, block, pass, u, saved, scratch, &dbranch, du);
    return attention_backward(context, block, pass, i, u, saved, scratch, &dbranch, du, dmemory);
}

// dx, the gradient of sublayer i's output, becomes that of its residual input; what goes through
// the branch is added to `dbranch_input`, which is dx itself except in parallel blocks.
static mh_status sublayer_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                   size_t i, const mh_tensor *u, mh_block_saved *saved,
                                   const mh_block_scratch *scratch, mh_tensor *dx,
                                   mh_tensor *dbranch_input, float *dmemory)
{
    const size_t rows = u->shape[0], D = u->shape[1];
    const mh_norm_layer *norm = &block->norms[i];
    const mh_tensor inner = mh_tensor_2d(saved->inner[i], mh_inner_dtype(block, pass), rows, D);
    mh_tensor dsum = mh_tensor_2d(scratch->dsum, MH_F32, rows, D);
    mh_tensor du = mh_tensor_2d(scratch->dinput, MH_F32, rows, D);
    const float *mean = saved->mean[i], *rstd = saved->rstd[i];
    if (block->config.order == MH_NORM_AFTER) {
        MH_TRY(mh_norm_layer_backward(context, norm, pass, &inner, mean, rstd, dx, &dsum));
        MH_TRY(branch_backward(context, block, pass, i, u, saved, scratch, &dsum, &du, dmemory));
        return mh_add(context, &dsum, &du, dx);
    }
    mh_tensor *dbranch = dx;
    if (block->config.order == MH_NORM_BOTH) {
        const mh_tensor branch = mh_tensor_2d(saved->branch[i], MH_F32, rows, D);
        MH_TRY(mh_norm_layer_backward(context, &block->posts[i], pass, &branch, saved->post_mean[i],
                                      saved->post_rstd[i], dx, &dsum));
        dbranch = &dsum;
    }
    MH_TRY(branch_backward(context, block, pass, i, &inner, saved, scratch, dbranch, &du, dmemory));
    MH_TRY(mh_norm_layer_backward(context, norm, pass, u, mean, rstd, &du, &du));
    return mh_add(context, dbranch_input, &du, dbranch_input);
}

// All sublayers read x, and their sum with x is the output: dx + the gradients of all branches.
static mh_status parallel_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                                   const mh_tensor *x, mh_block_saved *saved,
                                   const mh_block_scratch *scratch, mh_tensor *dx)
{
    mh_tensor dout = mh_tensor_2d(scratch->dresidual, MH_F32, x->shape[0], x->shape[1]);
    MH_TRY(mh_tensor_copy(context, dx, &dout));
    for (size_t i = block->count; i-- > 0;)
        MH_TRY(sublayer_backward(context, block, pass, i, x, saved, scratch, &dout, dx, NULL));
    return MH_OK;
}

mh_status mh_block_backward(mh_context *context, const mh_block *block, const mh_pass *pass,
                            const mh_tensor *x, mh_block_saved *saved, mh_block_scratch *scratch,
                            float *dx, float *dmemory)
{
    const size_t rows = x->shape[0], D = x->shape[1];
    mh_tensor dstream = mh_tensor_2d(dx, MH_F32, rows, D);
    if (block->config.parallel)
        return parallel_backward(context, block, pass, x, saved, scratch, &dstream);
    for (size_t i = block->count; i-- > 0;) {
        const mh_tensor input = i ? mh_tensor_2d(saved->out[i - 1], MH_F32, rows, D) : *x;
        MH_TRY(sublayer_backward(context, block, pass, i, &input, saved, scratch, &dstream,
                                 &dstream, dmemory));
    }
    return MH_OK;
}
