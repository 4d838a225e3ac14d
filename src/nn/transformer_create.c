// SPDX-License-Identifier: MIT
// Creating and freeing Transformers. PyTorch's modules are blocks of one setting each;
// transformer_blocks.c takes any.
#include "base/compiler.h"
#include "base/context.h"
#include "base/sized_struct.h"
#include "nn/tape.h"
#include "nn/transformer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- parameters ---------------------------------------------------------------------------------

static void declare_stack(mh_parameter_list *list, const mh_transformer *t, const char *prefix,
                          mh_stack *stack)
{
    const mh_transformer_kind kind = t->config.kind;
    const bool single = kind == MH_ENCODER_LAYER || kind == MH_DECODER_LAYER;
    char name[40];
    stack->norm.weight = stack->norm.bias = stack->relative = MH_NO_PARAMETER;
    if (!stack->count)
        return;
    const mh_block_config *first = &stack->blocks[0].config;
    if (first->relative_buckets)
        stack->relative =
            mh_declare(list, prefix, "relative_bias.weight", 2,
                       (size_t[]){first->relative_buckets, first->num_heads}, MH_INIT_NORMAL, 1);
    for (size_t i = 0; i < stack->count; i++) {
        snprintf(name, sizeof name, "%slayers.%zu.", prefix, i);
        mh_block_declare(list, single ? "" : name, kind == MH_TRANSFORMER, &stack->blocks[i]);
    }
    if (!single && stack->final_norm)
        stack->norm =
            mh_norm_layer_declare(list, &stack->blocks[stack->count - 1].config, prefix, "norm");
}

static void transformer_create_declare(mh_parameter_list *list, void *module)
{
    mh_transformer *t = module;
    const bool whole = t->config.kind == MH_TRANSFORMER;
    if (t->config.vocabulary)
        mh_declare(list, "", "embedding.weight", 2,
                   (size_t[]){t->config.vocabulary, t->config.d_model}, MH_INIT_NORMAL,
                   1 / sqrt((double)t->config.d_model));
    declare_stack(list, t, whole ? "encoder." : "", &t->encoder);
    declare_stack(list, t, whole ? "decoder." : "", &t->decoder);
}

// ---- config -------------------------------------------------------------------------------------

enum { MOST = 1 << 20, MOST_LAYERS = 4096, MOST_TOKENS = 1 << 24 };

static mh_status transformer_create_check_config(mh_context *context,
                                                 const mh_transformer_config *c)
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
        t->encoder.count = c->kind == MH_ENCODER_LAYER;
        t->decoder.count = c->kind == MH_DECODER_LAYER;
        break;
    case MH_TRANSFORMER:
    case MH_ENCODER:
    case MH_DECODER:
        t->encoder.count = c->kind == MH_DECODER ? 0 : c->num_encoder_layers;
        t->decoder.count = c->kind == MH_ENCODER ? 0 : c->num_decoder_layers;
        break;
    }
    t->encoder.final_norm = t->decoder.final_norm = c->final_norm;
}

// nn.TransformerEncoderLayer's or nn.TransformerDecoderLayer's block.
static mh_block_config torch_block(const mh_transformer_config *c, bool decoder)
{
    mh_block_config b = mh_block_config_default();
    b.d_model = c->d_model;
    b.num_heads = c->nhead;
    b.dim_feedforward = c->dim_feedforward;
    b.dropout = c->dropout;
    b.activation = c->activation;
    b.norm_eps = c->layer_norm_eps;
    b.order = c->norm_first ? MH_NORM_BEFORE : MH_NORM_AFTER;
    b.norm_bias = b.attention_bias = b.out_bias = b.feed_forward_bias = c->bias;
    b.precision = c->precision;
    b.cross_attention = decoder;
    return b;
}

// ---- creating and freeing -----------------------------------------------------------------------

// At least one, so that the address of the first block is valid.
static size_t transformer_create_block_bytes(const mh_transformer *t)
{
    const size_t count = t->encoder.count + t->decoder.count;
    return (count ? count : 1) * sizeof *t->encoder.blocks;
}

