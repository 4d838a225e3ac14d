// SPDX-License-Identifier: MIT
// The loss of a batch, forward and backward:
//
//     source -> embed, dropout -> encoder --+
//     given  -> embed, dropout ------------ decoder -> logits -> cross-entropy with `wanted`
//
// Logits are the largest array here, and are computed and consumed one block of rows at a time. So
// are their gradients, unless products are in bf16: then those of all rows are kept in bf16, for
// one pair of products instead of one per block, each of which would stream the embedding and its
// gradients again.
#include "model/translator_loss.h"
#include "base/size_math.h"
#include "model/translator_internal.h"
#include <math.h>

enum {
    LOGIT_ROWS = 512, // of a block; affects the bits in f32, as gradients are summed by block
    SOURCE_STREAM = INT32_MAX - 1, // of dropout; the Transformer counts its own from 0
    TARGET_STREAM = INT32_MAX,
};

struct mh_loss_memory {
    mh_allocator allocator;
    mh_tape *tape;
    float *floats;
    size_t capacity;
};

mh_status mh_loss_memory_create(mh_context *context, mh_loss_memory **memory)
{
    *memory = mh_alloc(context, sizeof **memory);
    if (!*memory)
        return MH_ERROR_MEMORY;
    **memory = (mh_loss_memory){.allocator = mh_context_allocator(context)};
    mh_status status = mh_tape_create(context, &(*memory)->tape);
    if (status) {
        mh_loss_memory_free(*memory);
        *memory = NULL;
    }
    return status;
}

static void release_floats(mh_loss_memory *m)
{
    if (m->floats)
        m->allocator.release(m->allocator.user, m->floats, m->capacity * sizeof(float));
    m->floats = NULL;
    m->capacity = 0;
}

void mh_loss_memory_free(mh_loss_memory *m)
{
    if (!m)
        return;
    release_floats(m);
    mh_tape_free(m->tape);
    m->allocator.release(m->allocator.user, m, sizeof *m);
}

static float *translator_loss_reserve(mh_context *context, mh_loss_memory *m, size_t floats)
{
    if (m->capacity < floats) {
        floats = mh_grown_size(m->capacity, floats);
        release_floats(m);
        m->floats = mh_alloc(context, floats * sizeof(float));
        m->capacity = m->floats ? floats : 0;
    }
    return m->floats;
}

// ---- one call -----------------------------------------------------------------------------------

typedef struct call {
    const mh_translator *t;
    const mh_loss_options *options;
    const mh_pair_batch *batch;
    mh_transformer_options transformer;
    mh_tensor x, y, out;     // (source rows, D), (target rows, D), (target rows, D)
    mh_tensor dx, dy, dout;  // their gradients; dout is scratch before that
    float *logits;           // (LOGIT_ROWS, vocabulary)
    mh_tensor dlogits;       // (target rows, vocabulary) bf16, or data NULL: overwrite the logits
    mh_packed_matrix *table; // the embedding, for the logits; NULL: not packed
} call;

static mh_tensor translator_loss_take(float **next, size_t rows, size_t columns)
{
    const mh_tensor t = mh_tensor_2d(*next, MH_F32, rows, columns);
    *next += rows * columns;
    return t;
}

static mh_status translator_loss_lay_out(mh_context *context, mh_loss_memory *memory, call *c)
{
    const size_t S = (size_t)c->batch->source_starts[c->batch->sequences];
    const size_t T = (size_t)c->batch->target_starts[c->batch->sequences];
    const size_t D = c->t->config.d_model, V = mh_tokenizer_size(c->t->tokenizer);
    const size_t most = S > T ? S : T;
    const bool keep =
        c->options->gradients && mh_operand_dtype(context, c->t->precision) == MH_BF16;
    float *next = translator_loss_reserve(context, memory,
                                          (2 * S + 2 * T + 2 * most) * D + LOGIT_ROWS * V +
                                              (keep ? T * V : 0) / 2 + 1);
    if (!next)
        return MH_ERROR_MEMORY;
    c->x = translator_loss_take(&next, S, D);
    c->y = translator_loss_take(&next, T, D);
    c->out = translator_loss_take(&next, most, D);
    c->dx = translator_loss_take(&next, S, D);
    c->dy = translator_loss_take(&next, T, D);
    c->dout = translator_loss_take(&next, most, D);
    c->out.shape[0] = c->dout.shape[0] = T;
    c->logits = next;
    c->dlogits = mh_tensor_2d(keep ? next + LOGIT_ROWS * V : NULL, MH_BF16, T, V);
    c->transformer = mh_transformer_options_default();
    c->transformer.tgt_causal = true;
    c->transformer.sequences = c->batch->sequences;
    c->transformer.src_starts = c->batch->source_starts;
    c->transformer.tgt_starts = c->batch->target_starts;
    c->transformer.training = c->options->training;
    c->transformer.seed = c->options->seed;
    c->transformer.step = c->options->step;
    c->transformer.tape = c->options->gradients ? memory->tape : NULL;
    c->transformer.overwrite_gradients = c->options->fresh;
    c->transformer.gradients_ready = c->options->ready;
    c->transformer.gradients_ready_user = c->options->ready_user;
    return MH_OK;
}

static mh_status drop(mh_context *context, const call *c, uint32_t stream, mh_tensor *x)
{
    if (!c->options->training || c->t->config.dropout == 0)
        return MH_OK;
    mh_dropout_options o = mh_dropout_options_default();
    o.probability = c->t->config.dropout;
    o.seed = c->options->seed;
    o.step = c->options->step;
    o.stream = stream;
    return mh_dropout(context, &o, x, x);
}

