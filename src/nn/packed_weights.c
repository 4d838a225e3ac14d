// SPDX-License-Identifier: MIT
// Packed weights; see packed_weights.h.
#include "nn/packed_weights.h"
#include "base/context.h"
#include "nn/transformer.h"
#include "ops/gemm/gemm_internal.h"
#include <string.h>

enum { MATRICES = 7 }; // per layer, at most

struct mh_packed_weights {
    mh_allocator allocator;
    uint64_t owner; // the identity of the Transformer
    size_t count, capacity;
    struct entry {
        ptrdiff_t weight;
        mh_packed_matrix *matrix;
    } list[];
};

static size_t bytes_of(size_t count)
{
    return sizeof(mh_packed_weights) + count * sizeof(struct entry);
}

// Packs W^T for W (N, K) at `weight`.
static mh_status add(mh_context *context, const mh_transformer *t, ptrdiff_t weight, size_t N,
                     size_t K, mh_packed_weights *p)
{
    const mh_tensor w = mh_tensor_2d(t->parameters.values + weight, MH_F32, N, K);
    const mh_tensor transposed = mh_tensor_swap(w, 0, 1);
    struct entry *e = &p->list[p->count];
    e->weight = weight;
    mh_status status = mh_matrix_pack(context, t->config.precision, &transposed, &e->matrix);
    p->count += !status;
    return status;
}

static mh_status add_layer(mh_context *context, const mh_transformer *t, const mh_layer *layer,
                           bool decoder, bool memory, mh_packed_weights *p)
{
    const size_t D = t->config.d_model, F = t->config.dim_feedforward;
    const struct {
        bool there;
        ptrdiff_t weight;
        size_t N, K;
    } matrices[MATRICES] = {
        {true, layer->self.in_weight, 3 * D, D},
        {true, layer->self.out.weight, D, D},
        {true, layer->linear1.weight, F, D},
        {true, layer->linear2.weight, D, F},
        {decoder, layer->cross.in_weight, D, D}, // the queries' part
        {decoder, layer->cross.out.weight, D, D},
        {memory, layer->cross.k_weight, 2 * D, D}, // and the values'
    };
    mh_status status = MH_OK;
    for (size_t i = 0; i < MATRICES && !status; i++)
        if (matrices[i].there)
            status = add(context, t, matrices[i].weight, matrices[i].N, matrices[i].K, p);
    return status;
}

mh_status mh_packed_weights_create(mh_context *context, const mh_transformer *transformer,
                                   bool whole, mh_packed_weights **packed)
{
    if (MH_NEED(context, {"transformer", transformer}, {"packed", packed}))
        return MH_ERROR_ARGUMENT;
    const mh_stack encoder = mh_encoder_stack(transformer), decoder = mh_decoder_stack(transformer);
    const size_t capacity = (encoder.count + decoder.count) * MATRICES;
    mh_packed_weights *p = mh_alloc(context, bytes_of(capacity));
    *packed = NULL;
    if (!p)
        return MH_ERROR_MEMORY;
    *p = (mh_packed_weights){
        .allocator = context->allocator, .owner = transformer->identity, .capacity = capacity};
    mh_status status = MH_OK;
    const bool both = whole || !decoder.count; // without a decoder, the encoder runs the steps
    for (size_t i = 0; i < encoder.count && both && !status; i++)
        status = add_layer(context, transformer, &encoder.layers[i], false, false, p);
    for (size_t i = 0; i < decoder.count && !status; i++)
        status = add_layer(context, transformer, &decoder.layers[i], true, whole, p);
    if (status)
        mh_packed_weights_free(p);
    else
        *packed = p;
    return status;
}

void mh_packed_weights_free(mh_packed_weights *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        mh_packed_matrix_free(p->list[i].matrix);
    mh_allocator allocator = p->allocator;
    allocator.release(allocator.user, p, bytes_of(p->capacity));
}

mh_status mh_check_packed_weights(mh_context *context, const mh_transformer *transformer,
                                  const mh_packed_weights *packed)
{
    if (!packed || packed->owner == transformer->identity)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "packed: found weights of another Transformer, expected this one's");
}

const mh_packed_matrix *mh_packed_weight(const mh_context *context, const mh_packed_weights *packed,
                                         ptrdiff_t weight)
{
    for (size_t i = 0; packed && i < packed->count; i++)
        if (packed->list[i].weight == weight && packed->list[i].matrix->isa == context->isa)
            return packed->list[i].matrix;
    return NULL;
}
