// SPDX-License-Identifier: MIT
// A layer's backward pass: its sublayers from the last to the first. For each, dx is the gradient
// on the residual path, to which the branch's gradient is added.
//
//     norm_first:  dx += norm'(f'(dx))          else:  dx = norm'(dx);  dx += f'(dx)
#include "base/size_math.h"
#include "nn/layer_calls.h"

void mh_layer_layout_backward(const mh_layer *layer, const mh_layer_call *call, mh_arena *arena,
                              mh_layer_scratch *scratch)
{
    const size_t rows = mh_batch_rows(&call->rows), numbers = rows * layer->config->d_model;
    const mh_tensor nothing = mh_tensor_2d(NULL, MH_F32, rows, layer->config->d_model);
    const size_t hidden = rows * layer->config->dim_feedforward;
    scratch->dsum = mh_arena_take(arena, numbers, sizeof(float));
    scratch->dbranch = mh_arena_take(arena, numbers, mh_dtype_size(call->operands));
    scratch->dinput = mh_arena_take(arena, numbers, sizeof(float));
    scratch->dhidden = mh_arena_take(arena, hidden, mh_dtype_size(mh_dhidden_dtype(layer, call)));
    size_t most = 0;
    for (size_t i = 0; i < layer->count; i++) {
        if (layer->kinds[i] == MH_FEED_FORWARD)
            continue;
        const mh_attention_layer *attention =
            layer->kinds[i] == MH_CROSS ? &layer->cross : &layer->self;
        const mh_attention_call a = mh_layer_attention(layer, call, i, &nothing);
        mh_arena size = {0}, ignored = {0};
        mh_attention_saved saved;
        mh_attention_layer_layout(attention, &a, true, &ignored, &saved);
        mh_attention_layer_layout_backward(attention, &a, &size, &saved);
        arena->overflow |= size.overflow;
        most = mh_larger(most, size.used);
    }
    scratch->attention = (mh_arena){.base = mh_arena_take(arena, most, 1), .size = most};
}

static mh_status feed_forward_backward(mh_context *context, const mh_layer *layer,
                                       const float *parameters, const mh_layer_call *call,
                                       const mh_tensor *u, const mh_layer_saved *saved,
                                       const mh_layer_scratch *scratch, const mh_tensor *dy,
                                       float *gradients, mh_tensor *du)
{
    const size_t rows = u->shape[0], F = layer->config->dim_feedforward;
    const mh_tensor hidden = mh_tensor_2d(saved->hidden, call->operands, rows, F);
    const mh_tensor before = mh_tensor_2d(saved->before, MH_F32, rows, F);
    mh_tensor dhidden = mh_tensor_2d(scratch->dhidden, mh_dhidden_dtype(layer, call), rows, F);
    const mh_dropout_options dropout = mh_layer_dropout(layer, call, MH_AT_HIDDEN);
    mh_linear_options last = mh_linear_options_default();
    last.dropout = &dropout;
    last.relu_output = saved->before ? NULL : &hidden;
    mh_status status = mh_affine_backward(context, &layer->linear2, parameters, &last, &hidden, dy,
                                          gradients, call->fresh, &dhidden);
    if (!status && saved->before)
        status =
            mh_activate_backward(context, layer->config->activation, &before, &dhidden, &dhidden);
    if (!status)
        status = mh_affine_backward(context, &layer->linear1, parameters, NULL, u, &dhidden,
                                    gradients, call->fresh, du);
    return status;
}

static mh_status attention_backward(mh_context *context, const mh_layer *layer,
                                    const float *parameters, const mh_layer_call *call, size_t i,
                                    const mh_tensor *u, mh_layer_saved *saved,
                                    const mh_layer_scratch *scratch, const mh_tensor *dy,
                                    float *gradients, const mh_tensor *du, float *dmemory)
{
    const bool cross = layer->kinds[i] == MH_CROSS;
    const mh_attention_layer *attention = cross ? &layer->cross : &layer->self;
    mh_attention_saved *kept = cross ? &saved->cross : &saved->self;
    mh_attention_call a = mh_layer_attention(layer, call, i, u);
    mh_attention_options options = mh_attention_options_default();
    if (!cross && call->causal)
        options.causal = MH_CAUSAL_TOP_LEFT;
    a.attention = &options;
    a.weights = NULL;
    mh_arena arena = {.base = scratch->attention.base, .size = scratch->attention.size};
    mh_attention_layer_layout_backward(attention, &a, &arena, kept);
    mh_tensor dinputs[3] = {*du, {.data = NULL}, {.data = NULL}};
    if (cross && dmemory)
        dinputs[1] = mh_tensor_2d(dmemory, MH_F32, call->memory.shape[0], layer->config->d_model);
    return mh_attention_layer_backward(context, attention, parameters, &a, kept, dy, gradients,
                                       dinputs, cross);
}

