// SPDX-License-Identifier: MIT
// A block's workspace and forward pass; block_backward.c has its backward.
#include "base/compiler.h"
#include "nn/block_internal.h"
#include "nn/block_layer.h"
#include "nn/taps.h"
#include <multihead/ops.h>

// ---- memory -------------------------------------------------------------------------------------

void mh_block_layout(const mh_block *block, const mh_pass *pass, bool keep, mh_arena *arena,
                     mh_block_saved *saved)
{
    const size_t rows = mh_batch_rows(&pass->rows), D = block->config.d_model;
    const bool both = block->config.order == MH_NORM_BOTH;
    const mh_tensor nothing = mh_tensor_2d(NULL, MH_F32, rows, D);
    *saved = (mh_block_saved){0};
    for (size_t i = 0; i < block->count; i++) {
        mh_attention_options options;
        const mh_attention_call a = mh_block_attention(block, pass, i, &nothing, &options);
        saved->inner[i] =
            mh_arena_take(arena, rows * D, mh_dtype_size(mh_inner_dtype(block, pass)));
        saved->out[i] = mh_arena_take(arena, rows * D, sizeof(float));
        saved->mean[i] = mh_arena_take(arena, rows, sizeof(float));
        saved->rstd[i] = mh_arena_take(arena, rows, sizeof(float));
        if (both) {
            saved->branch[i] = mh_arena_take(arena, rows * D, sizeof(float));
            saved->post_mean[i] = mh_arena_take(arena, rows, sizeof(float));
            saved->post_rstd[i] = mh_arena_take(arena, rows, sizeof(float));
        }
        if (block->kinds[i] == MH_SELF)
            mh_attention_layer_layout(&block->self, &a, keep, arena, &saved->self);
        else if (block->kinds[i] == MH_CROSS)
            mh_attention_layer_layout(&block->cross, &a, keep, arena, &saved->cross);
    }
    mh_feed_forward_layout(block, pass, keep, arena, saved);
}

// ---- sublayers ----------------------------------------------------------------------------------

static uint64_t seed_of(const mh_block *block, const mh_pass *pass, mh_dropout_site site)
{
    return mh_mix_seed(pass->seed, pass->step, block->index * 16 + (uint32_t)site);
}

mh_dropout_options mh_block_dropout(const mh_block *block, const mh_pass *pass,
                                    mh_dropout_site site)
{
    mh_dropout_options o = mh_dropout_options_default();
    o.probability = pass->training ? block->config.dropout : 0;
    o.seed = seed_of(block, pass, site);
    return o;
}

// The tap of this block's self- or cross-attention, or NULL.
static const mh_tap *find_tap(const mh_block *block, const mh_pass *pass, bool cross)
{
    const mh_tap_kind self = pass->decoder ? MH_TAP_DECODER : MH_TAP_ENCODER;
    for (size_t i = 0; i < pass->tap_count; i++)
        if (mh_tap_at(pass->taps, i)->layer == block->layer &&
            mh_tap_at(pass->taps, i)->kind == (cross ? MH_TAP_CROSS : self))
            return mh_tap_at(pass->taps, i);
    return NULL;
}

static const bool *heads_of(const bool *disabled, const mh_block *block)
{
    return disabled ? disabled + block->layer * block->config.num_heads : NULL;
}

mh_attention_call mh_block_attention(const mh_block *block, const mh_pass *pass, size_t i,
                                     const mh_tensor *x, mh_attention_options *options)
{
    const bool cross = block->kinds[i] == MH_CROSS;
    const mh_tap *tap = find_tap(block, pass, cross);
    mh_attention_call a = {.pass = pass,
                           .inputs = {*x, cross ? pass->memory : *x, cross ? pass->memory : *x},
                           .queries = pass->rows,
                           .keys = cross ? pass->memory_rows : pass->rows,
                           .mask = cross ? pass->memory_mask : pass->mask,
                           .padding_mask = cross ? pass->memory_padding : pass->padding,
                           .relative = cross ? NULL : pass->relative,
                           .attention = options,
                           .cross = cross,
                           .cache = pass->caches ? pass->caches[2 * block->layer + cross] : NULL,
                           .cached = cross && pass->caches,
                           .rope = pass->ropes ? &pass->ropes[block->rope] : NULL,
                           .seed = seed_of(block, pass, cross ? MH_AT_CROSS : MH_AT_SELF),
                           .tap = tap,
                           .disabled =
                               heads_of(cross ? pass->cross_disabled : pass->disabled, block)};
    if (tap && tap->weights.data) {
        a.weights = &tap->weights;
        a.weight_heads = tap->heads;
        a.weight_head_count = tap->head_count;
    }
    *options = mh_attention_options_default();
    if (!cross && pass->causal)
        options->causal = a.cache ? MH_CAUSAL_BOTTOM_RIGHT : MH_CAUSAL_TOP_LEFT;
    return a;
}

