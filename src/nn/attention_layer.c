// SPDX-License-Identifier: MIT
// Multi-head attention: the projections of a call, views of their heads, and the workspace.
#include "nn/attention_layer.h"
#include "base/philox.h"
#include "nn/attention_layer_internal.h"

// ---- batches and views --------------------------------------------------------------------------

bool mh_same_rows(const mh_tensor *a, const mh_tensor *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && mh_tensor_same_shape(a, b);
    for (int d = 0; d < a->rank && same; d++) // the stride of a single row is irrelevant
        same = a->shape[d] <= 1 || a->stride[d] == b->stride[d];
    return same;
}

mh_tensor mh_heads_view(const mh_batch *batch, float *rows, size_t width, size_t heads,
                        size_t head_step, size_t E)
{
    mh_tensor t =
        mh_tensor_4d(rows, MH_F32, batch->starts ? 1 : batch->sequences, heads, batch->length, E);
    t.stride[0] = batch->starts ? 0 : (ptrdiff_t)(batch->batch_step * width);
    t.stride[1] = (ptrdiff_t)head_step;
    t.stride[2] = (ptrdiff_t)((batch->starts ? 1 : batch->token_step) * width);
    return t;
}

uint64_t mh_mix_seed(uint64_t seed, uint32_t step, uint32_t stream)
{
    const uint32_t counter[4] = {step, stream, 0, 0x5EED};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    mh_philox(counter, key, words);
    return (uint64_t)words[1] << 32 | words[0];
}

// ---- projections --------------------------------------------------------------------------------

// Some rows of the projection: their weights, packed or not, first bias and count.
static void add_projection(const mh_attention_layer *layer, mh_attention_saved *saved, int input,
                           ptrdiff_t weight, size_t slot, size_t row, size_t width)
{
    mh_affine map = {weight, MH_NO_PARAMETER, slot, layer->config.precision};
    if (layer->in_bias != MH_NO_PARAMETER)
        map.bias = layer->in_bias + (ptrdiff_t)row;
    saved->projections[saved->projection_count++] = (mh_projection){input, map, width, NULL, NULL};
}

// The products that compute q, k and v: as few as the inputs and the matrix layout allow.
static void plan_projections(const mh_attention_layer *layer, const mh_attention_call *call,
                             mh_attention_saved *saved)
{
    const size_t q = layer->q, k = layer->k, v = layer->v;
    const bool same_kv = mh_same_rows(&call->inputs[1], &call->inputs[2]);
    const bool same = same_kv && !call->cross && mh_same_rows(&call->inputs[0], &call->inputs[1]);
    const bool interleaved = layer->config.qkv == MH_QKV_INTERLEAVED;
    saved->projection_count = 0;
    if (layer->fused && (interleaved || (same && !call->cached))) {
        add_projection(layer, saved, 0, layer->in_weight, layer->in_slot, 0, q + k + v);
        if (!same && !call->cached)
            add_projection(layer, saved, 1, layer->in_weight, layer->in_slot, 0, q + k + v);
        if (!same_kv && !call->cached)
            add_projection(layer, saved, 2, layer->in_weight, layer->in_slot, 0, q + k + v);
        return;
    }
    add_projection(layer, saved, 0, layer->in_weight, layer->q_slot, 0, q);
    if (call->cached)
        return;
    if (layer->fused && same_kv) {
        add_projection(layer, saved, 1, layer->k_weight, layer->kv_slot, q, k + v);
        return;
    }
    add_projection(layer, saved, 1, layer->k_weight, MH_NO_SLOT, q, k);
    add_projection(layer, saved, 2, layer->v_weight, MH_NO_SLOT, q + k, v);
}

mh_tensor mh_attention_layer_heads(const mh_attention_layer *layer, const mh_attention_call *call,
                                   const mh_attention_saved *saved, int which, bool gradient)
{
    const mh_mha_config *c = &layer->config;
    const size_t E = which == 2 ? layer->Ev : layer->E;
    size_t index =
        (size_t)which < saved->projection_count ? (size_t)which : saved->projection_count - 1;
    const mh_projection *p = &saved->projections[index];
    const mh_dtype dtype = gradient ? call->pass->operands : MH_F32;
    char *rows = gradient ? p->dy : (void *)p->y;
    const mh_batch *batch = which == 0 ? &call->queries : &call->keys;
    const size_t heads = which == 0 ? c->num_heads : c->kv_heads;
    size_t column = 0, head_step = E;
    if (c->qkv == MH_QKV_INTERLEAVED)
        column = (size_t)which * E, head_step = 3 * E;
    else if (saved->projection_count == 1 && !call->cached)
        column = which == 0 ? 0 : which == 1 ? layer->q : layer->q + layer->k;
    else if (which == 2 && index == 1)
        column = layer->k;
    mh_tensor t = mh_heads_view(batch, NULL, p->width, heads, head_step, E);
    t.data = rows ? rows + column * mh_dtype_size(dtype) : NULL;
    t.dtype = dtype;
    return t;
}

