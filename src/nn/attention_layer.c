// SPDX-License-Identifier: MIT
// Multi-head attention: its config, parameters, projections and workspace. attention_layer_run.c
// runs it.
#include "nn/attention_layer.h"
#include "base/philox.h"
#include "nn/attention_layer_run.h"
#include <math.h>

// ---- config ----------------------------------------------------------------------------------

// The limit of any width, so that products of three fit in a size_t.
enum { MOST = 1 << 20 };

static size_t or_default(size_t value, size_t otherwise) { return value ? value : otherwise; }

static mh_status check_sizes(mh_context *context, const mh_mha_config *c)
{
    const size_t sizes[] = {c->embed_dim, c->num_heads, c->kv_heads,
                            c->input_dim, c->kdim,      c->vdim};
    static const char *const names[] = {"embed_dim", "num_heads", "kv_heads",
                                        "input_dim", "kdim",      "vdim"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > MOST)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %zu, expected 1 to %d", names[i],
                           sizes[i], MOST);
    if (c->embed_dim % c->num_heads)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "num_heads: found %zu, expected a divisor of embed_dim %zu", c->num_heads,
                       c->embed_dim);
    if (c->embed_dim / c->num_heads > MH_MAX_HEAD_DIM)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "num_heads: found %zu for embed_dim %zu, expected heads of at most %d",
                       c->num_heads, c->embed_dim, MH_MAX_HEAD_DIM);
    if (c->num_heads % c->kv_heads)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_heads: found %zu, expected a divisor of num_heads %zu", c->kv_heads,
                       c->num_heads);
    return MH_OK;
}

static mh_status check_rest(mh_context *context, const mh_attention_layer *layer)
{
    const mh_mha_config *c = &layer->config;
    if (!(c->dropout >= 0 && c->dropout < 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "dropout: found %g, expected 0 to less than 1",
                       (double)c->dropout);
    if (c->rope && (layer->E % 2 || !(c->rope_base >= 1)))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "rope: found heads of width %zu and base %g, expected an even width and a "
                       "base of at least 1",
                       layer->E, c->rope_base);
    if (c->qkv == MH_QKV_INTERLEAVED && (!layer->fused || c->kv_heads != c->num_heads))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "qkv: interleaved rows need kdim and vdim equal to input_dim, and kv_heads "
                       "equal to num_heads");
    if (c->precision < MH_PRECISION_AUTO || c->precision > MH_PRECISION_BF16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "precision: found %d, expected an mh_precision",
                       (int)c->precision);
    return MH_OK;
}

mh_status mh_attention_layer_check(mh_context *context, const mh_mha_config *config,
                                   mh_attention_layer *layer)
{
    *layer = (mh_attention_layer){.config = *config};
    mh_mha_config *c = &layer->config;
    c->kv_heads = or_default(c->kv_heads, c->num_heads);
    c->input_dim = or_default(c->input_dim, c->embed_dim);
    c->kdim = or_default(c->kdim, c->input_dim);
    c->vdim = or_default(c->vdim, c->input_dim);
    mh_status status = check_sizes(context, c);
    if (status)
        return status;
    layer->E = c->embed_dim / c->num_heads;
    layer->fused = c->kdim == c->input_dim && c->vdim == c->input_dim;
    return check_rest(context, layer);
}

