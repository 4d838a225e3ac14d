// SPDX-License-Identifier: MIT
// A model on growing sequences; see generate_decoder.h.
#include "model/generate_decoder.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/release.h"
#include "model/model_internal.h"
#include <string.h>

struct mh_token_decoder {
    mh_allocator allocator;
    const mh_model *model;
    mh_decoding *decoding;
    float *memory; // of a step
    size_t memory_bytes;
};

mh_status mh_token_decoder_create(mh_context *context, const mh_model *model, mh_dtype cache_dtype,
                                  const bool *disabled_heads, mh_token_decoder **decoder)
{
    *decoder = NULL;
    mh_token_decoder *d = mh_alloc(context, sizeof *d);
    if (!d)
        return MH_ERROR_MEMORY;
    *d = (mh_token_decoder){.allocator = mh_context_allocator(context), .model = model};
    mh_decoding_options o = mh_decoding_options_default();
    o.sequences = 0;
    o.cache_dtype = cache_dtype;
    mh_status status = mh_decoding_create_empty(context, model->transformer, &o, &d->decoding);
    if (status) {
        mh_free(context, d, sizeof *d);
        return status;
    }
    mh_decoding_disable_heads(d->decoding, disabled_heads);
    *decoder = d;
    return MH_OK;
}

void mh_token_decoder_free(mh_token_decoder *d)
{
    if (!d)
        return;
    const mh_allocator allocator = d->allocator;
    mh_decoding_free(d->decoding);
    mh_release(&allocator, d->memory, d->memory_bytes);
    mh_release(&allocator, d, sizeof *d);
}

void mh_token_decoder_disable_heads(mh_token_decoder *d, const bool *disabled_heads)
{
    mh_decoding_disable_heads(d->decoding, disabled_heads);
}

mh_status mh_token_decoder_extend(mh_context *context, mh_token_decoder *d, size_t count)
{
    return mh_decoding_extend(context, d->decoding, count);
}

mh_status mh_token_decoder_truncate(mh_context *context, mh_token_decoder *d, size_t b,
                                    size_t length)
{
    return mh_decoding_truncate(context, d->decoding, b, length);
}

mh_status mh_token_decoder_select(mh_context *context, mh_token_decoder *d, const size_t *parents,
                                  size_t count)
{
    return mh_decoding_select(context, d->decoding, parents, count);
}

// ---- a step -------------------------------------------------------------------------------------

// Memory of a step: x (rows, D), scratch as large, types and positions (rows).
static mh_status reserve_step(mh_context *context, mh_token_decoder *d, size_t rows)
{
    const size_t D = d->model->description.block.d_model;
    size_t bytes;
    if (!mh_multiply_sizes(rows, (2 * D + 2) * sizeof(float), &bytes))
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for %zu tokens", rows);
    if (bytes <= d->memory_bytes)
        return MH_OK;
    mh_free(context, d->memory, d->memory_bytes);
    d->memory = mh_alloc(context, bytes);
    d->memory_bytes = d->memory ? bytes : 0;
    return d->memory ? MH_OK : MH_ERROR_MEMORY;
}

// Tokens have the positions behind those that their sequence has so far.
static void set_positions(const mh_token_decoder *d, const int64_t *starts, int32_t *positions)
{
    const size_t offset = d->model->description.position_offset;
    for (size_t b = 0; b < mh_decoding_sequences(d->decoding); b++)
        for (int64_t row = starts[b]; row < starts[b + 1]; row++)
            positions[row] =
                (int32_t)(offset + mh_decoding_length(d->decoding, b) + (size_t)(row - starts[b]));
}

static mh_status embed_step(mh_context *context, mh_token_decoder *d, const int64_t *starts,
                            const int32_t *ids, mh_tensor *x)
{
    const size_t rows = x->shape[0], D = x->shape[1];
    float *scratch = d->memory + rows * D;
    int32_t *types = (int32_t *)(scratch + rows * D), *positions = types + rows;
    mh_model_input input = mh_model_input_default();
    memset(types, 0, rows * sizeof *types);
    set_positions(d, starts, positions);
    input.sequences = mh_decoding_sequences(d->decoding);
    input.starts = starts;
    input.ids = ids;
    const mh_model_tokens tokens = mh_model_source_tokens(&input);
    return mh_model_embed_at(context, d->model, &tokens, types, positions, scratch, x);
}

mh_status mh_token_decoder_step(mh_context *context, mh_token_decoder *d, const int64_t *starts,
                                const int32_t *ids, float *hidden)
{
    const size_t rows = (size_t)starts[mh_decoding_sequences(d->decoding)];
    const size_t D = d->model->description.block.d_model;
    if (rows == 0)
        return MH_OK;
    MH_TRY(reserve_step(context, d, rows));
    mh_tensor x = mh_tensor_2d(d->memory, MH_F32, rows, D);
    mh_tensor y = mh_tensor_2d(hidden, MH_F32, rows, D);
    MH_TRY(embed_step(context, d, starts, ids, &x));
    return mh_decoding_step_packed(context, d->decoding, starts, NULL, 0, &x, &y);
}
