// SPDX-License-Identifier: MIT
// Multi-head attention, forward: project, attend, merge heads, project.
#include "base/compiler.h"
#include "nn/attention_layer_internal.h"
#include "nn/taps.h"
#include <multihead/ops.h>
#include <string.h>

// ---- the engine's options -----------------------------------------------------------------------

mh_attention_options mh_attention_layer_options(const mh_attention_layer *layer,
                                                const mh_attention_call *call)
{
    const mh_mha_config *c = &layer->config;
    mh_attention_options o = call->attention ? *call->attention : mh_attention_options_default();
    o.precision = c->precision;
    o.alibi = c->alibi;
    o.sinks = c->sinks ? call->pass->values + layer->sinks : NULL;
    o.dropout = call->pass->training ? c->dropout : 0;
    o.dropout_seed = call->seed;
    if (c->scale == c->scale) // not MH_SCALE_DEFAULT, a NaN
        o.scale = c->scale;
    if (c->softcap > 0)
        o.softcap = c->softcap;
    if (c->window >= 0)
        o.window_left = c->window;
    if (call->queries.starts) {
        o.sequences = call->queries.sequences;
        o.query_starts = call->queries.starts;
        o.key_starts = call->cache ? NULL : call->keys.starts;
    }
    if (call->weights) {
        o.weights_average = call->average;
        o.weights_dropped = call->dropped;
        o.weights_heads = call->weight_heads;
        o.weights_head_count = call->weight_head_count;
    }
    return o;
}

mh_tensor mh_attention_layer_lse(const mh_attention_layer *layer, const mh_attention_call *call,
                                 const mh_attention_saved *saved)
{
    const mh_batch *b = &call->queries;
    return mh_tensor_3d(saved->lse, MH_F32, b->starts ? 1 : b->sequences, layer->config.num_heads,
                        b->length);
}

// ---- queries, keys and values -------------------------------------------------------------------

static mh_status project(mh_context *context, const mh_attention_call *call,
                         const mh_attention_saved *saved)
{
    for (size_t i = 0; i < saved->projection_count; i++) {
        const mh_projection *p = &saved->projections[i];
        const mh_tensor *x = &call->inputs[p->input];
        mh_tensor y = mh_tensor_2d(p->y, MH_F32, x->shape[0], p->width);
        MH_TRY(mh_affine_forward(context, &p->map, call->pass, NULL, x, &y));
    }
    return MH_OK;
}

// x (B, heads, T, E) becomes its RMS norm, a view of `normed` (rows, heads E).
static mh_status norm_heads(mh_context *context, const mh_attention_layer *layer,
                            const mh_attention_call *call, ptrdiff_t weight, const mh_batch *batch,
                            float *normed, float *rstd, mh_tensor *x)
{
    const size_t heads = x->shape[1], E = layer->E;
    const mh_tensor w = mh_tensor_1d((float *)call->pass->values + weight, MH_F32, E);
    mh_tensor y = mh_heads_view(batch, normed, heads * E, heads, E, E);
    mh_tensor r = mh_tensor_3d(rstd, MH_F32, x->shape[0], heads, x->shape[2]);
    MH_TRY(mh_rms_norm(context, x, &w, layer->config.qk_norm_eps, &y, &r));
    *x = y;
    return MH_OK;
}

mh_status mh_attention_layer_rotate(mh_context *context, const mh_attention_layer *layer,
                                    const mh_attention_call *call, bool inverse, mh_tensor *x)
{
    const mh_mha_config *c = &layer->config;
    double frequencies[MH_MAX_HEAD_DIM / 2];
    mh_rope_options o = mh_rope_options_default();
    o.interleaved = c->rope_interleaved;
    o.width = c->rope_width;
    o.inverse = inverse;
    if (call->rope) {
        o.cosine = &call->rope->cosine;
        o.sine = &call->rope->sine;
        return mh_rope(context, &o, x, x);
    }
    o.base = c->rope_base;
    o.first = call->first;
    if (c->rope_scaling) {
        o.amplitude = mh_rope_frequencies(layer, frequencies);
        o.frequencies = frequencies;
    }
    return mh_rope(context, &o, x, x);
}

// Appends a learned row and one of zeros to each sequence's keys or values (B, G, S, E).
static mh_status append_rows(mh_context *context, const mh_attention_layer *layer,
                             const float *learned, float *memory, mh_tensor *heads)
{
    const size_t extra = mh_attention_layer_extra(layer), S = heads->shape[2];
    const size_t E = heads->shape[3];
    const mh_tensor wide =
        mh_tensor_4d(memory, MH_F32, heads->shape[0], heads->shape[1], S + extra, E);
    mh_tensor part = mh_tensor_slice(wide, 2, 0, S);
    memset(memory, 0, mh_tensor_count(&wide) * sizeof(float));
    MH_TRY(mh_tensor_copy(context, heads, &part));
    for (size_t n = 0; n < wide.shape[0] * wide.shape[1] && learned; n++)
        memcpy(memory + (n * (S + extra) + S) * E, learned + n % wide.shape[1] * E,
               E * sizeof(float));
    *heads = wide;
    return MH_OK;
}

static mh_status append_keys(mh_context *context, const mh_attention_layer *layer,
                             const mh_attention_call *call, mh_attention_saved *saved)
{
    const bool learned = layer->config.add_bias_kv;
    const float *values = call->pass->values;
    MH_TRY(append_rows(context, layer, learned ? values + layer->bias_k : NULL, saved->extra_keys,
                       &saved->k));
    return append_rows(context, layer, learned ? values + layer->bias_v : NULL, saved->extra_values,
                       &saved->v);
}

