// SPDX-License-Identifier: MIT
// Transformers of general blocks: creating them from configs, and packing the matrices of those for
// inference.
#include "base/compiler.h"
#include "base/context.h"
#include "base/sized_struct.h"
#include "nn/transformer.h"
#include "ops/tensor_check.h"

enum { MOST_LAYERS = 4096 };

static mh_status check_stack(mh_context *context, const mh_stack_config *stack, const char *name)
{
    if (stack->layers < 1 || stack->layers > MOST_LAYERS || !stack->blocks)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %zu layers, expected 1 to %d and their blocks", name,
                       stack->layers, MOST_LAYERS);
    for (size_t i = 0; i < stack->layers; i++)
        if (!stack->blocks[i])
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s.blocks[%zu]: found NULL", name, i);
    return MH_OK;
}

static mh_status check_block(mh_context *context, const mh_block_config *block,
                             const mh_block_config *first, bool decoder, size_t i)
{
    if (block->d_model != first->d_model || block->num_heads != first->num_heads ||
        block->precision != first->precision)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "blocks[%zu]: found d_model %zu with %zu heads, expected %zu with %zu and "
                       "the same precision, as the first block",
                       i, block->d_model, block->num_heads, first->d_model, first->num_heads);
    if (block->cross_attention != decoder)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "blocks[%zu].cross_attention: found %s, expected it in decoders only", i,
                       block->cross_attention ? "true" : "false");
    return MH_OK;
}

static mh_status transformer_blocks_create_blocks(mh_context *context, const mh_stack_config *stack,
                                                  const mh_block_config *first, bool decoder,
                                                  size_t index, mh_stack *to)
{
    to->final_norm = stack->final_norm;
    for (size_t i = 0; i < stack->layers; i++) {
        MH_TRY(check_block(context, stack->blocks[i], first, decoder, i));
        MH_TRY(
            mh_block_create(context, stack->blocks[i], (uint32_t)(index + i), i, &to->blocks[i]));
    }
    return MH_OK;
}

mh_status mh_transformer_create_blocks(mh_context *context, const mh_stack_config *encoder,
                                       const mh_stack_config *decoder, bool trainable,
                                       mh_transformer **transformer)
{
    MH_TRY(mh_need(context, transformer, "transformer"));
    *transformer = NULL;
    MH_TRY(mh_need(context, encoder ? encoder : decoder, "encoder, decoder"));
    mh_stack_config own_encoder = mh_stack_config_default(), own_decoder = own_encoder;
    MH_TRY(MH_READ_STRUCT(context, mh_stack_config, encoder, &own_encoder));
    MH_TRY(MH_READ_STRUCT(context, mh_stack_config, decoder, &own_decoder));
    if (encoder)
        MH_TRY(check_stack(context, encoder = &own_encoder, "encoder"));
    if (decoder)
        MH_TRY(check_stack(context, decoder = &own_decoder, "decoder"));
    mh_block_config own_first = mh_block_config_default();
    const mh_block_config *first = &own_first;
    MH_TRY(MH_READ_STRUCT(context, mh_block_config,
                          encoder ? encoder->blocks[0] : decoder->blocks[0], &own_first));
    mh_transformer_config config = mh_transformer_config_default();
    config.kind = encoder && decoder ? MH_TRANSFORMER : encoder ? MH_ENCODER : MH_DECODER;
    config.d_model = first->d_model;
    config.nhead = first->num_heads;
    config.precision = first->precision;
    config.batch_first = true;
    const size_t layers = encoder ? encoder->layers : 0;
    mh_transformer *t;
    MH_TRY(mh_transformer_allocate(context, &config, layers, decoder ? decoder->layers : 0, &t));
    mh_status status = MH_OK;
    if (encoder)
        status = transformer_blocks_create_blocks(context, encoder, first, false, 0, &t->encoder);
    if (decoder && !status)
        status =
            transformer_blocks_create_blocks(context, decoder, first, true, layers, &t->decoder);
    return mh_transformer_finish(context, t, status, trainable, transformer);
}

// ---- packing ------------------------------------------------------------------------------------

static mh_status transformer_blocks_set(mh_context *context, mh_transformer *t, size_t slot,
                                        const mh_tensor *weight)
{
    return mh_packed_weights_set(context, t->packed, slot, t->config.precision, weight);
}

// Packs the matrix of a block at `offset`, if it has one there.
static mh_status transformer_blocks_pack_block(mh_context *context, mh_transformer *t,
                                               const mh_block *block, ptrdiff_t offset,
                                               const mh_tensor *weight)
{
    const mh_attention_layer *cross = &block->cross;
    const mh_affine *const affines[] = {&block->self.out, &block->up, &block->down, &cross->out};
    const size_t count = block->config.cross_attention ? 4 : 3;
    if (offset == block->self.in_weight)
        return transformer_blocks_set(context, t, block->self.in_slot, weight);
    for (size_t i = 0; i < count; i++)
        if (offset == affines[i]->weight)
            return transformer_blocks_set(context, t, affines[i]->slot, weight);
    if (!block->config.cross_attention || offset != cross->in_weight)
        return MH_OK;
    const mh_tensor q = mh_tensor_slice(*weight, 0, 0, cross->q);
    const mh_tensor kv = mh_tensor_slice(*weight, 0, cross->q, cross->k + cross->v);
    MH_TRY(transformer_blocks_set(context, t, cross->q_slot, &q));
    return transformer_blocks_set(context, t, cross->kv_slot, &kv);
}

mh_status mh_transformer_pack(mh_context *context, mh_transformer *transformer, const char *name,
                              const mh_tensor *weight)
{
    mh_transformer *t = transformer;
    MH_TRY(MH_NEED(context, {"transformer", t}, {"name", name}, {"weight", weight}));
    MH_TRY(mh_check_float(context, "weight", weight, -1));
    const mh_parameter *p = mh_parameters_find(&t->parameters, name);
    char found[128];
    if (!t->packed)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "transformer: found a trainable one, expected one for inference");
    if (!p || p->offset < t->parameters.floats)
        return mh_fail(context, MH_ERROR_ARGUMENT, "name: found \"%.64s\", expected a matrix",
                       name);
    if (weight->rank != 2 || weight->shape[0] != p->shape[0] || weight->shape[1] != p->shape[1])
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected (%zu, %zu)", name,
                       mh_tensor_describe(weight, found, sizeof found), p->shape[0], p->shape[1]);
    for (size_t i = 0; i < t->encoder.count + t->decoder.count; i++)
        MH_TRY(transformer_blocks_pack_block(context, t, &t->encoder.blocks[i],
                                             (ptrdiff_t)p->offset, weight));
    return MH_OK;
}

size_t mh_transformer_bytes(const mh_transformer *transformer)
{
    return transformer->parameters.floats * sizeof(float) +
           mh_packed_weights_bytes(transformer->packed);
}

size_t mh_transformer_bytes_bf16(const mh_context *context, const mh_transformer *transformer)
{
    return transformer->parameters.floats * sizeof(float) +
           mh_packed_weights_bytes_bf16(context, transformer->packed);
}