void mh_attention_layer_declare(mh_parameter_list *list, const char *prefix, bool xavier,
                                mh_attention_layer *layer)
{
    const mh_mha_config *c = &layer->config;
    const size_t q = c->num_heads * layer->E, kv = c->kv_heads * layer->E;
    if (layer->fused) {
        layer->in_weight =
            mh_declare_matrix(list, prefix, "in_proj_weight", q + 2 * kv, c->input_dim, true);
        layer->k_weight = layer->in_weight + (ptrdiff_t)(q * c->input_dim);
        layer->v_weight = layer->k_weight + (ptrdiff_t)(kv * c->input_dim);
    } else {
        layer->in_weight = mh_declare_matrix(list, prefix, "q_proj_weight", q, c->input_dim, true);
        layer->k_weight = mh_declare_matrix(list, prefix, "k_proj_weight", kv, c->kdim, true);
        layer->v_weight = mh_declare_matrix(list, prefix, "v_proj_weight", kv, c->vdim, true);
    }
    layer->in_bias = layer->bias_k = layer->bias_v = layer->sinks = MH_NO_PARAMETER;
    if (c->bias)
        layer->in_bias =
            mh_declare_vector(list, prefix, "in_proj_bias", q + 2 * kv, MH_INIT_ZERO, 0);
    if (c->add_bias_kv) {
        const size_t shape[3] = {1, 1, kv};
        const double deviation = 1 / sqrt((double)kv);
        layer->bias_k = mh_declare(list, prefix, "bias_k", 3, shape, MH_INIT_NORMAL, deviation);
        layer->bias_v = mh_declare(list, prefix, "bias_v", 3, shape, MH_INIT_NORMAL, deviation);
    }
    if (c->sinks)
        layer->sinks = mh_declare_vector(list, prefix, "sinks", c->num_heads, MH_INIT_ZERO, 0);
    layer->out =
        (mh_affine){mh_declare_matrix(list, prefix, "out_proj.weight", c->embed_dim, q, xavier),
                    MH_NO_PARAMETER, c->precision};
    if (c->bias)
        layer->out.bias =
            mh_declare_vector(list, prefix, "out_proj.bias", c->embed_dim, MH_INIT_ZERO, 0);
}

// ---- batches and views -------------------------------------------------------------------------

size_t mh_batch_rows(const mh_batch *batch)
{
    return batch->starts ? batch->length : batch->sequences * batch->length;
}

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

// ---- projections -------------------------------------------------------------------------------

// Some rows of the projection: their weights, first bias and count.
static void add_projection(const mh_attention_layer *layer, mh_attention_saved *saved, int input,
                           ptrdiff_t weight, size_t row, size_t width)
{
    mh_affine map = {weight, MH_NO_PARAMETER, layer->config.precision};
    if (layer->in_bias != MH_NO_PARAMETER)
        map.bias = layer->in_bias + (ptrdiff_t)row;
    saved->projections[saved->projection_count++] = (mh_projection){input, map, width, NULL, NULL};
}

// The products that compute q, k and v: as few as the inputs and the matrix layout allow.
static void plan_projections(const mh_attention_layer *layer, const mh_attention_call *call,
                             mh_attention_saved *saved)
{
    const mh_mha_config *c = &layer->config;
    const size_t q = c->num_heads * layer->E, kv = c->kv_heads * layer->E;
    const bool same_kv = mh_same_rows(&call->inputs[1], &call->inputs[2]);
    const bool same = same_kv && mh_same_rows(&call->inputs[0], &call->inputs[1]);
    const bool interleaved = c->qkv == MH_QKV_INTERLEAVED;
    saved->projection_count = 0;
    if (layer->fused && (interleaved || (same && !call->cached))) {
        add_projection(layer, saved, 0, layer->in_weight, 0, q + 2 * kv);
        if (!same && !call->cached)
            add_projection(layer, saved, 1, layer->in_weight, 0, q + 2 * kv);
        if (!same_kv && !call->cached)
            add_projection(layer, saved, 2, layer->in_weight, 0, q + 2 * kv);
        return;
    }
    add_projection(layer, saved, 0, layer->in_weight, 0, q);
    if (call->cached)
        return;
    if (layer->fused && same_kv) {
        add_projection(layer, saved, 1, layer->k_weight, q, 2 * kv);
        return;
    }
    add_projection(layer, saved, 1, layer->k_weight, q, kv);
    add_projection(layer, saved, 2, layer->v_weight, q + kv, kv);
}

