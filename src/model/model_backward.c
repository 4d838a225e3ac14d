// SPDX-License-Identifier: MIT
// Gradients of a pretrained model: the heads and embeddings of model_run.c in reverse order. What a
// head computes on the way is recomputed, as it is little.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/sized_struct.h"
#include "model/model_internal.h"
#include <string.h>

const mh_parameters *mh_model_parameters(const mh_model *model) { return &model->parameters; }

// *own: a copy of what the caller gave.
static mh_status read_gradients(mh_context *context, const mh_model *model,
                                const mh_model_gradients *gradients, mh_model_gradients *own)
{
    *own = mh_model_gradients_default();
    MH_TRY(MH_NEED(context, {"model", model}, {"gradients", gradients}));
    if (!model->trainable)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "model: found one for inference, expected a trainable one");
    return MH_READ_STRUCT(context, mh_model_gradients, gradients, own);
}

mh_tensor mh_model_end_gradient(const mh_model *model, const mh_model_gradients *gradients,
                                mh_end end)
{
    mh_tensor t = model->ends[end];
    const bool computed = model->sinusoids && end == MH_END_POSITION;
    if (gradients->ends && t.rank && !computed)
        t.data = gradients->ends + ((float *)t.data - model->values);
    else
        t.data = NULL;
    return t;
}

static mh_tensor *if_given(mh_tensor *t) { return t->data ? t : NULL; }

// From dy, the gradient of x W^T + b, to dx (written) and the parameters' gradients.
static mh_status linear_backward(mh_context *context, const mh_model *model,
                                 const mh_model_gradients *gradients, mh_end weight, mh_end bias,
                                 const mh_tensor *x, const mh_tensor *dy, mh_tensor *dx)
{
    mh_tensor dw = mh_model_end_gradient(model, gradients, weight);
    mh_tensor db = mh_model_end_gradient(model, gradients, bias);
    mh_linear_options o = mh_linear_options_default();
    o.precision = model->precision;
    o.accumulate = true;
    return mh_linear_backward(context, &o, x, &model->ends[weight], dy, dx, if_given(&dw),
                              if_given(&db));
}

// ---- heads --------------------------------------------------------------------------------------

// The masked language model's head before the vocabulary: y = norm(activation(x W^T + b)).
typedef struct transform_run {
    mh_tensor before, active, y; // (n, D)
    mh_tensor mean, rstd;        // (n)
} transform_run;

static transform_run model_backward_lay_out(float *memory, size_t n, size_t D)
{
    return (transform_run){.before = mh_tensor_2d(memory, MH_F32, n, D),
                           .active = mh_tensor_2d(memory + n * D, MH_F32, n, D),
                           .y = mh_tensor_2d(memory + 2 * n * D, MH_F32, n, D),
                           .mean = mh_tensor_1d(memory + 3 * n * D, MH_F32, n),
                           .rstd = mh_tensor_1d(memory + 3 * n * D + n, MH_F32, n)};
}

static mh_status run_transform(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                               transform_run *r)
{
    const mh_description *d = &model->description;
    MH_TRY(mh_model_apply(context, model, MH_END_TRANSFORM, MH_END_TRANSFORM_BIAS, NULL, hidden,
                          &r->before));
    MH_TRY(mh_activate(context, d->lm_activation, &r->before, &r->active));
    return mh_layer_norm(context, &r->active, &model->ends[MH_END_LM_NORM],
                         &model->ends[MH_END_LM_NORM_BIAS], d->block.norm_eps, &r->y, &r->mean,
                         &r->rstd);
}

// From dy, in place, to dx.
static mh_status transform_backward(mh_context *context, const mh_model *model,
                                    const mh_model_gradients *gradients, const mh_tensor *hidden,
                                    transform_run *r, mh_tensor *dy, mh_tensor *dx)
{
    mh_tensor dw = mh_model_end_gradient(model, gradients, MH_END_LM_NORM);
    mh_tensor db = mh_model_end_gradient(model, gradients, MH_END_LM_NORM_BIAS);
    MH_TRY(mh_layer_norm_backward(context, &r->active, &model->ends[MH_END_LM_NORM], &r->mean,
                                  &r->rstd, dy, dy, if_given(&dw), if_given(&db), true));
    MH_TRY(mh_activate_backward(context, model->description.lm_activation, &r->before, dy, dy));
    return linear_backward(context, model, gradients, MH_END_TRANSFORM, MH_END_TRANSFORM_BIAS,
                           hidden, dy, dx);
}

