// SPDX-License-Identifier: MIT
// Multi-head attention, forward and backward: project, attend, merge heads, project.
#include "nn/attention_layer_run.h"
#include "nn/taps.h"
#include <multihead/ops.h>
#include <string.h>

// ---- the engine's options ----------------------------------------------------------------------

static mh_attention_options engine_options(const mh_attention_layer *layer, const float *parameters,
                                           const mh_attention_call *call)
{
    const mh_mha_config *c = &layer->config;
    mh_attention_options o = call->attention ? *call->attention : mh_attention_options_default();
    o.precision = c->precision;
    o.alibi = c->alibi;
    o.sinks = c->sinks ? parameters + layer->sinks : NULL;
    o.dropout = call->training ? c->dropout : 0;
    o.dropout_seed = call->seed;
    if (call->queries.starts) {
        o.sequences = call->queries.sequences;
        o.query_starts = call->queries.starts;
        o.key_starts = call->keys.starts;
    }
    if (call->weights) {
        o.weights_average = call->average;
        o.weights_dropped = call->dropped;
        o.weights_heads = call->weight_heads;
        o.weights_head_count = call->weight_head_count;
    }
    return o;
}

static mh_tensor lse_view(const mh_attention_layer *layer, const mh_attention_call *call,
                          const mh_attention_saved *saved)
{
    const mh_batch *b = &call->queries;
    return mh_tensor_3d(saved->lse, MH_F32, b->starts ? 1 : b->sequences, layer->config.num_heads,
                        b->length);
}

// ---- forward -----------------------------------------------------------------------------------

static mh_status project(mh_context *context, const float *parameters,
                         const mh_attention_call *call, const mh_attention_saved *saved)
{
    for (size_t i = 0; i < saved->projection_count; i++) {
        const mh_projection *p = &saved->projections[i];
        const mh_tensor *x = &call->inputs[p->input];
        mh_tensor y = mh_tensor_2d(p->y, MH_F32, x->shape[0], p->width);
        mh_linear_options o = mh_linear_options_default();
        o.packed = mh_packed_weight(context, call->packed, p->map.weight);
        mh_status status = mh_affine_forward(context, &p->map, parameters, &o, x, &y);
        if (status)
            return status;
    }
    return MH_OK;
}

static mh_status rotate(mh_context *context, const mh_attention_layer *layer, int64_t first,
                        bool inverse, mh_tensor *x)
{
    mh_rope_options o = mh_rope_options_default();
    o.interleaved = layer->config.rope_interleaved;
    o.base = layer->config.rope_base;
    o.first = first;
    o.inverse = inverse;
    return mh_rope(context, &o, x, x);
}

// Appends a learned row and one of zeros to each sequence's keys or values (B, G, S, E).
static mh_status append_rows(mh_context *context, const mh_attention_layer *layer,
                             const float *learned, float *memory, mh_tensor *heads)
{
    const size_t extra = mh_attention_layer_extra(layer), E = layer->E, S = heads->shape[2];
    const mh_tensor wide =
        mh_tensor_4d(memory, MH_F32, heads->shape[0], heads->shape[1], S + extra, E);
    mh_tensor part = mh_tensor_slice(wide, 2, 0, S);
    memset(memory, 0, mh_tensor_count(&wide) * sizeof(float));
    mh_status status = mh_tensor_copy(context, heads, &part);
    for (size_t n = 0; n < wide.shape[0] * wide.shape[1] && learned; n++)
        memcpy(memory + (n * (S + extra) + S) * E, learned + n % wide.shape[1] * E,
               E * sizeof(float));
    *heads = wide;
    return status;
}

static mh_status append_keys(mh_context *context, const mh_attention_layer *layer,
                             const float *parameters, mh_attention_saved *saved)
{
    const bool learned = layer->config.add_bias_kv;
    mh_status status = append_rows(context, layer, learned ? parameters + layer->bias_k : NULL,
                                   saved->extra_keys, &saved->k);
    if (!status)
        status = append_rows(context, layer, learned ? parameters + layer->bias_v : NULL,
                             saved->extra_values, &saved->v);
    return status;
}

static void switch_off(const mh_attention_layer *layer, const mh_attention_call *call, float *heads)
{
    const size_t H = layer->config.num_heads, E = layer->E;
    for (size_t h = 0; h < H && call->disabled; h++)
        for (size_t r = 0; r < mh_batch_rows(&call->queries) && call->disabled[h]; r++)
            memset(heads + (r * H + h) * E, 0, E * sizeof(float));
}