// ---- memory -------------------------------------------------------------------------------------

size_t mh_attention_layer_extra(const mh_attention_layer *layer)
{
    return (size_t)layer->config.add_bias_kv + (size_t)layer->config.add_zero_attn;
}

// Keys, or values, of all heads, with the extra ones.
static size_t extra_rows(const mh_attention_layer *layer, const mh_attention_call *call)
{
    return call->keys.sequences * layer->config.kv_heads *
           (call->keys.length + mh_attention_layer_extra(layer));
}

static size_t projection_rows(const mh_attention_call *call, const mh_projection *p)
{
    return mh_batch_rows(p->input == 0 ? &call->queries : &call->keys);
}

// Memory for a mask (rows, S) with `extra` more columns, in its dtype.
static uint8_t *take_wide(mh_arena *arena, const mh_tensor *mask, size_t extra)
{
    if (!mask)
        return NULL;
    size_t rows = 1;
    for (int d = 0; d < mask->rank - 1; d++)
        rows *= mask->shape[d];
    return mh_arena_take(arena, rows * (mask->shape[mask->rank - 1] + extra),
                         mh_dtype_size(mask->dtype));
}

bool mh_attention_call_has_rule(const mh_attention_call *call)
{
    const mh_attention_options *o = call->attention;
    return o && (o->causal != MH_CAUSAL_NONE || o->window_left >= 0 || o->window_right >= 0);
}

static void layout_extra(const mh_attention_layer *layer, const mh_attention_call *call,
                         mh_arena *arena, mh_attention_saved *saved)
{
    const size_t extra = mh_attention_layer_extra(layer), rows = extra_rows(layer, call);
    if (!extra)
        return;
    saved->extra_keys = mh_arena_take(arena, rows * layer->E, sizeof(float));
    saved->extra_values = mh_arena_take(arena, rows * layer->Ev, sizeof(float));
    saved->wide_padding = take_wide(arena, call->padding_mask, extra);
    saved->wide_mask = take_wide(arena, call->mask, extra);
    if (mh_attention_call_has_rule(call) || layer->config.window >= 0)
        saved->wide_rule = mh_arena_take(arena, call->queries.length, call->keys.length + extra);
}

static void layout_norms(const mh_attention_layer *layer, const mh_attention_call *call,
                         mh_arena *arena, mh_attention_saved *saved)
{
    const mh_mha_config *c = &layer->config;
    const size_t rows = mh_batch_rows(&call->queries);
    const size_t key_rows = call->cached ? 0 : mh_batch_rows(&call->keys);
    if (!c->qk_norm)
        return;
    saved->normed_q = mh_arena_take(arena, rows * layer->q, sizeof(float));
    saved->normed_k = mh_arena_take(arena, key_rows * layer->k, sizeof(float));
    saved->rstd_q = mh_arena_take(arena, rows * c->num_heads, sizeof(float));
    saved->rstd_k = mh_arena_take(arena, key_rows * c->kv_heads, sizeof(float));
}

void mh_attention_layer_layout(const mh_attention_layer *layer, const mh_attention_call *call,
                               bool keep, mh_arena *arena, mh_attention_saved *saved)
{
    const size_t rows = mh_batch_rows(&call->queries), H = layer->config.num_heads;
    *saved = (mh_attention_saved){0};
    plan_projections(layer, call, saved);
    for (size_t i = 0; i < saved->projection_count; i++) {
        mh_projection *p = &saved->projections[i];
        p->y = mh_arena_take(arena, projection_rows(call, p) * p->width, sizeof(float));
    }
    saved->heads = mh_arena_take(arena, rows * H * layer->Ev, sizeof(float));
    layout_norms(layer, call, arena, saved);
    layout_extra(layer, call, arena, saved);
    if (keep)
        saved->lse = mh_arena_take(arena, rows * H, sizeof(float));
}

void mh_attention_layer_layout_backward(const mh_attention_layer *layer,
                                        const mh_attention_call *call, mh_arena *arena,
                                        mh_attention_saved *saved)
{
    const size_t rows = mh_batch_rows(&call->queries), H = layer->config.num_heads;
    for (size_t i = 0; i < saved->projection_count; i++) {
        mh_projection *p = &saved->projections[i];
        p->dy = mh_arena_take(arena, projection_rows(call, p) * p->width,
                              mh_dtype_size(call->pass->operands));
    }
    saved->dheads = mh_arena_take(arena, rows * H * layer->Ev, sizeof(float));
    if (mh_attention_layer_extra(layer)) {
        saved->dextra_keys =
            mh_arena_take(arena, extra_rows(layer, call) * layer->E, sizeof(float));
        saved->dextra_values =
            mh_arena_take(arena, extra_rows(layer, call) * layer->Ev, sizeof(float));
    }
    if (layer->sinks != MH_NO_PARAMETER)
        saved->dsinks = mh_arena_take(arena, H, sizeof(float));
    if (call->relative)
        saved->drelative = mh_arena_take(arena, mh_tensor_count(call->relative), sizeof(float));
}