static mh_status logits_backward(mh_context *context, const mh_model *model,
                                 const mh_tensor *hidden, const mh_tensor *dlogits, float *memory,
                                 mh_tensor *dhidden, const mh_model_gradients *gradients)
{
    const size_t n = hidden->shape[0], D = hidden->shape[1];
    transform_run r = model_backward_lay_out(memory, n, D);
    mh_tensor dy = mh_tensor_2d(memory + (3 * D + 2) * n, MH_F32, n, D);
    mh_tensor dx = mh_tensor_2d(memory + (4 * D + 2) * n, MH_F32, n, D);
    if (!model->ends[MH_END_TRANSFORM].rank) {
        MH_TRY(mh_model_scale_hidden(context, model, hidden, &r.y));
        MH_TRY(linear_backward(context, model, gradients, MH_END_LM_HEAD, MH_END_LM_BIAS, &r.y,
                               dlogits, &dy));
        MH_TRY(mh_model_scale_hidden(context, model, &dy, &dx));
        return mh_add(context, dhidden, &dx, dhidden);
    }
    MH_TRY(run_transform(context, model, hidden, &r));
    MH_TRY(linear_backward(context, model, gradients, MH_END_LM_HEAD, MH_END_LM_BIAS, &r.y, dlogits,
                           &dy));
    MH_TRY(transform_backward(context, model, gradients, hidden, &r, &dy, &dx));
    return mh_add(context, dhidden, &dx, dhidden);
}

// The gradient of logits before their soft cap, which needs the logits again, in `memory` (2 n V).
static mh_status uncap_gradient(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                                const mh_tensor *dlogits, float *memory, mh_tensor *dx)
{
    const size_t n = dlogits->shape[0], V = dlogits->shape[1];
    mh_tensor capped = mh_tensor_2d(memory, MH_F32, n, V);
    *dx = mh_tensor_2d(memory + n * V, MH_F32, n, V);
    MH_TRY(mh_model_logits(context, model, hidden, &capped));
    MH_TRY(mh_tensor_copy(context, dlogits, dx));
    mh_model_cap_logits_backward(context, model->description.logits_softcap, &capped, dx);
    return MH_OK;
}

mh_status mh_model_logits_backward(mh_context *context, const mh_model *model,
                                   const mh_tensor *hidden, const mh_tensor *dlogits,
                                   mh_tensor *dhidden, const mh_model_gradients *gradients)
{
    mh_model_gradients given;
    MH_TRY(read_gradients(context, model, gradients, &given));
    MH_TRY(MH_NEED(context, {"hidden", hidden}, {"dlogits", dlogits}, {"dhidden", dhidden}));
    const size_t head = hidden->shape[0] * (5 * hidden->shape[1] + 2);
    const bool capped = model->description.logits_softcap > 0;
    const size_t bytes = (head + (capped ? 2 * mh_tensor_count(dlogits) : 0)) * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_tensor dx = *dlogits;
    mh_status status = MH_OK;
    if (capped)
        status = uncap_gradient(context, model, hidden, dlogits, memory + head, &dx);
    if (!status)
        status = logits_backward(context, model, hidden, &dx, memory, dhidden, &given);
    mh_free(context, memory, bytes);
    return status;
}

// Adds the gradients of the first tokens (sequences, D) to dhidden's rows.
static mh_status spread_first(mh_context *context, const mh_model_input *input,
                              const mh_tensor *dfirst, mh_tensor *dhidden)
{
    for (size_t b = 0; b < input->sequences; b++) {
        const mh_tensor from = mh_tensor_slice(*dfirst, 0, b, 1);
        mh_tensor to = mh_tensor_slice(*dhidden, 0, (size_t)input->starts[b], 1);
        MH_TRY(mh_add(context, &to, &from, &to));
    }
    return MH_OK;
}

