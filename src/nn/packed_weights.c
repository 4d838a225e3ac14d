// SPDX-License-Identifier: MIT
// Packed weights; see packed_weights.h.
#include "nn/packed_weights.h"
#include "base/compiler.h"
#include "base/context.h"
#include "nn/transformer.h"
#include "ops/gemm/gemm_internal.h"
#include <string.h>

struct mh_packed_weights {
    mh_allocator allocator;
    uint64_t owner; // the identity of the Transformer
    size_t count;
    bool only; // the parameters have no matrices
    mh_packed_matrix *slots[];
};

static size_t bytes_of(size_t count)
{
    return sizeof(mh_packed_weights) + count * sizeof(mh_packed_matrix *);
}

mh_status mh_packed_weights_allocate(mh_context *context, const mh_transformer *transformer,
                                     bool only, mh_packed_weights **packed)
{
    const size_t count = (transformer->encoder.count + transformer->decoder.count) * MH_BLOCK_SLOTS;
    mh_packed_weights *p = *packed = mh_alloc(context, bytes_of(count));
    if (!p)
        return MH_ERROR_MEMORY;
    memset(p, 0, bytes_of(count));
    p->allocator = context->allocator;
    p->owner = transformer->identity;
    p->count = count;
    p->only = only;
    return MH_OK;
}

mh_status mh_packed_weights_set(mh_context *context, mh_packed_weights *packed, size_t slot,
                                mh_precision precision, const mh_tensor *weight)
{
    const mh_tensor transposed = mh_tensor_swap(*weight, 0, 1);
    mh_packed_matrix *matrix;
    MH_TRY(mh_matrix_pack(context, precision, &transposed, &matrix));
    mh_packed_matrix_free(packed->slots[slot]);
    packed->slots[slot] = matrix;
    return MH_OK;
}

// Packs W (N, K) at affine.weight.
static mh_status packed_weights_add(mh_context *context, const mh_transformer *t, mh_affine affine,
                                    size_t N, size_t K, mh_packed_weights *p)
{
    const mh_tensor w = mh_tensor_2d(t->parameters.values + affine.weight, MH_F32, N, K);
    return mh_packed_weights_set(context, p, affine.slot, affine.precision, &w);
}

static mh_status packed_weights_add_block(mh_context *context, const mh_transformer *t,
                                          const mh_block *block, bool memory, mh_packed_weights *p)
{
    const mh_block_config *c = &block->config;
    const mh_attention_layer *self = &block->self, *cross = &block->cross;
    const size_t D = c->d_model, F = c->dim_feedforward;
    const mh_affine in = {self->in_weight, 0, self->in_slot, c->precision};
    const mh_affine q = {cross->in_weight, 0, cross->q_slot, c->precision};
    const mh_affine kv = {cross->k_weight, 0, cross->kv_slot, c->precision};
    MH_TRY(packed_weights_add(context, t, in, self->q + self->k + self->v, D, p));
    MH_TRY(packed_weights_add(context, t, self->out, D, c->num_heads * self->Ev, p));
    MH_TRY(packed_weights_add(context, t, block->up, c->gated ? 2 * F : F, D, p));
    MH_TRY(packed_weights_add(context, t, block->down, D, F, p));
    if (!c->cross_attention)
        return MH_OK;
    MH_TRY(packed_weights_add(context, t, q, cross->q, D, p));
    MH_TRY(packed_weights_add(context, t, cross->out, D, c->num_heads * cross->Ev, p));
    return memory ? packed_weights_add(context, t, kv, cross->k + cross->v, D, p) : MH_OK;
}

static mh_status add_stacks(mh_context *context, const mh_transformer *t, bool whole,
                            mh_packed_weights *p)
{
    const bool both = whole || !t->decoder.count; // without a decoder, the encoder runs the steps
    for (size_t i = 0; i < t->encoder.count && both; i++)
        MH_TRY(packed_weights_add_block(context, t, &t->encoder.blocks[i], false, p));
    for (size_t i = 0; i < t->decoder.count; i++)
        MH_TRY(packed_weights_add_block(context, t, &t->decoder.blocks[i], whole, p));
    return MH_OK;
}

mh_status mh_packed_weights_create(mh_context *context, const mh_transformer *transformer,
                                   bool whole, mh_packed_weights **packed)
{
    MH_TRY(MH_NEED(context, {"transformer", transformer}, {"packed", packed}));
    *packed = NULL;
    if (transformer->packed)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "transformer: its weights are packed already, as it is for inference");
    MH_TRY(mh_packed_weights_allocate(context, transformer, false, packed));
    mh_status status = add_stacks(context, transformer, whole, *packed);
    if (status) {
        mh_packed_weights_free(*packed);
        *packed = NULL;
    }
    return status;
}

void mh_packed_weights_free(mh_packed_weights *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        mh_packed_matrix_free(p->slots[i]);
    mh_allocator allocator = p->allocator;
    allocator.release(allocator.user, p, bytes_of(p->count));
}

mh_status mh_check_packed_weights(mh_context *context, const mh_transformer *transformer,
                                  const mh_packed_weights *packed)
{
    if (!packed || packed->owner == transformer->identity)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "packed: found weights of another Transformer, expected this one's");
}

size_t mh_packed_weights_bytes(const mh_packed_weights *packed)
{
    size_t bytes = 0;
    for (size_t i = 0; packed && i < packed->count; i++)
        bytes += packed->slots[i] ? packed->slots[i]->bytes : 0;
    return bytes;
}

size_t mh_packed_weights_bytes_bf16(const mh_context *context, const mh_packed_weights *packed)
{
    size_t bytes = 0;
    for (size_t i = 0; packed && i < packed->count; i++)
        bytes += mh_packed_matrix_bytes_bf16(context, packed->slots[i]);
    return bytes;
}

mh_status mh_packed_weight(mh_context *context, const mh_packed_weights *packed, size_t slot,
                           const mh_packed_matrix **matrix)
{
    const mh_packed_matrix *found = packed && slot < packed->count ? packed->slots[slot] : NULL;
    *matrix = found && found->isa == context->isa ? found : NULL;
    if (*matrix || !packed || !packed->only)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   found ? "weights: packed for level %s, expected a context of that level"
                         : "weights: a matrix was not packed (mh_transformer_pack)",
                   found ? found->isa : "");
}
