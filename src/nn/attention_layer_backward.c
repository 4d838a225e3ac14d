// SPDX-License-Identifier: MIT
// Multi-head attention, backward: the steps of attention_layer_forward.c in reverse order.
#include "base/compiler.h"
#include "nn/attention_layer_internal.h"
#include <multihead/ops.h>
#include <string.h>

// gradient += the gradients of learned rows that were appended; the others are copied to `heads`.
static mh_status split_rows(mh_context *context, const mh_tensor *wide, float *gradient,
                            mh_tensor *heads)
{
    const size_t S = heads->shape[2], G = heads->shape[1], E = heads->shape[3];
    const float *rows = wide->data;
    for (size_t n = 0; n < heads->shape[0] * G && gradient; n++)
        for (size_t e = 0; e < E; e++)
            gradient[n % G * E + e] += rows[(n * wide->shape[2] + S) * E + e];
    const mh_tensor part = mh_tensor_slice(*wide, 2, 0, S);
    return mh_tensor_copy(context, &part, heads);
}

// The gradients of q, k and v as attention read them, into the projections' gradients; `dk` and
// `dv` without the extra keys.
static mh_status attend_backward(mh_context *context, const mh_attention_layer *layer,
                                 const mh_attention_call *call, const mh_attention_saved *saved,
                                 mh_tensor *dq, mh_tensor *dk, mh_tensor *dv)
{
    const size_t H = layer->config.num_heads, E = layer->Ev;
    const bool extra = mh_attention_layer_extra(layer) > 0;
    float *gradients = call->pass->gradients;
    mh_mask masks[MH_LAYER_MASKS];
    mh_attention_options o = mh_attention_layer_options(layer, call);
    mh_tensor lse = mh_attention_layer_lse(layer, call, saved);
    mh_tensor out = mh_heads_view(&call->queries, saved->heads, H * E, H, E, E);
    mh_tensor dout = mh_heads_view(&call->queries, saved->dheads, H * E, H, E, E);
    mh_tensor wide_dk = saved->k, wide_dv = saved->v;
    wide_dk.data = saved->dextra_keys, wide_dv.data = saved->dextra_values;
    mh_tensor dsinks = mh_tensor_1d(saved->dsinks, MH_F32, H);
    const bool sinks = layer->sinks != MH_NO_PARAMETER && gradients;
    o.lse = &lse;
    o.weights = NULL;
    MH_TRY(mh_attention_layer_masks(context, layer, call, saved, masks, &o));
    mh_tensor *dmasks[MH_LAYER_MASKS] = {NULL};
    mh_tensor drelative;
    if (call->relative && call->pass->drelative) {
        drelative = mh_tensor_view(saved->drelative, MH_F32, 4, call->relative->shape);
        dmasks[o.mask_count - 1] = &drelative;
    }
    mh_attention_gradients g = mh_attention_gradients_default();
    g.dq = dq;
    g.dk = extra ? &wide_dk : dk;
    g.dv = extra ? &wide_dv : dv;
    g.dsinks = sinks ? &dsinks : NULL;
    g.dmasks = call->relative && call->pass->drelative ? dmasks : NULL;
    MH_TRY(mh_attention_backward(context, &o, &saved->q, &saved->k, &saved->v, &out, &dout, &g));
    for (size_t h = 0; h < H && sinks; h++) {
        float *gradient = &gradients[layer->sinks + (ptrdiff_t)h];
        *gradient = (call->pass->overwrite ? 0 : *gradient) + saved->dsinks[h];
    }
    for (size_t i = 0; g.dmasks && i < mh_tensor_count(call->relative); i++)
        call->pass->drelative[i] += saved->drelative[i];
    if (!extra)
        return MH_OK;
    const bool learned = layer->config.add_bias_kv && gradients;
    MH_TRY(split_rows(context, &wide_dk, learned ? gradients + layer->bias_k : NULL, dk));
    return split_rows(context, &wide_dv, learned ? gradients + layer->bias_v : NULL, dv);
}

// dx, the gradient of normalised heads, becomes that of the projection's heads x.
static mh_status norm_backward(mh_context *context, const mh_attention_layer *layer,
                               const mh_attention_call *call, ptrdiff_t weight, const mh_tensor *x,
                               float *rstd, mh_tensor *dx)
{
    float *gradients = call->pass->gradients;
    const mh_tensor w = mh_tensor_1d((float *)call->pass->values + weight, MH_F32, layer->E);
    mh_tensor dw = mh_tensor_1d(gradients ? gradients + weight : NULL, MH_F32, layer->E);
    const mh_tensor r = mh_tensor_3d(rstd, MH_F32, x->shape[0], x->shape[1], x->shape[2]);
    return mh_rms_norm_backward(context, x, &w, &r, dx, dx, gradients ? &dw : NULL,
                                !call->pass->overwrite);
}