// Heads of q (which 0), k (1) or v (2), in the projections' outputs or in their gradients.
mh_tensor mh_attention_layer_heads(const mh_attention_layer *layer, const mh_attention_call *call,
                                   const mh_attention_saved *saved, int which, bool gradient)
{
    const mh_mha_config *c = &layer->config;
    const size_t E = layer->E, q = c->num_heads * E, kv = c->kv_heads * E;
    size_t index =
        (size_t)which < saved->projection_count ? (size_t)which : saved->projection_count - 1;
    const mh_projection *p = &saved->projections[index];
    const mh_dtype dtype = gradient ? call->operands : MH_F32;
    char *rows = gradient ? p->dy : (void *)p->y;
    const mh_batch *batch = which == 0 ? &call->queries : &call->keys;
    const size_t heads = which == 0 ? c->num_heads : c->kv_heads;
    size_t column = 0, head_step = E;
    if (c->qkv == MH_QKV_INTERLEAVED)
        column = (size_t)which * E, head_step = 3 * E;
    else if (p->width == q + 2 * kv && saved->projection_count == 1 && !call->cached)
        column = which == 0 ? 0 : q + (size_t)(which - 1) * kv;
    else if (which == 2 && index == 1)
        column = kv;
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

// Elements of keys, or values, with the extra ones.
static size_t extra_numbers(const mh_attention_layer *layer, const mh_attention_call *call)
{
    return call->keys.sequences * layer->config.kv_heads *
           (call->keys.length + mh_attention_layer_extra(layer)) * layer->E;
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

void mh_attention_layer_layout(const mh_attention_layer *layer, const mh_attention_call *call,
                               bool keep, mh_arena *arena, mh_attention_saved *saved)
{
    const mh_mha_config *c = &layer->config;
    const size_t rows = mh_batch_rows(&call->queries), width = c->num_heads * layer->E;
    const size_t extra = mh_attention_layer_extra(layer), numbers = extra_numbers(layer, call);
    *saved = (mh_attention_saved){0};
    plan_projections(layer, call, saved);
    for (size_t i = 0; i < saved->projection_count; i++) {
        mh_projection *p = &saved->projections[i];
        p->y = mh_arena_take(arena, projection_rows(call, p) * p->width, sizeof(float));
    }
    saved->heads = mh_arena_take(arena, rows * width, sizeof(float));
    if (extra) {
        saved->extra_keys = mh_arena_take(arena, numbers, sizeof(float));
        saved->extra_values = mh_arena_take(arena, numbers, sizeof(float));
        saved->wide_padding = take_wide(arena, call->padding_mask, extra);
        saved->wide_mask = take_wide(arena, call->mask, extra);
        if (mh_attention_call_has_rule(call))
            saved->wide_rule =
                mh_arena_take(arena, call->queries.length, call->keys.length + extra);
    }
    if (keep)
        saved->lse = mh_arena_take(arena, rows * c->num_heads, sizeof(float));
}

void mh_attention_layer_layout_backward(const mh_attention_layer *layer,
                                        const mh_attention_call *call, mh_arena *arena,
                                        mh_attention_saved *saved)
{
    const size_t numbers = extra_numbers(layer, call);
    for (size_t i = 0; i < saved->projection_count; i++) {
        mh_projection *p = &saved->projections[i];
        p->dy = mh_arena_take(arena, projection_rows(call, p) * p->width,
                              mh_dtype_size(call->operands));
    }
    saved->dheads = mh_arena_take(
        arena, mh_batch_rows(&call->queries) * layer->config.num_heads * layer->E, sizeof(float));
    if (mh_attention_layer_extra(layer)) {
        saved->dextra_keys = mh_arena_take(arena, numbers, sizeof(float));
        saved->dextra_values = mh_arena_take(arena, numbers, sizeof(float));
    }
    if (layer->sinks != MH_NO_PARAMETER)
        saved->dsinks = mh_arena_take(arena, layer->config.num_heads, sizeof(float));
}
