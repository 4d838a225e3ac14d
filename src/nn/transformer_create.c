// SPDX-License-Identifier: MIT
// Creating and freeing Transformers: their layers, and their parameters with PyTorch's names.
#include "base/context.h"
#include "base/sized_struct.h"
#include "nn/tape.h"
#include "nn/transformer.h"
#include <math.h>
#include <stdio.h>

// ---- parameters ------------------------------------------------------------------------------

static ptrdiff_t declare_norm(mh_parameter_list *list, const mh_transformer_config *c,
                              const char *prefix, ptrdiff_t *bias)
{
    *bias = MH_NO_PARAMETER;
    ptrdiff_t weight = mh_declare_vector(list, prefix, "norm.weight", c->d_model, MH_INIT_ONE, 0);
    if (c->bias)
        *bias = mh_declare_vector(list, prefix, "norm.bias", c->d_model, MH_INIT_ZERO, 0);
    return weight;
}

static void declare_stack(mh_parameter_list *list, mh_transformer *t, const char *prefix,
                          mh_layer *layers, size_t count, ptrdiff_t *norm, ptrdiff_t *norm_bias)
{
    const mh_transformer_kind kind = t->config.kind;
    const bool single = kind == MH_ENCODER_LAYER || kind == MH_DECODER_LAYER;
    char name[40];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%slayers.%zu.", prefix, i);
        mh_layer_declare(list, single ? "" : name, kind == MH_TRANSFORMER, &layers[i]);
    }
    *norm = *norm_bias = MH_NO_PARAMETER;
    if (count && !single && t->config.final_norm)
        *norm = declare_norm(list, &t->config, prefix, norm_bias);
}

static void declare(mh_parameter_list *list, void *module)
{
    mh_transformer *t = module;
    const bool whole = t->config.kind == MH_TRANSFORMER;
    if (t->config.vocabulary)
        mh_declare(list, "", "embedding.weight", 2,
                   (size_t[]){t->config.vocabulary, t->config.d_model}, MH_INIT_NORMAL,
                   1 / sqrt((double)t->config.d_model));
    declare_stack(list, t, whole ? "encoder." : "", t->layers, t->encoder_count, &t->encoder_norm,
                  &t->encoder_norm_bias);
    declare_stack(list, t, whole ? "decoder." : "", t->layers + t->encoder_count, t->decoder_count,
                  &t->decoder_norm, &t->decoder_norm_bias);
}

// ---- config ------------------------------------------------------------------------------------

enum { MOST = 1 << 20, MOST_LAYERS = 4096, MOST_TOKENS = 1 << 24 };

static mh_status check_config(mh_context *context, const mh_transformer_config *c)
{
    if (c->kind < MH_TRANSFORMER || c->kind > MH_DECODER_LAYER)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kind: found %d, expected an mh_transformer_kind", (int)c->kind);
    if (c->d_model < 1 || c->d_model > MOST)
        return mh_fail(context, MH_ERROR_ARGUMENT, "d_model: found %zu, expected 1 to %d",
                       c->d_model, MOST);
    if (c->nhead < 1 || c->d_model % c->nhead)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "nhead: found %zu, expected a divisor of d_model %zu", c->nhead, c->d_model);
    if (c->dim_feedforward < 1 || c->dim_feedforward > MOST)
        return mh_fail(context, MH_ERROR_ARGUMENT, "dim_feedforward: found %zu, expected 1 to %d",
                       c->dim_feedforward, MOST);
    if (c->num_encoder_layers > MOST_LAYERS || c->num_decoder_layers > MOST_LAYERS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "layers: found %zu and %zu, expected at most %d",
                       c->num_encoder_layers, c->num_decoder_layers, MOST_LAYERS);
    if (c->vocabulary > MOST_TOKENS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "vocabulary: found %zu, expected at most %d",
                       c->vocabulary, MOST_TOKENS);
    if (c->activation < MH_RELU || c->activation > MH_SILU)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "activation: found %d, expected an mh_activation", (int)c->activation);
    if (!(c->layer_norm_eps >= 0))
        return mh_fail(context, MH_ERROR_ARGUMENT, "layer_norm_eps: found %g, expected 0 or more",
                       (double)c->layer_norm_eps);
    return MH_OK;
}

static void count_layers(mh_transformer *t)
{
    const mh_transformer_config *c = &t->config;
    switch (c->kind) {
    case MH_ENCODER_LAYER:
    case MH_DECODER_LAYER:
        t->encoder_count = c->kind == MH_ENCODER_LAYER;
        t->decoder_count = c->kind == MH_DECODER_LAYER;
        break;
    case MH_TRANSFORMER:
    case MH_ENCODER:
    case MH_DECODER:
        t->encoder_count = c->kind == MH_DECODER ? 0 : c->num_encoder_layers;
        t->decoder_count = c->kind == MH_ENCODER ? 0 : c->num_decoder_layers;
        break;
    }
}

// ---- creating and freeing ----------------------------------------------------------------------

// At least one, so that the address of the first layer is valid.
static size_t layer_bytes(const mh_transformer *t)
{
    const size_t count = t->encoder_count + t->decoder_count;
    return (count ? count : 1) * sizeof *t->layers;
}

mh_status mh_transformer_create(mh_context *context, const mh_transformer_config *config,
                                mh_transformer **transformer)
{
    if (mh_need(context, transformer, "transformer"))
        return MH_ERROR_ARGUMENT;
    *transformer = NULL;
    mh_transformer_config own = mh_transformer_config_default();
    mh_status status = mh_need(context, config, "config");
    if (!status)
        status = MH_READ_STRUCT(context, mh_transformer_config, config, &own);
    if (!status)
        status = check_config(context, &own);
    if (status)
        return status;
    mh_transformer *t = mh_alloc(context, sizeof *t);
    if (!t)
        return MH_ERROR_MEMORY;
    *t = (mh_transformer){
        .allocator = context->allocator, .identity = mh_new_identity(), .config = own};
    count_layers(t);
    const size_t count = t->encoder_count + t->decoder_count;
    if (!(t->layers = mh_alloc(context, layer_bytes(t))))
        status = MH_ERROR_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        status =
            mh_layer_create(context, &t->config, i >= t->encoder_count, (uint32_t)i, &t->layers[i]);
    if (!status)
        status = mh_parameters_create(context, declare, t, &t->parameters);
    if (status) {
        mh_transformer_free(t);
        return status;
    }
    *transformer = t;
    return MH_OK;
}

void mh_transformer_free(mh_transformer *t)
{
    if (!t)
        return;
    mh_parameters_free(&t->allocator, &t->parameters);
    if (t->layers)
        t->allocator.release(t->allocator.user, t->layers, layer_bytes(t));
    t->allocator.release(t->allocator.user, t, sizeof *t);
}

const mh_parameters *mh_transformer_parameters(const mh_transformer *transformer)
{
    return &transformer->parameters;
}