// The pooler's activations for some sequences: (sequences, D) each.
typedef struct pool_run {
    mh_tensor first, before, pooled, dfirst, dpooled;
} pool_run;

static pool_run lay_out_pool(float *memory, size_t n, size_t D)
{
    return (pool_run){.first = mh_tensor_2d(memory, MH_F32, n, D),
                      .before = mh_tensor_2d(memory + n * D, MH_F32, n, D),
                      .pooled = mh_tensor_2d(memory + 2 * n * D, MH_F32, n, D),
                      .dfirst = mh_tensor_2d(memory + 3 * n * D, MH_F32, n, D),
                      .dpooled = mh_tensor_2d(memory + 4 * n * D, MH_F32, n, D)};
}
enum { POOL_FLOATS = 5 };

static mh_status run_pool(mh_context *context, const mh_model *model, const mh_model_input *input,
                          const mh_tensor *hidden, pool_run *r)
{
    MH_TRY(mh_model_first_tokens(context, input, hidden, &r->first));
    if (!model->ends[MH_END_POOLER].rank)
        return mh_tensor_copy(context, &r->first, &r->pooled);
    MH_TRY(mh_model_apply(context, model, MH_END_POOLER, MH_END_POOLER_BIAS, NULL, &r->first,
                          &r->before));
    return mh_activate(context, model->description.pool_activation, &r->before, &r->pooled);
}

// From r->dpooled to dhidden.
static mh_status pool_backward(mh_context *context, const mh_model *model,
                               const mh_model_input *input, pool_run *r, mh_tensor *dhidden,
                               const mh_model_gradients *gradients)
{
    if (!model->ends[MH_END_POOLER].rank)
        return spread_first(context, input, &r->dpooled, dhidden);
    MH_TRY(mh_activate_backward(context, model->description.pool_activation, &r->before,
                                &r->dpooled, &r->dpooled));
    MH_TRY(linear_backward(context, model, gradients, MH_END_POOLER, MH_END_POOLER_BIAS, &r->first,
                           &r->dpooled, &r->dfirst));
    return spread_first(context, input, &r->dfirst, dhidden);
}

// The pooler alone if `classify` is false, else the classifier on top of it.
static mh_status head_backward(mh_context *context, const mh_model *model,
                               const mh_model_input *input, const mh_tensor *hidden, bool classify,
                               const mh_tensor *doutput, float *memory, mh_tensor *dhidden,
                               const mh_model_gradients *gradients)
{
    pool_run r = lay_out_pool(memory, input->sequences, hidden->shape[1]);
    MH_TRY(run_pool(context, model, input, hidden, &r));
    if (classify)
        MH_TRY(linear_backward(context, model, gradients, MH_END_CLASSIFIER, MH_END_CLASSIFIER_BIAS,
                               &r.pooled, doutput, &r.dpooled));
    else
        MH_TRY(mh_tensor_copy(context, doutput, &r.dpooled));
    return pool_backward(context, model, input, &r, dhidden, gradients);
}

static mh_status run_head_backward(mh_context *context, const mh_model *model,
                                   const mh_model_input *input, const mh_tensor *hidden,
                                   bool classify, const mh_tensor *doutput, mh_tensor *dhidden,
                                   const mh_model_gradients *gradients)
{
    mh_model_input own;
    mh_model_gradients given;
    MH_TRY(read_gradients(context, model, gradients, &given));
    MH_TRY(mh_model_read_input(context, model, input, &own));
    MH_TRY(MH_NEED(context, {"hidden", hidden}, {classify ? "dlogits" : "dpooled", doutput},
                   {"dhidden", dhidden}));
    if (!model->ends[classify ? MH_END_CLASSIFIER : MH_END_POOLER].rank)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "this model has no %s",
                       classify ? "sequence classifier" : "pooler");
    const size_t bytes = POOL_FLOATS * own.sequences * hidden->shape[1] * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_status status =
        head_backward(context, model, &own, hidden, classify, doutput, memory, dhidden, &given);
    mh_free(context, memory, bytes);
    return status;
}

