// SPDX-License-Identifier: MIT
// Weights of a decoder, packed; see packed_weights.h.
#include "nn/packed_weights.h"
#include "base/context.h"
#include "nn/transformer.h"
#include "ops/matmul_job.h"
#include <string.h>

enum { MATRICES = 6 }; // of a layer

struct mh_packed_weights {
    mh_allocator allocator;
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

// W (N, K) at `weight`, as W^T.
static mh_status add(mh_context *context, const mh_transformer *t, ptrdiff_t weight, size_t N,
                     size_t K, mh_packed_weights *p)
{
    const mh_tensor w = mh_tensor_2d(t->parameters.values + weight, MH_F32, N, K);
    const mh_tensor turned = mh_tensor_swap(w, 0, 1);
    struct entry *e = &p->list[p->count];
    e->weight = weight;
    mh_status status =
        mh_matrix_pack_as(context, &turned, t->config.precision == MH_PRECISION_BF16, &e->matrix);
    p->count += !status;
    return status;
}

static mh_status add_layer(mh_context *context, const mh_transformer *t, const mh_layer *layer,
                           mh_packed_weights *p)
{
    const size_t D = t->config.d_model, F = t->config.dim_feedforward;
    const struct {
        ptrdiff_t weight;
        size_t N, K;
    } matrices[MATRICES] = {
        {layer->self.in_weight, 3 * D, D}, {layer->self.out.weight, D, D},
        {layer->cross.in_weight, D, D}, // the queries' part
        {layer->cross.out.weight, D, D},   {layer->linear1.weight, F, D},
        {layer->linear2.weight, D, F},
    };
    mh_status status = MH_OK;
    for (size_t i = 0; i < MATRICES && !status; i++)
        status = add(context, t, matrices[i].weight, matrices[i].N, matrices[i].K, p);
    return status;
}

mh_status mh_packed_weights_create(mh_context *context, const mh_transformer *transformer,
                                   mh_packed_weights **packed)
{
    const mh_stack stack = mh_decoder_stack(transformer);
    mh_packed_weights *p = mh_alloc(context, bytes_of(stack.count * MATRICES));
    *packed = NULL;
    if (!p)
        return MH_ERROR_MEMORY;
    *p = (mh_packed_weights){.allocator = context->allocator, .capacity = stack.count * MATRICES};
    mh_status status = MH_OK;
    for (size_t i = 0; i < stack.count && !status; i++)
        status = add_layer(context, transformer, &stack.layers[i], p);
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

const mh_packed_matrix *mh_packed_weight(const mh_context *context, const mh_packed_weights *packed,
                                         ptrdiff_t weight)
{
    for (size_t i = 0; packed && i < packed->count; i++)
        if (packed->list[i].weight == weight && packed->list[i].matrix->isa == context->isa)
            return packed->list[i].matrix;
    return NULL;
}
