// SPDX-License-Identifier: MIT
// A layer's parameters, workspace and forward pass; layer_grad.c has its backward.
#include "nn/layer.h"
#include "base/size_math.h"
#include "nn/layer_calls.h"
#include <multihead/ops.h>

// ---- parameters ------------------------------------------------------------------------------

mh_status mh_layer_create(mh_context *context, const mh_transformer_config *config, bool decoder,
                          uint32_t index, mh_layer *layer)
{
    *layer = (mh_layer){.config = config, .index = index};
    layer->kinds[layer->count++] = MH_SELF;
    if (decoder)
        layer->kinds[layer->count++] = MH_CROSS;
    layer->kinds[layer->count++] = MH_FEED_FORWARD;
    mh_mha_config attention = mh_mha_config_default();
    attention.embed_dim = config->d_model;
    attention.num_heads = config->nhead;
    attention.dropout = config->dropout;
    attention.bias = config->bias;
    attention.precision = config->precision;
    mh_status status = mh_attention_layer_check(context, &attention, &layer->self);
    layer->cross = layer->self;
    return status;
}

static ptrdiff_t declare_bias(mh_parameter_list *list, const mh_transformer_config *config,
                              const char *prefix, const char *name, size_t n, mh_init init,
                              double scale)
{
    return config->bias ? mh_declare_vector(list, prefix, name, n, init, scale) : MH_NO_PARAMETER;
}

// In the order in which PyTorch creates its modules.
void mh_layer_declare(mh_parameter_list *list, const char *prefix, bool xavier, mh_layer *layer)
{
    const mh_transformer_config *c = layer->config;
    const size_t D = c->d_model, F = c->dim_feedforward;
    static const char *const norms[] = {"norm1.weight", "norm2.weight", "norm3.weight"};
    static const char *const biases[] = {"norm1.bias", "norm2.bias", "norm3.bias"};
    char name[48];
    layer->linear1.precision = layer->linear2.precision = c->precision;
    snprintf(name, sizeof name, "%sself_attn.", prefix);
    mh_attention_layer_declare(list, name, xavier, &layer->self);
    if (layer->kinds[1] == MH_CROSS) {
        snprintf(name, sizeof name, "%smultihead_attn.", prefix);
        mh_attention_layer_declare(list, name, xavier, &layer->cross);
    }
    layer->linear1.weight = mh_declare_matrix(list, prefix, "linear1.weight", F, D, xavier);
    layer->linear1.bias =
        declare_bias(list, c, prefix, "linear1.bias", F, MH_INIT_UNIFORM, 1 / sqrt((double)D));
    layer->linear2.weight = mh_declare_matrix(list, prefix, "linear2.weight", D, F, xavier);
    layer->linear2.bias =
        declare_bias(list, c, prefix, "linear2.bias", D, MH_INIT_UNIFORM, 1 / sqrt((double)F));
    for (size_t i = 0; i < layer->count; i++) {
        layer->norms[i] = mh_declare_vector(list, prefix, norms[i], D, MH_INIT_ONE, 0);
        layer->norm_biases[i] = declare_bias(list, c, prefix, biases[i], D, MH_INIT_ZERO, 0);
    }
}

// ---- memory ------------------------------------------------------------------------------------

void mh_layer_layout(const mh_layer *layer, const mh_layer_call *call, bool keep, mh_arena *arena,
                     mh_layer_saved *saved)
{
    const size_t rows = mh_batch_rows(&call->rows), D = layer->config->d_model;
    const size_t hidden = rows * layer->config->dim_feedforward;
    const mh_tensor nothing = mh_tensor_2d(NULL, MH_F32, rows, D);
    *saved = (mh_layer_saved){0};
    for (size_t i = 0; i < layer->count; i++) {
        const mh_attention_call attention = mh_layer_attention(layer, call, i, &nothing);
        saved->inner[i] =
            mh_arena_take(arena, rows * D, mh_dtype_size(mh_inner_dtype(layer, call)));
        saved->out[i] = mh_arena_take(arena, rows * D, sizeof(float));
        saved->mean[i] = mh_arena_take(arena, rows, sizeof(float));
        saved->rstd[i] = mh_arena_take(arena, rows, sizeof(float));
        if (layer->kinds[i] == MH_SELF)
            mh_attention_layer_layout(&layer->self, &attention, keep, arena, &saved->self);
        else if (layer->kinds[i] == MH_CROSS)
            mh_attention_layer_layout(&layer->cross, &attention, keep, arena, &saved->cross);
    }
    if (keep && layer->config->activation != MH_RELU)
        saved->before = mh_arena_take(arena, hidden, sizeof(float));
    saved->hidden = mh_arena_take(arena, hidden, mh_dtype_size(call->operands));
}

// ---- sublayers ---------------------------------------------------------------------------------

static uint64_t seed_of(const mh_layer *layer, const mh_layer_call *call, mh_dropout_place place)
{
    return mh_mix_seed(call->seed, call->step, layer->index * 16 + (uint32_t)place);
}

mh_attention_call mh_layer_attention(const mh_layer *layer, const mh_layer_call *call, size_t i,
                                     const mh_tensor *x)
{
    const bool cross = layer->kinds[i] == MH_CROSS;
    const mh_tap *tap = cross ? call->cross_tap : call->tap;
    mh_attention_call a = {.queries = call->rows,
                           .keys = cross ? call->memory_rows : call->rows,
                           .mask = cross ? call->memory_mask : call->mask,
                           .padding_mask = cross ? call->memory_padding : call->padding,
                           .cache = cross ? call->memory_cache : call->cache,
                           .cached = cross && call->memory_cache,
                           .operands = call->operands,
                           .training = call->training,
                           .fresh = call->fresh,
                           .seed = seed_of(layer, call, cross ? MH_AT_CROSS : MH_AT_SELF),
                           .disabled = cross ? call->cross_disabled : call->disabled,
                           .packed = call->packed};
    a.inputs[0] = *x;
    a.inputs[1] = a.inputs[2] = cross ? call->memory : *x;
    a.tap = tap;
    if (tap && tap->weights.data) {
        a.weights = &tap->weights;
        a.weight_heads = tap->heads;
        a.weight_head_count = tap->head_count;
    }
    return a;
}