mh_status mh_model_pool_backward(mh_context *context, const mh_model *model,
                                 const mh_model_input *input, const mh_tensor *hidden,
                                 const mh_tensor *dpooled, mh_tensor *dhidden,
                                 const mh_model_gradients *gradients)
{
    return run_head_backward(context, model, input, hidden, false, dpooled, dhidden, gradients);
}

mh_status mh_model_classify_backward(mh_context *context, const mh_model *model,
                                     const mh_model_input *input, const mh_tensor *hidden,
                                     const mh_tensor *dlogits, mh_tensor *dhidden,
                                     const mh_model_gradients *gradients)
{
    return run_head_backward(context, model, input, hidden, true, dlogits, dhidden, gradients);
}

// ---- blocks and embeddings ----------------------------------------------------------------------

static mh_status table_backward(mh_context *context, const mh_model *model,
                                const mh_model_gradients *gradients, mh_end end,
                                const int32_t *indices, float scale, size_t frozen,
                                const mh_tensor *dx)
{
    mh_tensor dtable = mh_model_end_gradient(model, gradients, end);
    const mh_tensor ids = mh_tensor_1d((int32_t *)indices, MH_I32, dx->shape[0]);
    const int64_t skipped = frozen == SIZE_MAX ? -1 : (int64_t)frozen;
    return dtable.data ? mh_embedding_backward(context, &ids, scale, skipped, dx, &dtable) : MH_OK;
}

// One stack's embeddings.
typedef struct embedding_run {
    mh_model_tokens tokens;
    mh_tensor sum, x, dx; // (rows, D): before and after the norm, and the gradient
    mh_tensor mean, rstd; // (rows)
    float *scratch;       // (rows, D)
    int32_t *types, *positions;
} embedding_run;

static size_t embedding_run_floats(size_t rows, size_t D) { return rows * (4 * D + 4); }

static embedding_run lay_out_embedding(float *memory, const mh_model_tokens *tokens, size_t D)
{
    const size_t rows = mh_model_token_rows(tokens);
    float *after = memory + 4 * rows * D;
    return (embedding_run){.tokens = *tokens,
                           .sum = mh_tensor_2d(memory, MH_F32, rows, D),
                           .x = mh_tensor_2d(memory + rows * D, MH_F32, rows, D),
                           .dx = mh_tensor_2d(memory + 2 * rows * D, MH_F32, rows, D),
                           .scratch = memory + 3 * rows * D,
                           .mean = mh_tensor_1d(after, MH_F32, rows),
                           .rstd = mh_tensor_1d(after + rows, MH_F32, rows),
                           .types = (int32_t *)(after + 2 * rows),
                           .positions = (int32_t *)(after + 3 * rows)};
}

// Recomputes the embeddings as forward did.
static mh_status run_embedding(mh_context *context, const mh_model *model, embedding_run *r)
{
    const mh_model_tokens *t = &r->tokens;
    mh_model_indices(model, t, r->types, r->positions);
    MH_TRY(mh_model_sum_tables(context, model, t, r->types, r->positions, r->scratch, &r->sum));
    if (!model->description.embedding_norm) {
        r->x = r->sum;
        return MH_OK;
    }
    return mh_layer_norm(context, &r->sum, &model->ends[t->norm], &model->ends[t->norm_bias],
                         model->description.block.norm_eps, &r->x, &r->mean, &r->rstd);
}

static mh_status embedding_backward(mh_context *context, const mh_model *model, embedding_run *r,
                                    const mh_model_gradients *gradients)
{
    const mh_description *d = &model->description;
    const mh_model_tokens *t = &r->tokens;
    if (d->embedding_norm) {
        mh_tensor dw = mh_model_end_gradient(model, gradients, t->norm);
        mh_tensor db = mh_model_end_gradient(model, gradients, t->norm_bias);
        MH_TRY(mh_layer_norm_backward(context, &r->sum, &model->ends[t->norm], &r->mean, &r->rstd,
                                      &r->dx, &r->dx, if_given(&dw), if_given(&db), true));
    }
    MH_TRY(table_backward(context, model, gradients, t->token, t->ids, d->embedding_scale,
                          d->frozen_token, &r->dx));
    MH_TRY(table_backward(context, model, gradients, MH_END_TYPE, r->types, 1, SIZE_MAX, &r->dx));
    return table_backward(context, model, gradients, t->position, r->positions, 1, SIZE_MAX,
                          &r->dx);
}