static mh_status attend(mh_context *context, const mh_attention_layer *layer,
                        const float *parameters, const mh_attention_call *call,
                        mh_attention_saved *saved)
{
    const size_t H = layer->config.num_heads, E = layer->E;
    mh_mask masks[MH_LAYER_MASKS];
    mh_attention_options o = engine_options(layer, parameters, call);
    mh_tensor out = mh_heads_view(&call->queries, saved->heads, H * E, H, E, E);
    mh_tensor lse = lse_view(layer, call, saved), weights;
    mh_status status = mh_attention_layer_masks(context, layer, call, saved, masks, &o);
    if (status)
        return status;
    if (call->weights) {
        weights = *call->weights;
        o.weights = &weights;
    }
    if (saved->lse)
        o.lse = &lse;
    if (!call->cache) {
        mh_tensor *wanted = saved->lse && call->attention ? call->attention->lse : NULL;
        status = mh_attention_forward(context, &o, &saved->q, &saved->k, &saved->v, &out);
        return status || !wanted ? status : mh_tensor_copy(context, &lse, wanted);
    }
    if (!call->cached)
        status = mh_kv_cache_append(context, call->cache, NULL, &saved->k, &saved->v);
    return status ? status : mh_attention_cached(context, &o, &saved->q, call->cache, &out);
}

static mh_status merge_heads(mh_context *context, const mh_attention_layer *layer,
                             const float *parameters, const mh_attention_call *call,
                             const mh_attention_saved *saved, mh_tensor *output)
{
    const mh_tensor heads = mh_tensor_2d(saved->heads, MH_F32, mh_batch_rows(&call->queries),
                                         layer->config.num_heads * layer->E);
    mh_linear_options o = mh_linear_options_default();
    o.packed = mh_packed_weight(context, call->packed, layer->out.weight);
    if (call->tap && call->tap->out.data) { // without the epilogue; then again, with it
        mh_status status = mh_affine_forward(context, &layer->out, parameters, &o, &heads, output);
        if (!status)
            status = mh_tap_out(context, call, output);
        if (status)
            return status;
    }
    o.dropout = call->output_dropout;
    o.residual = call->residual;
    return mh_affine_forward(context, &layer->out, parameters, &o, &heads, output);
}

mh_status mh_attention_layer_forward(mh_context *context, const mh_attention_layer *layer,
                                     const float *parameters, const mh_attention_call *call,
                                     mh_attention_saved *saved, mh_tensor *output)
{
    mh_status status = project(context, parameters, call, saved);
    saved->q = mh_attention_layer_heads(layer, call, saved, 0, false);
    saved->k = mh_attention_layer_heads(layer, call, saved, 1, false);
    saved->v = mh_attention_layer_heads(layer, call, saved, 2, false);
    if (!status && layer->config.rope)
        status = rotate(context, layer, call->first, false, &saved->q);
    if (!status && layer->config.rope && !call->cached)
        status = rotate(context, layer, call->first, false, &saved->k);
    if (!status && mh_attention_layer_extra(layer))
        status = append_keys(context, layer, parameters, saved);
    if (!status && call->tap)
        status = mh_tap_check(context, layer, call, saved);
    if (!status && call->tap)
        status = mh_tap_heads(context, call, saved);
    if (!status)
        status = attend(context, layer, parameters, call, saved);
    if (status)
        return status;
    switch_off(layer, call, saved->heads);
    return merge_heads(context, layer, parameters, call, saved, output);
}

// ---- backward ----------------------------------------------------------------------------------

// gradient += the gradients of rows that append_rows added; the others are copied to `heads`.
static mh_status take_back_rows(mh_context *context, const mh_attention_layer *layer,
                                const mh_tensor *wide, float *gradient, mh_tensor *heads)
{
    const size_t S = heads->shape[2], G = heads->shape[1], E = layer->E;
    const float *rows = wide->data;
    for (size_t n = 0; n < heads->shape[0] * G && gradient; n++)
        for (size_t e = 0; e < E; e++)
            gradient[n % G * E + e] += rows[(n * wide->shape[2] + S) * E + e];
    const mh_tensor part = mh_tensor_slice(*wide, 2, 0, S);
    return mh_tensor_copy(context, &part, heads);
}