// From dheads to the gradients of the projections' outputs.
static mh_status heads_backward(mh_context *context, const mh_attention_layer *layer,
                                const mh_attention_call *call, const mh_attention_saved *saved)
{
    mh_tensor dq = mh_attention_layer_heads(layer, call, saved, 0, true);
    mh_tensor dk = mh_attention_layer_heads(layer, call, saved, 1, true);
    mh_tensor dv = mh_attention_layer_heads(layer, call, saved, 2, true);
    MH_TRY(attend_backward(context, layer, call, saved, &dq, &dk, &dv));
    if (layer->config.rope) {
        MH_TRY(mh_attention_layer_rotate(context, layer, call, true, &dq));
        MH_TRY(mh_attention_layer_rotate(context, layer, call, true, &dk));
    }
    if (!layer->config.qk_norm)
        return MH_OK;
    const mh_tensor q = mh_attention_layer_heads(layer, call, saved, 0, false);
    const mh_tensor k = mh_attention_layer_heads(layer, call, saved, 1, false);
    MH_TRY(norm_backward(context, layer, call, layer->q_norm, &q, saved->rstd_q, &dq));
    return norm_backward(context, layer, call, layer->k_norm, &k, saved->rstd_k, &dk);
}

// The first input with the same rows.
static int first_like(const mh_attention_call *call, int input)
{
    int first = 0;
    while (!mh_same_rows(&call->inputs[first], &call->inputs[input]))
        first++;
    return first;
}

// Parts of the bias that the layer lacks stay 0.
static void clear_missing_bias(const mh_attention_layer *layer, float *gradients)
{
    const size_t sizes[3] = {layer->q, layer->k, layer->v};
    ptrdiff_t at = layer->in_bias;
    for (int i = 0; i < 3 && gradients && at != MH_NO_PARAMETER; at += (ptrdiff_t)sizes[i++])
        if (layer->config.missing_bias & 1u << i)
            memset(gradients + at, 0, sizes[i] * sizeof(float));
}

mh_status mh_attention_layer_backward(mh_context *context, const mh_attention_layer *layer,
                                      const mh_attention_call *call,
                                      const mh_attention_saved *saved, const mh_tensor *doutput,
                                      mh_tensor dinputs[3], bool add_to_keys)
{
    const size_t rows = mh_batch_rows(&call->queries);
    const size_t width = layer->config.num_heads * layer->Ev;
    const mh_tensor heads = mh_tensor_2d(saved->heads, MH_F32, rows, width);
    mh_tensor dheads = mh_tensor_2d(saved->dheads, MH_F32, rows, width);
    const mh_dtype operands = call->pass->operands;
    MH_TRY(
        mh_affine_backward(context, &layer->out, call->pass, NULL, NULL, &heads, doutput, &dheads));
    mh_attention_layer_disable(layer, call, saved->dheads);
    // Several inputs times one interleaved matrix: columns that are never written stay 0.
    const bool partial = saved->projection_count > 1 && layer->config.qkv == MH_QKV_INTERLEAVED;
    for (size_t i = 0; i < saved->projection_count && partial; i++) {
        const mh_projection *p = &saved->projections[i];
        memset(p->dy, 0, call->inputs[p->input].shape[0] * p->width * mh_dtype_size(operands));
    }
    MH_TRY(heads_backward(context, layer, call, saved));
    bool written[3] = {false, add_to_keys, add_to_keys};
    for (size_t i = 0; i < saved->projection_count; i++) {
        const mh_projection *p = &saved->projections[i];
        const mh_tensor *x = &call->inputs[p->input];
        const mh_tensor dy = mh_tensor_2d(p->dy, operands, x->shape[0], p->width);
        const int target = first_like(call, p->input);
        mh_linear_options o = mh_linear_options_default();
        o.accumulate = written[target];
        MH_TRY(
            mh_affine_backward(context, &p->map, call->pass, &o, NULL, x, &dy, &dinputs[target]));
        written[target] = true;
    }
    clear_missing_bias(layer, call->pass->gradients);
    return MH_OK;
}