static mh_transformer_options backward_options(const mh_model *model, const mh_model_input *input,
                                               const mh_model_gradients *gradients)
{
    mh_transformer_options o = mh_model_block_options(model, input);
    o.gradients_ready = gradients->ready;
    o.gradients_ready_user = gradients->ready_user;
    return o;
}

// `target` NULL: there is one stack.
static mh_status hidden_backward(mh_context *context, const mh_model *model,
                                 const mh_model_input *input, embedding_run *source,
                                 embedding_run *target, const mh_tensor *dhidden,
                                 const mh_model_gradients *gradients)
{
    const mh_transformer_options o = backward_options(model, input, gradients);
    MH_TRY(run_embedding(context, model, source));
    MH_TRY(mh_model_drop(context, model, input, false, &source->x));
    if (target) {
        MH_TRY(run_embedding(context, model, target));
        MH_TRY(mh_model_drop(context, model, input, true, &target->x));
    }
    MH_TRY(mh_transformer_backward(context, model->transformer, &o, &source->x,
                                   target ? &target->x : NULL, dhidden, gradients->blocks,
                                   &source->dx, target ? &target->dx : NULL));
    MH_TRY(mh_model_drop(context, model, input, false, &source->dx));
    if (target)
        MH_TRY(mh_model_drop(context, model, input, true, &target->dx));
    MH_TRY(embedding_backward(context, model, source, gradients));
    return target ? embedding_backward(context, model, target, gradients) : MH_OK;
}

// The same for pictures: embeddings are recomputed, and their gradients follow in memory.
static mh_status pictures_backward(mh_context *context, const mh_model *model,
                                   const mh_model_input *input, const mh_tensor *dhidden,
                                   const mh_model_gradients *gradients)
{
    const mh_transformer_options o = backward_options(model, input, gradients);
    const size_t rows = mh_model_rows(input), D = model->description.block.d_model;
    const size_t bytes = 2 * rows * D * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_tensor x = mh_tensor_2d(memory, MH_F32, rows, D);
    mh_tensor dx = mh_tensor_2d(memory + rows * D, MH_F32, rows, D);
    mh_status status = mh_model_embed_patches(context, model, input, &x);
    if (!status)
        status = mh_model_drop(context, model, input, false, &x);
    if (!status)
        status = mh_transformer_backward(context, model->transformer, &o, &x, NULL, dhidden,
                                         gradients->blocks, &dx, NULL);
    if (!status)
        status = mh_model_drop(context, model, input, false, &dx);
    if (!status)
        status = mh_model_patches_backward(context, model, input, &dx, gradients);
    mh_free(context, memory, bytes);
    return status;
}

mh_status mh_model_hidden_backward(mh_context *context, const mh_model *model,
                                   const mh_model_input *input, const mh_tensor *dhidden,
                                   const mh_model_gradients *gradients)
{
    mh_model_input own;
    mh_model_gradients given;
    MH_TRY(read_gradients(context, model, gradients, &given));
    MH_TRY(mh_model_read_input(context, model, input, &own));
    MH_TRY(MH_NEED(context, {"dhidden", dhidden}));
    if (model->description.vision.image)
        return pictures_backward(context, model, &own, dhidden, &given);
    const size_t D = model->description.block.d_model, B = own.sequences;
    const bool targets = own.target_starts != NULL;
    const size_t rows = (size_t)own.starts[B], more = targets ? (size_t)own.target_starts[B] : 0;
    const size_t bytes = embedding_run_floats(rows + more, D) * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    const mh_model_tokens sources = mh_model_source_tokens(&own);
    const mh_model_tokens targets_of = mh_model_target_tokens(model, &own);
    embedding_run r = lay_out_embedding(memory, &sources, D), t;
    if (targets)
        t = lay_out_embedding(memory + embedding_run_floats(rows, D), &targets_of, D);
    mh_status status =
        hidden_backward(context, model, &own, &r, targets ? &t : NULL, dhidden, &given);
    mh_free(context, memory, bytes);
    return status;
}