// y = residual + dropout(f(u)), in the epilogue of f's last product; residual NULL: none.
static mh_status run_branch(mh_context *context, const mh_block *block, const mh_pass *pass,
                            size_t i, const mh_tensor *u, const mh_tensor *residual,
                            mh_block_saved *saved, mh_tensor *y)
{
    const mh_sublayer kind = block->kinds[i];
    const mh_dropout_options dropout = mh_block_dropout(block, pass, mh_branch_site(kind));
    if (kind == MH_FEED_FORWARD)
        return mh_feed_forward(context, block, pass, u, &dropout, residual, saved, y);
    mh_attention_options options;
    mh_attention_call call = mh_block_attention(block, pass, i, u, &options);
    call.output_dropout = &dropout;
    call.residual = residual;
    return kind == MH_CROSS
               ? mh_attention_layer_forward(context, &block->cross, &call, &saved->cross, y)
               : mh_attention_layer_forward(context, &block->self, &call, &saved->self, y);
}

// out = x + f(norm(u)), norm(x + f(u)) or x + norm'(f(norm(u))); u is x, or a parallel block's
// input.
static mh_status run_sublayer(mh_context *context, const mh_block *block, const mh_pass *pass,
                              size_t i, const mh_tensor *x, const mh_tensor *u,
                              mh_block_saved *saved, mh_tensor *out)
{
    const mh_norm_layer *norm = &block->norms[i];
    const size_t rows = x->shape[0], D = x->shape[1];
    mh_tensor inner = mh_tensor_2d(saved->inner[i], mh_inner_dtype(block, pass), rows, D);
    float *mean = saved->mean[i], *rstd = saved->rstd[i];
    if (block->config.order == MH_NORM_AFTER) {
        MH_TRY(run_branch(context, block, pass, i, u, x, saved, &inner));
        return mh_norm_layer_forward(context, norm, pass, &inner, out, mean, rstd);
    }
    MH_TRY(mh_norm_layer_forward(context, norm, pass, u, &inner, mean, rstd));
    if (block->config.order == MH_NORM_BEFORE)
        return run_branch(context, block, pass, i, &inner, x, saved, out);
    mh_tensor branch = mh_tensor_2d(saved->branch[i], MH_F32, rows, D);
    MH_TRY(run_branch(context, block, pass, i, &inner, NULL, saved, &branch));
    MH_TRY(mh_norm_layer_forward(context, &block->posts[i], pass, &branch, out, saved->post_mean[i],
                                 saved->post_rstd[i]));
    return mh_add(context, x, out, out);
}

// What sublayer i read and made, for its tap.
static mh_status tap_sublayer(mh_context *context, const mh_block *block, const mh_pass *pass,
                              size_t i, const mh_tensor *u, const mh_block_saved *saved,
                              const mh_tensor *out)
{
    const mh_tap *tap = find_tap(block, pass, block->kinds[i] == MH_CROSS);
    if (!tap || block->kinds[i] == MH_FEED_FORWARD)
        return MH_OK;
    const mh_tensor inner =
        mh_tensor_2d(saved->inner[i], mh_inner_dtype(block, pass), u->shape[0], u->shape[1]);
    const mh_tensor *x = block->config.order == MH_NORM_AFTER ? u : &inner;
    MH_TRY(mh_tap_rows(context, pass, "tap.x", x, &tap->x));
    return mh_tap_rows(context, pass, "tap.sum", out, &tap->sum);
}

mh_status mh_block_forward(mh_context *context, const mh_block *block, const mh_pass *pass,
                           const mh_tensor *x, mh_block_saved *saved)
{
    mh_tensor stream = *x;
    for (size_t i = 0; i < block->count; i++) {
        mh_tensor out = mh_tensor_2d(saved->out[i], MH_F32, x->shape[0], x->shape[1]);
        const mh_tensor *u = block->config.parallel ? x : &stream;
        MH_TRY(run_sublayer(context, block, pass, i, &stream, u, saved, &out));
        if (pass->tap_count)
            MH_TRY(tap_sublayer(context, block, pass, i, u, saved, &out));
        stream = out;
    }
    const mh_tap *tap = find_tap(block, pass, false);
    return tap ? mh_tap_rows(context, pass, "tap.hidden", &stream, &tap->hidden) : MH_OK;
}
