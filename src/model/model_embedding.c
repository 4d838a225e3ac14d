// SPDX-License-Identifier: MIT
// The embeddings of a pretrained model's tokens: x = scale * token[id] + type[type] +
// position[offset + i], then a norm. A decoder may have tables of its own.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/model_internal.h"
#include <string.h>

// ---- the tokens of a stack ----------------------------------------------------------------------

mh_model_tokens mh_model_source_tokens(const mh_model_input *input)
{
    return (mh_model_tokens){.sequences = input->sequences,
                             .starts = input->starts,
                             .ids = input->ids,
                             .types = input->types,
                             .token = MH_END_TOKEN,
                             .position = MH_END_POSITION,
                             .norm = MH_END_NORM,
                             .norm_bias = MH_END_NORM_BIAS};
}

mh_model_tokens mh_model_target_tokens(const mh_model *model, const mh_model_input *input)
{
    const mh_description *d = &model->description;
    return (mh_model_tokens){.sequences = input->sequences,
                             .starts = input->target_starts,
                             .ids = input->target_ids,
                             .token = mh_has_target_tokens(d) ? MH_END_TARGET_TOKEN : MH_END_TOKEN,
                             .position = d->sinusoidal ? MH_END_POSITION : MH_END_TARGET_POSITION,
                             .norm = MH_END_TARGET_NORM,
                             .norm_bias = MH_END_TARGET_NORM_BIAS};
}

void mh_model_indices(const mh_model *model, const mh_model_tokens *tokens, int32_t *types,
                      int32_t *positions)
{
    const size_t rows = mh_model_token_rows(tokens), offset = model->description.position_offset;
    memset(types, 0, rows * sizeof *types);
    if (tokens->types)
        memcpy(types, tokens->types, rows * sizeof *types);
    for (size_t b = 0; b < tokens->sequences; b++)
        for (int64_t i = tokens->starts[b]; i < tokens->starts[b + 1]; i++)
            positions[i] = (int32_t)(offset + (size_t)(i - tokens->starts[b]));
}

// ---- sums ---------------------------------------------------------------------------------------

// x += table[indices], through `rows` (rows, D).
static mh_status add_table(mh_context *context, const mh_tensor *table, const int32_t *indices,
                           float *rows, mh_tensor *x)
{
    const mh_tensor ids = mh_tensor_1d((int32_t *)indices, MH_I32, x->shape[0]);
    mh_tensor y = mh_tensor_2d(rows, MH_F32, x->shape[0], x->shape[1]);
    MH_TRY(mh_embedding(context, table, &ids, 1, &y));
    return mh_add(context, x, &y, x);
}

// x = scale * rows of the table of tokens.
static mh_status token_rows(mh_context *context, const mh_model *model,
                            const mh_model_tokens *tokens, mh_tensor *x)
{
    const float scale = model->description.embedding_scale;
    if (!model->token_in_file || tokens->token != MH_END_TOKEN) {
        const mh_tensor ids = mh_tensor_1d((int32_t *)tokens->ids, MH_I32, x->shape[0]);
        return mh_embedding(context, &model->ends[tokens->token], &ids, scale, x);
    }
    MH_TRY(mh_tensor_file_read_rows(context, model->file, model->token_index, tokens->ids,
                                    x->shape[0], x));
    for (size_t i = 0; i < x->shape[0] && scale != 1; i++)
        for (size_t d = 0; d < x->shape[1]; d++)
            ((float *)x->data)[(ptrdiff_t)i * x->stride[0] + (ptrdiff_t)d * x->stride[1]] *= scale;
    return MH_OK;
}

mh_status mh_model_sum_tables(mh_context *context, const mh_model *model,
                              const mh_model_tokens *tokens, const int32_t *types,
                              const int32_t *positions, float *scratch, mh_tensor *x)
{
    const mh_description *d = &model->description;
    MH_TRY(token_rows(context, model, tokens, x));
    if (d->types) // first, as BERT adds them
        MH_TRY(add_table(context, &model->ends[MH_END_TYPE], types, scratch, x));
    if (d->positions)
        MH_TRY(add_table(context, &model->ends[tokens->position], positions, scratch, x));
    return MH_OK;
}

mh_status mh_model_embed_at(mh_context *context, const mh_model *model,
                            const mh_model_tokens *tokens, const int32_t *types,
                            const int32_t *positions, float *scratch, mh_tensor *x)
{
    MH_TRY(mh_model_sum_tables(context, model, tokens, types, positions, scratch, x));
    if (!model->description.embedding_norm)
        return MH_OK;
    return mh_layer_norm(context, x, &model->ends[tokens->norm], &model->ends[tokens->norm_bias],
                         model->description.block.norm_eps, x, NULL, NULL);
}

mh_status mh_model_embed_tokens(mh_context *context, const mh_model *model,
                                const mh_model_tokens *tokens, float *scratch, int32_t *indices,
                                mh_tensor *x)
{
    int32_t *types = indices, *positions = indices + x->shape[0];
    mh_model_indices(model, tokens, types, positions);
    return mh_model_embed_at(context, model, tokens, types, positions, scratch, x);
}

// ---- incremental decoding -----------------------------------------------------------------------

mh_status mh_model_embed_targets(mh_context *context, const mh_model *model, const int32_t *ids,
                                 const int64_t *positions, mh_tensor *x)
{
    const mh_description *d = &model->description;
    const size_t rows = x->shape[0], D = d->block.d_model;
    const size_t bytes = rows * (D + 1) * sizeof(float);
    const mh_model_input input = {.target_ids = ids};
    const mh_model_tokens tokens = mh_model_target_tokens(model, &input);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    int32_t *at = (int32_t *)(memory + rows * D);
    mh_status status = MH_OK;
    for (size_t i = 0; i < rows && !status; i++) {
        at[i] = (int32_t)(positions[i] + (int64_t)d->position_offset);
        if (positions[i] < 0 || (d->positions && (size_t)at[i] >= d->positions))
            status = mh_fail(context, MH_ERROR_ARGUMENT,
                             "positions[%zu]: found %lld, expected less than %zu, the model's "
                             "positions",
                             i, (long long)positions[i], d->positions - d->position_offset);
    }
    if (!status)
        status = mh_model_embed_at(context, model, &tokens, NULL, at, memory, x);
    mh_free(context, memory, bytes);
    return status;
}