static mh_status attend_backward(mh_context *context, const mh_attention_layer *layer,
                                 const float *parameters, const mh_attention_call *call,
                                 const mh_attention_saved *saved, float *gradients)
{
    const size_t H = layer->config.num_heads, E = layer->E;
    const size_t extra = mh_attention_layer_extra(layer);
    mh_mask masks[MH_LAYER_MASKS];
    mh_attention_options o = engine_options(layer, parameters, call);
    mh_tensor lse = lse_view(layer, call, saved);
    const mh_tensor out = mh_heads_view(&call->queries, saved->heads, H * E, H, E, E);
    const mh_tensor dout = mh_heads_view(&call->queries, saved->dheads, H * E, H, E, E);
    mh_tensor dq = mh_attention_layer_heads(layer, call, saved, 0, true);
    mh_tensor dk = mh_attention_layer_heads(layer, call, saved, 1, true);
    mh_tensor dv = mh_attention_layer_heads(layer, call, saved, 2, true);
    mh_tensor wide_dk = saved->k, wide_dv = saved->v;
    wide_dk.data = saved->dextra_keys, wide_dv.data = saved->dextra_values;
    mh_tensor dsinks = mh_tensor_1d(saved->dsinks, MH_F32, H);
    mh_attention_gradients g = {.struct_size = sizeof g,
                                .dq = &dq,
                                .dk = extra ? &wide_dk : &dk,
                                .dv = extra ? &wide_dv : &dv};
    const bool sinks = layer->sinks != MH_NO_PARAMETER && gradients;
    g.dsinks = sinks ? &dsinks : NULL;
    o.lse = &lse;
    o.weights = NULL;
    mh_status status = mh_attention_layer_masks(context, layer, call, saved, masks, &o);
    if (!status)
        status =
            mh_attention_backward(context, &o, &saved->q, &saved->k, &saved->v, &out, &dout, &g);
    for (size_t h = 0; h < H && !status && sinks; h++)
        gradients[layer->sinks + (ptrdiff_t)h] += saved->dsinks[h];
    const bool learned = layer->config.add_bias_kv && gradients;
    if (!status && extra)
        status = take_back_rows(context, layer, &wide_dk,
                                learned ? gradients + layer->bias_k : NULL, &dk);
    if (!status && extra)
        status = take_back_rows(context, layer, &wide_dv,
                                learned ? gradients + layer->bias_v : NULL, &dv);
    if (!status && layer->config.rope)
        status = rotate(context, layer, call->first, true, &dq);
    if (!status && layer->config.rope)
        status = rotate(context, layer, call->first, true, &dk);
    return status;
}

// The first input with the same rows.
static int first_like(const mh_attention_call *call, int input)
{
    int first = 0;
    while (!mh_same_rows(&call->inputs[first], &call->inputs[input]))
        first++;
    return first;
}

mh_status mh_attention_layer_backward(mh_context *context, const mh_attention_layer *layer,
                                      const float *parameters, const mh_attention_call *call,
                                      const mh_attention_saved *saved, const mh_tensor *doutput,
                                      float *gradients, mh_tensor dinputs[3], bool add_to_keys)
{
    const size_t rows = mh_batch_rows(&call->queries), width = layer->config.num_heads * layer->E;
    const mh_tensor heads = mh_tensor_2d(saved->heads, MH_F32, rows, width);
    mh_tensor dheads = mh_tensor_2d(saved->dheads, MH_F32, rows, width);
    mh_status status = mh_affine_backward(context, &layer->out, parameters, NULL, &heads, doutput,
                                          gradients, call->fresh, &dheads);
    switch_off(layer, call, saved->dheads);
    // Several inputs times one interleaved matrix: columns that are never written stay 0.
    for (size_t i = 0; i < saved->projection_count && saved->projection_count > 1 &&
                       layer->config.qkv == MH_QKV_INTERLEAVED;
         i++) {
        const mh_projection *p = &saved->projections[i];
        memset(p->dy, 0,
               call->inputs[p->input].shape[0] * p->width * mh_dtype_size(call->operands));
    }
    if (!status)
        status = attend_backward(context, layer, parameters, call, saved, gradients);
    bool written[3] = {false, add_to_keys, add_to_keys};
    for (size_t i = 0; i < saved->projection_count && !status; i++) {
        const mh_projection *p = &saved->projections[i];
        const mh_tensor *x = &call->inputs[p->input];
        const mh_tensor dy = mh_tensor_2d(p->dy, call->operands, x->shape[0], p->width);
        const int target = first_like(call, p->input);
        mh_linear_options o = mh_linear_options_default();
        o.accumulate = written[target];
        status = mh_affine_backward(context, &p->map, parameters, &o, x, &dy, gradients,
                                    call->fresh, &dinputs[target]);
        written[target] = true;
    }
    return status;
}