mh_status mh_norm_backward(mh_context *context, const mh_transformer_config *config,
                           const float *parameters, ptrdiff_t weight, ptrdiff_t bias,
                           const mh_tensor *x, const float *mean, const float *rstd,
                           const mh_tensor *dy, float *gradients, bool fresh, mh_tensor *dx)
{
    const size_t D = config->d_model, rows = x->shape[0];
    const mh_tensor w = mh_tensor_1d((float *)parameters + weight, MH_F32, D);
    const mh_tensor means = mh_tensor_1d((float *)mean, MH_F32, rows);
    const mh_tensor rstds = mh_tensor_1d((float *)rstd, MH_F32, rows);
    const bool biased = gradients && bias != MH_NO_PARAMETER;
    mh_tensor dw = mh_tensor_1d(gradients ? gradients + weight : NULL, MH_F32, D);
    mh_tensor db = mh_tensor_1d(biased ? gradients + bias : NULL, MH_F32, D);
    return mh_layer_norm_backward(context, x, &w, &means, &rstds, dy, dx, gradients ? &dw : NULL,
                                  biased ? &db : NULL, !fresh);
}

// du = f'(dsum), through the branch's dropout.
static mh_status branch_backward(mh_context *context, const mh_layer *layer,
                                 const float *parameters, const mh_layer_call *call, size_t i,
                                 const mh_tensor *u, mh_layer_saved *saved,
                                 const mh_layer_scratch *scratch, const mh_tensor *dsum,
                                 float *gradients, mh_tensor *du, float *dmemory)
{
    mh_tensor dbranch = *dsum;
    mh_status status = MH_OK;
    if (mh_layer_drops(layer, call)) {
        dbranch = mh_tensor_2d(scratch->dbranch, call->operands, u->shape[0], u->shape[1]);
        const mh_dropout_options o =
            mh_layer_dropout(layer, call, mh_branch_place(layer->kinds[i]));
        status = mh_dropout(context, &o, dsum, &dbranch);
    }
    if (status)
        return status;
    if (layer->kinds[i] == MH_FEED_FORWARD)
        return feed_forward_backward(context, layer, parameters, call, u, saved, scratch, &dbranch,
                                     gradients, du);
    return attention_backward(context, layer, parameters, call, i, u, saved, scratch, &dbranch,
                              gradients, du, dmemory);
}

mh_status mh_layer_backward(mh_context *context, const mh_layer *layer, const float *parameters,
                            const mh_layer_call *call, const mh_tensor *x, mh_layer_saved *saved,
                            mh_layer_scratch *scratch, float *gradients, float *dx, float *dmemory)
{
    const mh_transformer_config *c = layer->config;
    const size_t rows = x->shape[0], D = c->d_model;
    mh_tensor dstream = mh_tensor_2d(dx, MH_F32, rows, D);
    mh_tensor dsum = mh_tensor_2d(scratch->dsum, MH_F32, rows, D);
    mh_tensor du = mh_tensor_2d(scratch->dinput, MH_F32, rows, D);
    mh_status status = MH_OK;
    for (size_t i = layer->count; i-- > 0 && !status;) {
        const mh_tensor input = i ? mh_tensor_2d(saved->out[i - 1], MH_F32, rows, D) : *x;
        const mh_tensor inner = mh_tensor_2d(saved->inner[i], mh_inner_dtype(layer, call), rows, D);
        const mh_tensor *branch = c->norm_first ? &dstream : &dsum;
        if (!c->norm_first)
            status = mh_norm_backward(context, c, parameters, layer->norms[i],
                                      layer->norm_biases[i], &inner, saved->mean[i], saved->rstd[i],
                                      &dstream, gradients, call->fresh, &dsum);
        if (!status)
            status = branch_backward(context, layer, parameters, call, i,
                                     c->norm_first ? &inner : &input, saved, scratch, branch,
                                     gradients, &du, dmemory);
        if (!status && c->norm_first)
            status = mh_norm_backward(context, c, parameters, layer->norms[i],
                                      layer->norm_biases[i], &input, saved->mean[i], saved->rstd[i],
                                      &du, gradients, call->fresh, &du);
        if (!status)
            status = mh_add(context, branch, &du, &dstream);
    }
    return status;
}