static mh_status translator_loss_forward(mh_context *context, call *c)
{
    const mh_pair_batch *b = c->batch;
    mh_status status =
        mh_translator_embed(context, c->t, b->source, b->source_positions, &c->x, c->dout.data);
    if (!status)
        status =
            mh_translator_embed(context, c->t, b->given, b->target_positions, &c->y, c->dout.data);
    if (!status)
        status = drop(context, c, SOURCE_STREAM, &c->x);
    if (!status)
        status = drop(context, c, TARGET_STREAM, &c->y);
    return status ? status
                  : mh_transformer_forward(context, c->t->transformer, &c->transformer, &c->x,
                                           &c->y, &c->out);
}

// Backward of some rows' logits: their part of dout and of the embedding's gradients.
static mh_status lead_back(mh_context *context, const call *c, size_t first,
                           const mh_tensor *dlogits)
{
    const mh_tensor x = mh_tensor_slice(c->out, 0, first, dlogits->shape[0]);
    mh_tensor dx = mh_tensor_slice(c->dout, 0, first, dlogits->shape[0]);
    const mh_tensor table = mh_translator_embedding(c->t, mh_translator_parameters(c->t)->values);
    mh_tensor dtable = mh_translator_embedding(c->t, c->options->gradients);
    mh_linear_options o = mh_linear_options_default();
    o.precision = c->t->precision;
    o.accumulate = first > 0 || !c->options->fresh;
    return mh_linear_backward(context, &o, &x, &table, dlogits, &dx, &dtable, NULL);
}

// The loss of some rows, and the gradients of their logits.
static mh_status lose_rows(mh_context *context, const call *c, size_t first, size_t rows,
                           double *loss)
{
    const size_t V = mh_tokenizer_size(c->t->tokenizer);
    const bool keep = c->dlogits.data != NULL;
    const mh_tensor x = mh_tensor_slice(c->out, 0, first, rows);
    mh_tensor logits = mh_tensor_2d(c->logits, MH_F32, rows, V);
    mh_tensor dlogits = keep ? mh_tensor_slice(c->dlogits, 0, first, rows) : logits;
    const mh_tensor wanted = mh_tensor_1d((int32_t *)c->batch->wanted + first, MH_I32, rows);
    mh_status status = mh_translator_logits(context, c->t, c->table, &x, &logits);
    if (status)
        return status;
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    o.label_smoothing = c->options->label_smoothing;
    o.reduction = MH_REDUCTION_SUM;
    o.gradient_scale = c->options->gradient_scale;
    status = mh_cross_entropy(context, &o, &logits, &wanted, loss, NULL,
                              c->options->gradients ? &dlogits : NULL);
    return status || !c->options->gradients || keep ? status
                                                    : lead_back(context, c, first, &dlogits);
}

static mh_status lose(mh_context *context, call *c, double *loss)
{
    const mh_tensor table = mh_translator_embedding(c->t, mh_translator_parameters(c->t)->values);
    const mh_tensor transposed = mh_tensor_swap(table, 0, 1);
    const size_t T = c->out.shape[0];
    mh_status status = MH_OK;
    if (mh_operand_dtype(context, c->t->precision) == MH_BF16)
        status = mh_matrix_pack(context, c->t->precision, &transposed, &c->table);
    *loss = 0;
    for (size_t first = 0; first < T && !status; first += LOGIT_ROWS) {
        double part;
        status =
            lose_rows(context, c, first, T - first < LOGIT_ROWS ? T - first : LOGIT_ROWS, &part);
        *loss += status ? 0 : part;
    }
    mh_packed_matrix_free(c->table);
    return status || !c->dlogits.data ? status : lead_back(context, c, 0, &c->dlogits);
}

static mh_status translator_loss_backward(mh_context *context, call *c)
{
    const mh_pair_batch *b = c->batch;
    const float scale = (float)sqrt((double)c->t->config.d_model);
    mh_tensor dtable = mh_translator_embedding(c->t, c->options->gradients);
    const mh_tensor source = mh_tensor_1d((int32_t *)b->source, MH_I32, c->x.shape[0]);
    const mh_tensor given = mh_tensor_1d((int32_t *)b->given, MH_I32, c->y.shape[0]);
    mh_status status =
        mh_transformer_backward(context, c->t->transformer, &c->transformer, &c->x, &c->y, &c->dout,
                                c->options->gradients, &c->dx, &c->dy);
    if (!status)
        status = drop(context, c, SOURCE_STREAM, &c->dx);
    if (!status)
        status = drop(context, c, TARGET_STREAM, &c->dy);
    if (!status)
        status = mh_embedding_backward(context, &source, scale, -1, &c->dx, &dtable);
    return status ? status : mh_embedding_backward(context, &given, scale, -1, &c->dy, &dtable);
}

mh_status mh_translator_loss(mh_context *context, const mh_translator *translator,
                             const mh_loss_options *options, const mh_pair_batch *batch,
                             mh_loss_memory *memory, double *loss)
{
    call c = {.t = translator, .options = options, .batch = batch};
    mh_status status = translator_loss_lay_out(context, memory, &c);
    if (!status)
        status = translator_loss_forward(context, &c);
    if (!status)
        status = lose(context, &c, loss);
    return status || !options->gradients ? status : translator_loss_backward(context, &c);
}
