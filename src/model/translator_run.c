// SPDX-License-Identifier: MIT
// Our own parameters as a sequence-to-sequence model.
#include "base/arena.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/translator_internal.h"

// ---- encoder ------------------------------------------------------------------------------------

static mh_status trained_encode_with(mh_context *context, const mh_translator *t,
                                     const mh_translator_weights *weights,
                                     const mh_source_batch *batch, float *floats,
                                     int32_t *positions, mh_tensor *memory)
{
    mh_tensor x = mh_tensor_2d(floats, MH_F32, memory->shape[0], memory->shape[1]);
    mh_transformer_options o = mh_transformer_options_default();
    o.sequences = batch->sequences;
    o.src_starts = batch->starts;
    o.disabled_heads = batch->disabled_heads;
    for (size_t b = 0; b < batch->sequences; b++)
        for (int64_t i = batch->starts[b]; i < batch->starts[b + 1]; i++)
            positions[i] = (int32_t)(i - batch->starts[b]);
    MH_TRY(mh_translator_embed(context, t, batch->ids, positions, &x, memory->data));
    return mh_transformer_encode_packed(context, t->transformer, weights->layers, &o, &x, memory);
}

static mh_status trained_encode(mh_context *context, const mh_translator *t,
                                const mh_translator_weights *weights, const mh_source_batch *batch,
                                mh_tensor *memory)
{
    const size_t rows = memory->shape[0], floats = rows * memory->shape[1];
    const size_t bytes = floats * sizeof(float) + rows * sizeof(int32_t);
    float *scratch = mh_alloc(context, bytes);
    if (!scratch)
        return MH_ERROR_MEMORY;
    mh_status status = trained_encode_with(context, t, weights, batch, scratch,
                                           (int32_t *)(scratch + floats), memory);
    mh_free(context, scratch, bytes);
    return status;
}

// ---- taps ---------------------------------------------------------------------------------------

static mh_status trained_tap_with(mh_context *context, const mh_translator *t,
                                  const mh_tapped_pass *p, float *memory, int32_t *positions)
{
    const size_t D = t->config.d_model, most = mh_larger(p->S, p->T);
    float *scratch = memory + (p->S + p->T) * D;
    mh_tensor src = mh_tensor_2d(memory, MH_F32, p->S, D);
    mh_tensor tgt = mh_tensor_2d(memory + p->S * D, MH_F32, p->T, D);
    mh_tensor out = mh_tensor_2d(p->output, MH_F32, p->T, D);
    for (size_t i = 0; i < most; i++)
        positions[i] = (int32_t)i;
    MH_TRY(mh_translator_embed(context, t, p->source, positions, &src, scratch));
    MH_TRY(mh_translator_embed(context, t, p->target, positions, &tgt, scratch));
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    o.disabled_heads = p->disabled_heads;
    o.taps = p->taps;
    o.tap_count = p->tap_count;
    return mh_transformer_forward(context, t->transformer, &o, &src, &tgt, &out);
}

static mh_status trained_tap(mh_context *context, const mh_translator *t, const mh_tapped_pass *p)
{
    const size_t most = mh_larger(p->S, p->T), floats = (p->S + p->T + most) * t->config.d_model;
    const size_t bytes = floats * sizeof(float) + most * sizeof(int32_t);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_status status = trained_tap_with(context, t, p, memory, (int32_t *)(memory + floats));
    mh_free(context, memory, bytes);
    return status;
}

static mh_status trained_pack(mh_context *context, const mh_translator *t,
                              mh_translator_weights *weights)
{
    const mh_tensor table = mh_translator_embedding(t, mh_translator_parameters(t)->values);
    const mh_tensor transposed = mh_tensor_swap(table, 0, 1);
    MH_TRY(mh_packed_weights_create(context, t->transformer, true, &weights->layers));
    return mh_matrix_pack(context, t->precision, &transposed, &weights->embedding);
}

const mh_sequence_model mh_trained_model = {.encode = trained_encode,
                                            .embed = mh_translator_embed,
                                            .logits = mh_translator_logits,
                                            .tap = trained_tap,
                                            .pack = trained_pack};