mh_dropout_options mh_layer_dropout(const mh_layer *layer, const mh_layer_call *call,
                                    mh_dropout_place place)
{
    mh_dropout_options o = mh_dropout_options_default();
    o.probability = call->training ? layer->config->dropout : 0;
    o.seed = seed_of(layer, call, place);
    return o;
}

static mh_status feed_forward(mh_context *context, const mh_layer *layer, const float *parameters,
                              const mh_layer_call *call, const mh_tensor *u,
                              const mh_dropout_options *dropout, const mh_tensor *residual,
                              const mh_layer_saved *saved, mh_tensor *y)
{
    const size_t rows = u->shape[0], F = layer->config->dim_feedforward;
    mh_tensor hidden = mh_tensor_2d(saved->hidden, call->operands, rows, F);
    mh_tensor before = mh_tensor_2d(saved->before, MH_F32, rows, F);
    const mh_dropout_options inside = mh_layer_dropout(layer, call, MH_AT_HIDDEN);
    mh_linear_options first = mh_linear_options_default(), second = first;
    first.dropout = &inside;
    first.activation = &layer->config->activation;
    first.packed = mh_packed_weight(context, call->packed, layer->linear1.weight);
    first.preactivation = saved->before ? &before : NULL;
    second.packed = mh_packed_weight(context, call->packed, layer->linear2.weight);
    second.dropout = dropout;
    second.residual = residual;
    mh_status status = mh_affine_forward(context, &layer->linear1, parameters, &first, u, &hidden);
    if (!status)
        status = mh_affine_forward(context, &layer->linear2, parameters, &second, &hidden, y);
    return status;
}

// sum = x + dropout(f(u)); dropout and sum are in the epilogue of the last product.
static mh_status add_branch(mh_context *context, const mh_layer *layer, const float *parameters,
                            const mh_layer_call *call, size_t i, const mh_tensor *x,
                            const mh_tensor *u, mh_layer_saved *saved, mh_tensor *sum)
{
    const mh_dropout_options dropout =
        mh_layer_dropout(layer, call, mh_branch_place(layer->kinds[i]));
    if (layer->kinds[i] == MH_FEED_FORWARD)
        return feed_forward(context, layer, parameters, call, u, &dropout, x, saved, sum);
    const bool cross = layer->kinds[i] == MH_CROSS;
    mh_attention_call attention = mh_layer_attention(layer, call, i, u);
    mh_attention_options options = mh_attention_options_default();
    options.causal = cross || !call->causal ? MH_CAUSAL_NONE
                     : call->cache          ? MH_CAUSAL_BOTTOM_RIGHT
                                            : MH_CAUSAL_TOP_LEFT;
    attention.attention = &options;
    attention.output_dropout = &dropout;
    attention.residual = x;
    return mh_attention_layer_forward(context, cross ? &layer->cross : &layer->self, parameters,
                                      &attention, cross ? &saved->cross : &saved->self, sum);
}

mh_status mh_norm_forward(mh_context *context, const mh_transformer_config *config,
                          const float *parameters, ptrdiff_t weight, ptrdiff_t bias,
                          const mh_tensor *x, mh_tensor *y, float *mean, float *rstd)
{
    const size_t D = config->d_model, rows = x->shape[0];
    const mh_tensor w = mh_tensor_1d((float *)parameters + weight, MH_F32, D);
    const bool biased = bias != MH_NO_PARAMETER;
    const mh_tensor b = mh_tensor_1d(biased ? (float *)parameters + bias : NULL, MH_F32, D);
    mh_tensor means = mh_tensor_1d(mean, MH_F32, rows);
    mh_tensor rstds = mh_tensor_1d(rstd, MH_F32, rows);
    return mh_layer_norm(context, x, &w, biased ? &b : NULL, config->layer_norm_eps, y, &means,
                         &rstds);
}

mh_status mh_layer_forward(mh_context *context, const mh_layer *layer, const float *parameters,
                           const mh_layer_call *call, const mh_tensor *x, mh_layer_saved *saved)
{
    const mh_transformer_config *c = layer->config;
    mh_tensor input = *x;
    mh_status status = MH_OK;
    for (size_t i = 0; i < layer->count && !status; i++) {
        mh_tensor inner =
            mh_tensor_2d(saved->inner[i], mh_inner_dtype(layer, call), x->shape[0], c->d_model);
        mh_tensor out = mh_tensor_2d(saved->out[i], MH_F32, x->shape[0], c->d_model);
        if (c->norm_first)
            status = mh_norm_forward(context, c, parameters, layer->norms[i], layer->norm_biases[i],
                                     &input, &inner, saved->mean[i], saved->rstd[i]);
        if (!status)
            status =
                add_branch(context, layer, parameters, call, i, &input,
                           c->norm_first ? &inner : &input, saved, c->norm_first ? &out : &inner);
        if (!status && !c->norm_first)
            status = mh_norm_forward(context, c, parameters, layer->norms[i], layer->norm_biases[i],
                                     &inner, &out, saved->mean[i], saved->rstd[i]);
        input = out;
    }
    return status;
}