// Sets saved->q, k and v: projected, normalised, rotated and extended.
static mh_status load_heads(mh_context *context, const mh_attention_layer *layer,
                            const mh_attention_call *call, mh_attention_saved *saved)
{
    const mh_mha_config *c = &layer->config;
    MH_TRY(project(context, call, saved));
    saved->q = mh_attention_layer_heads(layer, call, saved, 0, false);
    saved->k = mh_attention_layer_heads(layer, call, saved, 1, false);
    saved->v = mh_attention_layer_heads(layer, call, saved, 2, false);
    if (c->qk_norm)
        MH_TRY(norm_heads(context, layer, call, layer->q_norm, &call->queries, saved->normed_q,
                          saved->rstd_q, &saved->q));
    if (c->qk_norm && !call->cached)
        MH_TRY(norm_heads(context, layer, call, layer->k_norm, &call->keys, saved->normed_k,
                          saved->rstd_k, &saved->k));
    if (c->rope)
        MH_TRY(mh_attention_layer_rotate(context, layer, call, false, &saved->q));
    if (c->rope && !call->cached)
        MH_TRY(mh_attention_layer_rotate(context, layer, call, false, &saved->k));
    return mh_attention_layer_extra(layer) ? append_keys(context, layer, call, saved) : MH_OK;
}

mh_status mh_attention_layer_fill_cache(mh_context *context, const mh_attention_layer *layer,
                                        const mh_attention_call *call, const int64_t *counts,
                                        mh_attention_saved *saved)
{
    const mh_projection *p = &saved->projections[saved->projection_count - 1];
    const mh_tensor *x = &call->inputs[p->input];
    mh_tensor y = mh_tensor_2d(p->y, MH_F32, x->shape[0], p->width);
    MH_TRY(mh_affine_forward(context, &p->map, call->pass, NULL, x, &y));
    saved->k = mh_attention_layer_heads(layer, call, saved, 1, false);
    saved->v = mh_attention_layer_heads(layer, call, saved, 2, false);
    if (layer->config.qk_norm)
        MH_TRY(norm_heads(context, layer, call, layer->k_norm, &call->keys, saved->normed_k,
                          saved->rstd_k, &saved->k));
    return mh_kv_cache_append(context, call->cache, counts, &saved->k, &saved->v);
}

// ---- attention ----------------------------------------------------------------------------------

void mh_attention_layer_disable(const mh_attention_layer *layer, const mh_attention_call *call,
                                float *heads)
{
    const size_t H = layer->config.num_heads, E = layer->Ev;
    for (size_t h = 0; h < H && call->disabled; h++)
        for (size_t r = 0; r < mh_batch_rows(&call->queries) && call->disabled[h]; r++)
            memset(heads + (r * H + h) * E, 0, E * sizeof(float));
}

static mh_status attend(mh_context *context, const mh_attention_layer *layer,
                        const mh_attention_call *call, mh_attention_saved *saved)
{
    const size_t H = layer->config.num_heads, E = layer->Ev;
    mh_mask masks[MH_LAYER_MASKS];
    mh_attention_options o = mh_attention_layer_options(layer, call);
    mh_tensor out = mh_heads_view(&call->queries, saved->heads, H * E, H, E, E);
    mh_tensor lse = mh_attention_layer_lse(layer, call, saved), weights;
    MH_TRY(mh_attention_layer_masks(context, layer, call, saved, masks, &o));
    if (call->weights) {
        weights = *call->weights;
        o.weights = &weights;
    }
    if (saved->lse)
        o.lse = &lse;
    if (!call->cache) {
        mh_tensor *wanted = saved->lse && call->attention ? call->attention->lse : NULL;
        MH_TRY(mh_attention_forward(context, &o, &saved->q, &saved->k, &saved->v, &out));
        return wanted ? mh_tensor_copy(context, &lse, wanted) : MH_OK;
    }
    if (!call->cached)
        MH_TRY(call->keys.starts
                   ? mh_kv_cache_append_packed(context, call->cache, call->keys.starts, &saved->k,
                                               &saved->v)
                   : mh_kv_cache_append(context, call->cache, NULL, &saved->k, &saved->v));
    return mh_attention_cached(context, &o, &saved->q, call->cache, &out);
}

static mh_status merge_heads(mh_context *context, const mh_attention_layer *layer,
                             const mh_attention_call *call, const mh_attention_saved *saved,
                             mh_tensor *output)
{
    const mh_tensor heads = mh_tensor_2d(saved->heads, MH_F32, mh_batch_rows(&call->queries),
                                         layer->config.num_heads * layer->Ev);
    mh_linear_options o = mh_linear_options_default();
    if (call->tap && call->tap->out.data) { // without the epilogue; then again, with it
        MH_TRY(mh_affine_forward(context, &layer->out, call->pass, &o, &heads, output));
        MH_TRY(mh_tap_out(context, call, output));
    }
    o.dropout = call->output_dropout;
    o.residual = call->residual;
    return mh_affine_forward(context, &layer->out, call->pass, &o, &heads, output);
}

mh_status mh_attention_layer_forward(mh_context *context, const mh_attention_layer *layer,
                                     const mh_attention_call *call, mh_attention_saved *saved,
                                     mh_tensor *output)
{
    MH_TRY(load_heads(context, layer, call, saved));
    if (call->tap) {
        MH_TRY(mh_tap_check(context, layer, call, saved));
        MH_TRY(mh_tap_heads(context, call, saved));
    }
    MH_TRY(attend(context, layer, call, saved));
    mh_attention_layer_disable(layer, call, saved->heads);
    return merge_heads(context, layer, call, saved, output);
}