mh_status mh_transformer_allocate(mh_context *context, const mh_transformer_config *config,
                                  size_t encoder_layers, size_t decoder_layers, mh_transformer **to)
{
    mh_transformer *t = *to = mh_alloc(context, sizeof *t);
    if (!t)
        return MH_ERROR_MEMORY;
    *t = (mh_transformer){
        .allocator = context->allocator, .identity = mh_new_identity(), .config = *config};
    t->encoder.count = encoder_layers;
    t->decoder.count = decoder_layers;
    t->encoder.blocks = mh_alloc(context, transformer_create_block_bytes(t));
    t->decoder.blocks = t->encoder.blocks ? t->encoder.blocks + encoder_layers : NULL;
    if (t->encoder.blocks)
        return MH_OK;
    mh_transformer_free(t);
    return MH_ERROR_MEMORY;
}

static bool same_rope(const mh_attention_layer *a, const mh_attention_layer *b)
{
    return a->config.rope_base == b->config.rope_base &&
           a->config.rope_width == b->config.rope_width &&
           !a->config.rope_scaling == !b->config.rope_scaling &&
           memcmp(&a->scaling, &b->scaling, sizeof a->scaling) == 0;
}

// Blocks with the same rotary embedding share its tables.
static mh_status number_ropes(mh_context *context, mh_transformer *t)
{
    for (size_t i = 0; i < t->encoder.count + t->decoder.count; i++) {
        mh_block *block = &t->encoder.blocks[i];
        if (!block->config.rope)
            continue;
        size_t r = 0;
        while (r < t->rope_count && !same_rope(t->ropes[r], &block->self))
            r++;
        if (r == MH_MOST_ROPES)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "rope: found more than %d different ones, expected fewer",
                           MH_MOST_ROPES);
        if (r == t->rope_count)
            t->ropes[t->rope_count++] = &block->self;
        block->rope = r;
    }
    return MH_OK;
}

static mh_status transformer_create_finish(mh_context *context, mh_transformer *t, bool trainable)
{
    MH_TRY(number_ropes(context, t));
    MH_TRY(
        mh_parameters_create(context, transformer_create_declare, t, !trainable, &t->parameters));
    return trainable ? MH_OK : mh_packed_weights_allocate(context, t, true, &t->packed);
}

mh_status mh_transformer_finish(mh_context *context, mh_transformer *t, mh_status status,
                                bool trainable, mh_transformer **transformer)
{
    if (!status)
        status = transformer_create_finish(context, t, trainable);
    if (status)
        mh_transformer_free(t);
    else
        *transformer = t;
    return status;
}

mh_status mh_transformer_create(mh_context *context, const mh_transformer_config *config,
                                mh_transformer **transformer)
{
    MH_TRY(mh_need(context, transformer, "transformer"));
    *transformer = NULL;
    mh_transformer_config own = mh_transformer_config_default();
    MH_TRY(mh_need(context, config, "config"));
    MH_TRY(MH_READ_STRUCT(context, mh_transformer_config, config, &own));
    MH_TRY(transformer_create_check_config(context, &own));
    config = &own;
    mh_transformer counted = {.config = own}, *t;
    count_layers(&counted);
    const size_t encoder = counted.encoder.count, decoder = counted.decoder.count;
    MH_TRY(mh_transformer_allocate(context, config, encoder, decoder, &t));
    count_layers(t);
    mh_status status = MH_OK;
    for (size_t i = 0; i < encoder + decoder && !status; i++) {
        const mh_block_config block = torch_block(config, i >= encoder);
        status = mh_block_create(context, &block, (uint32_t)i, i < encoder ? i : i - encoder,
                                 &t->encoder.blocks[i]);
    }
    return mh_transformer_finish(context, t, status, true, transformer);
}

void mh_transformer_free(mh_transformer *t)
{
    if (!t)
        return;
    mh_packed_weights_free(t->packed);
    mh_parameters_free(&t->allocator, &t->parameters);
    if (t->encoder.blocks)
        t->allocator.release(t->allocator.user, t->encoder.blocks,
                             transformer_create_block_bytes(t));
    t->allocator.release(t->allocator.user, t, sizeof *t);
}

const mh_parameters *mh_transformer_parameters(const mh_transformer *transformer)
{
    return &transformer->parameters;
}
