// SPDX-License-Identifier: MIT
// Running a pretrained model: token embeddings, blocks, and the heads.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "model/model_internal.h"
#include <math.h>
#include <string.h>

// ---- input --------------------------------------------------------------------------------------

static mh_status check_starts(mh_context *context, const char *name, const int64_t *starts,
                              size_t sequences, size_t most)
{
    for (size_t b = 0; b < sequences; b++) {
        const int64_t length = starts[b + 1] - starts[b];
        if (starts[0] != 0 || length < 0)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s[%zu]: found %lld, expected 0, ... in order", name, b,
                           (long long)starts[b]);
        if ((size_t)length > most)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "sequence %zu: found %lld tokens, expected at most %zu, the model's "
                           "positions",
                           b, (long long)length, most);
    }
    return MH_OK;
}

static mh_status check_targets(mh_context *context, const mh_model *model,
                               const mh_model_input *input)
{
    const mh_description *d = &model->description;
    if (!input->target_starts)
        return MH_OK;
    if (!d->decoder_layers)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "target_starts: found targets, expected NULL: this model (%s) has no "
                       "decoder",
                       model->info.family);
    MH_TRY(MH_NEED(context, {"target_ids", input->target_ids}));
    return check_starts(context, "target_starts", input->target_starts, input->sequences,
                        mh_model_longest(d));
}

mh_status mh_model_read_input(mh_context *context, const mh_model *model,
                              const mh_model_input *input, mh_model_input *own)
{
    *own = mh_model_input_default();
    MH_TRY(MH_NEED(context, {"model", model}, {"input", input}));
    MH_TRY(MH_READ_STRUCT(context, mh_model_input, input, own));
    const mh_description *d = &model->description;
    if (d->vision.image) {
        MH_TRY(MH_NEED(context, {"starts", own->starts}, {"pixels", own->pixels}));
        return mh_model_check_pixels(context, model, own);
    }
    if (d->sound.mels) {
        MH_TRY(MH_NEED(context, {"starts", own->starts}, {"features", own->features}));
        MH_TRY(check_starts(context, "starts", own->starts, own->sequences, d->sound.positions));
        MH_TRY(mh_model_check_features(context, model, own));
        return check_targets(context, model, own);
    }
    if (own->pixels || own->features)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found some, expected NULL: this model (%s) reads tokens",
                       own->pixels ? "pixels" : "features", model->info.family);
    MH_TRY(MH_NEED(context, {"starts", own->starts}, {"ids", own->ids}));
    const size_t most = mh_model_longest(d);
    MH_TRY(check_starts(context, "starts", own->starts, own->sequences, most));
    MH_TRY(check_targets(context, model, own));
    if (own->tape && !model->trainable)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: found one, expected NULL: this model is for inference");
    return MH_OK;
}

// ---- hidden states ------------------------------------------------------------------------------

mh_transformer_options mh_model_block_options(const mh_model *model, const mh_model_input *input)
{
    mh_transformer_options o = mh_transformer_options_default();
    o.src_causal = model->description.causal;
    o.tgt_causal = true;
    o.sequences = input->sequences;
    o.src_starts = input->starts;
    o.tgt_starts = input->target_starts;
    o.taps = input->taps;
    o.tap_count = input->tap_count;
    o.disabled_heads = input->disabled_heads;
    o.tape = input->tape;
    o.training = input->training;
    o.seed = input->seed;
    o.step = input->step;
    return o;
}

mh_status mh_model_drop(mh_context *context, const mh_model *model, const mh_model_input *input,
                        bool target, mh_tensor *x)
{
    mh_dropout_options o = mh_dropout_options_default();
    o.probability = model->description.block.dropout;
    if (!input->training || o.probability <= 0)
        return MH_OK;
    o.seed = input->seed;
    o.step = input->step;
    o.stream = target ? INT32_MAX : INT32_MAX - 1; // the blocks count theirs from 0
    return mh_dropout(context, &o, x, x);
}

// Floats for the embeddings of so many rows.
static size_t embedding_floats(size_t rows, size_t D) { return (2 * D + 2) * rows; }

static mh_status embed_rows(mh_context *context, const mh_model *model,
                            const mh_model_tokens *tokens, float *memory, mh_tensor *x)
{
    const size_t rows = mh_model_token_rows(tokens), D = model->description.block.d_model;
    *x = mh_tensor_2d(memory, MH_F32, rows, D);
    return mh_model_embed_tokens(context, model, tokens, memory + rows * D,
                                 (int32_t *)(memory + 2 * rows * D), x);
}

// x of a vision model, in `memory`, and the blocks.
static mh_status pictures_with(mh_context *context, const mh_model *model,
                               const mh_model_input *input, float *memory, mh_tensor *hidden)
{
    const mh_transformer_options o = mh_model_block_options(model, input);
    mh_tensor x = mh_tensor_2d(memory, MH_F32, mh_model_rows(input), hidden->shape[1]);
    MH_TRY(mh_model_embed_patches(context, model, input, &x));
    MH_TRY(mh_model_drop(context, model, input, false, &x));
    return mh_transformer_forward(context, model->transformer, &o, &x, NULL, hidden);
}

static mh_status hidden_with(mh_context *context, const mh_model *model,
                             const mh_model_input *input, float *memory, mh_tensor *hidden)
{
    if (model->description.vision.image)
        return pictures_with(context, model, input, memory, hidden);
    const size_t D = model->description.block.d_model;
    const mh_transformer_options o = mh_model_block_options(model, input);
    const mh_model_tokens source = mh_model_source_tokens(input);
    mh_tensor x, y;
    if (model->description.sound.mels) {
        x = mh_tensor_2d(memory, MH_F32, mh_model_token_rows(&source), D);
        MH_TRY(mh_model_embed_sound(context, model, input, &x));
    } else {
        MH_TRY(embed_rows(context, model, &source, memory, &x));
    }
    MH_TRY(mh_model_drop(context, model, input, false, &x));
    if (!model->description.decoder_layers)
        return mh_transformer_forward(context, model->transformer, &o, &x, NULL, hidden);
    if (!input->target_starts)
        return mh_transformer_encode(context, model->transformer, &o, &x, hidden);
    const mh_model_tokens target = mh_model_target_tokens(model, input);
    memory += embedding_floats(mh_model_token_rows(&source), D);
    MH_TRY(embed_rows(context, model, &target, memory, &y));
    MH_TRY(mh_model_drop(context, model, input, true, &y));
    return mh_transformer_forward(context, model->transformer, &o, &x, &y, hidden);
}

// Sequences are independent, so a large batch runs group by group: activations that stay in the
// caches are not fetched from memory by every layer, and take less of it. 32 sentences of 256
// tokens by MiniLM run 1.2 times as fast as at once. Taps, tapes and dropout want the whole batch.
static size_t group_rows(const mh_context *context, const mh_model *model,
                         const mh_model_input *input)
{
    enum { THREAD_BYTES = 8 << 20 }; // of the feed-forward's activations
    const size_t row = mh_larger(1, model->description.block.dim_feedforward) * sizeof(float);
    const bool whole = input->tap_count || input->tape || input->training;
    return whole ? SIZE_MAX : mh_larger(1, THREAD_BYTES / row) * mh_context_threads(context);
}

// The group of sequences from `first` on: at most `most` rows, or one sequence.
static size_t group_end(const mh_model_input *input, size_t first, size_t most)
{
    size_t end = first + 1;
    while (end < input->sequences &&
           (size_t)(input->starts[end + 1] - input->starts[first]) <= most)
        end++;
    return end;
}

// One group; `starts` has memory for as many numbers as input->starts.
static mh_status run_group(mh_context *context, const mh_model *model, const mh_model_input *input,
                           size_t first, size_t end, int64_t *starts, float *memory,
                           mh_tensor *hidden)
{
    const int64_t row = input->starts[first], rows = input->starts[end] - row;
    mh_model_input group = *input;
    mh_tensor part = mh_tensor_slice(*hidden, 0, (size_t)row, (size_t)rows);
    for (size_t b = first; b <= end; b++)
        starts[b - first] = input->starts[b] - row;
    group.sequences = end - first;
    group.starts = starts;
    group.ids = input->ids ? input->ids + row : NULL;
    group.pixels = input->pixels ? input->pixels + first : NULL;
    group.features = input->features ? input->features + first : NULL;
    group.types = input->types ? input->types + row : NULL;
    return rows ? hidden_with(context, model, &group, memory, &part) : MH_OK;
}

static mh_status run_groups(mh_context *context, const mh_model *model, const mh_model_input *input,
                            size_t most, mh_tensor *hidden)
{
    const size_t D = hidden->shape[1], count = input->sequences;
    size_t largest = 0;
    for (size_t b = 0, end; b < count; b = end) {
        end = group_end(input, b, most);
        largest = mh_larger(largest, (size_t)(input->starts[end] - input->starts[b]));
    }
    const size_t floats = embedding_floats(largest, D) * sizeof(float);
    const size_t bytes = floats + (count + 1) * sizeof(int64_t) + sizeof(int64_t);
    char *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    int64_t *starts = (int64_t *)(void *)(memory + mh_round_up(floats, sizeof(int64_t)));
    mh_status status = MH_OK;
    for (size_t b = 0, end; b < count && !status; b = end) {
        end = group_end(input, b, most);
        status = run_group(context, model, input, b, end, starts, (float *)(void *)memory, hidden);
    }
    mh_free(context, memory, bytes);
    return status;
}

// Sources and targets of an encoder-decoder.
static mh_status run_pairs(mh_context *context, const mh_model *model, const mh_model_input *input,
                           mh_tensor *hidden)
{
    const size_t rows = hidden->shape[0] + (size_t)input->starts[input->sequences];
    const size_t bytes = embedding_floats(rows, hidden->shape[1]) * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_status status = hidden_with(context, model, input, memory, hidden);
    mh_free(context, memory, bytes);
    return status;
}

mh_status mh_model_hidden(mh_context *context, const mh_model *model, const mh_model_input *input,
                          mh_tensor *hidden)
{
    mh_model_input own;
    MH_TRY(mh_model_read_input(context, model, input, &own));
    const size_t rows = mh_model_rows(&own), D = model->description.block.d_model;
    char found[128];
    if (!hidden || hidden->rank != 2 || hidden->shape[0] != rows || hidden->shape[1] != D)
        return mh_fail(context, MH_ERROR_ARGUMENT, "hidden: found %s, expected (%zu, %zu)",
                       hidden ? mh_tensor_describe(hidden, found, sizeof found) : "NULL", rows, D);
    if (rows == 0)
        return MH_OK;
    return own.target_starts
               ? run_pairs(context, model, &own, hidden)
               : run_groups(context, model, &own, group_rows(context, model, &own), hidden);
}

// ---- heads --------------------------------------------------------------------------------------

static mh_status need_head(mh_context *context, const mh_model *model, mh_end end, const char *what)
{
    MH_TRY(MH_NEED(context, {"model", model}));
    if (model->ends[end].rank)
        return MH_OK;
    return mh_fail(context, MH_ERROR_UNSUPPORTED, "this model (%s%s%s) has no %s",
                   model->info.family, *model->architecture ? ", " : "", model->architecture, what);
}

mh_status mh_model_apply(mh_context *context, const mh_model *model, mh_end weight, mh_end bias,
                         const mh_activation *activation, const mh_tensor *x, mh_tensor *y)
{
    mh_linear_options o = mh_linear_options_default();
    o.precision = model->precision;
    o.packed = model->packed[weight];
    o.bias = model->ends[bias].rank ? &model->ends[bias] : NULL;
    o.activation = activation;
    return mh_linear(context, &o, x, o.packed ? NULL : &model->ends[weight], y);
}

// What the masked language model's head does before the product with the vocabulary.
static mh_status transform(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                           mh_tensor *y)
{
    const mh_description *d = &model->description;
    MH_TRY(mh_model_apply(context, model, MH_END_TRANSFORM, MH_END_TRANSFORM_BIAS,
                          &d->lm_activation, hidden, y));
    return mh_layer_norm(context, y, &model->ends[MH_END_LM_NORM],
                         &model->ends[MH_END_LM_NORM_BIAS], d->block.norm_eps, y, NULL, NULL);
}

mh_status mh_model_scale_hidden(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                                mh_tensor *y)
{
    MH_TRY(mh_tensor_copy(context, hidden, y));
    for (size_t i = 0; i < mh_tensor_count(y); i++)
        ((float *)y->data)[i] *= model->description.lm_scale;
    return MH_OK;
}

// hidden, or what the masked language model's head makes of it, times the vocabulary.
static mh_status model_run_head(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                                mh_tensor *logits)
{
    const bool transformed = model->ends[MH_END_TRANSFORM].rank;
    if (!transformed && model->description.lm_scale == 1)
        return mh_model_apply(context, model, MH_END_LM_HEAD, MH_END_LM_BIAS, NULL, hidden, logits);
    const size_t bytes = mh_tensor_count(hidden) * sizeof(float);
    float *memory = hidden->rank == 2 ? mh_alloc(context, bytes) : NULL;
    if (!memory)
        return hidden->rank == 2 ? MH_ERROR_MEMORY
                                 : mh_fail(context, MH_ERROR_ARGUMENT, "hidden: expected (n, D)");
    mh_tensor y = mh_tensor_2d(memory, MH_F32, hidden->shape[0], hidden->shape[1]);
    mh_status status = transformed ? transform(context, model, hidden, &y)
                                   : mh_model_scale_hidden(context, model, hidden, &y);
    if (!status)
        status = mh_model_apply(context, model, MH_END_LM_HEAD, MH_END_LM_BIAS, NULL, &y, logits);
    mh_free(context, memory, bytes);
    return status;
}

mh_status mh_model_logits(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                          mh_tensor *logits)
{
    MH_TRY(need_head(context, model, MH_END_LM_HEAD, "language model head"));
    MH_TRY(MH_NEED(context, {"hidden", hidden}, {"logits", logits}));
    MH_TRY(model_run_head(context, model, hidden, logits));
    const float cap = model->description.logits_softcap;
    return cap > 0 ? mh_model_cap_logits(context, cap, logits) : MH_OK;
}

mh_status mh_model_first_tokens(mh_context *context, const mh_model_input *input,
                                const mh_tensor *hidden, mh_tensor *first)
{
    for (size_t b = 0; b < input->sequences; b++) {
        if (input->starts[b] == input->starts[b + 1])
            return mh_fail(context, MH_ERROR_ARGUMENT, "sequence %zu: found no tokens", b);
        const mh_tensor from = mh_tensor_slice(*hidden, 0, (size_t)input->starts[b], 1);
        mh_tensor to = mh_tensor_slice(*first, 0, b, 1);
        MH_TRY(mh_tensor_copy(context, &from, &to));
    }
    return MH_OK;
}

// The second half of x (sequences, 2 D): the mean of each picture's patches, in double.
static void mean_of_patches(const mh_model_input *input, const mh_tensor *hidden, size_t first,
                            mh_tensor *x)
{
    const size_t D = hidden->shape[1];
    for (size_t b = 0; b < input->sequences; b++) {
        const size_t begin = (size_t)input->starts[b] + first, end = (size_t)input->starts[b + 1];
        float *to = (float *)x->data + (ptrdiff_t)b * x->stride[0] + D;
        for (size_t d = 0; d < D; d++) {
            double sum = 0;
            for (size_t i = begin; i < end; i++)
                sum += (double)((const float *)hidden->data)[(ptrdiff_t)i * hidden->stride[0] +
                                                             (ptrdiff_t)d * hidden->stride[1]];
            to[d] = (float)(sum / (double)(end - begin));
        }
    }
}

static mh_status pool_with(mh_context *context, const mh_model *model, const mh_model_input *input,
                           const mh_tensor *hidden, float *memory, mh_tensor *pooled)
{
    mh_tensor first =
        mh_tensor_2d(memory, MH_F32, input->sequences, model->description.block.d_model);
    MH_TRY(mh_model_first_tokens(context, input, hidden, &first));
    return mh_model_apply(context, model, MH_END_POOLER, MH_END_POOLER_BIAS,
                          &model->description.pool_activation, &first, pooled);
}

mh_status mh_model_pool(mh_context *context, const mh_model *model, const mh_model_input *input,
                        const mh_tensor *hidden, mh_tensor *pooled)
{
    mh_model_input own;
    MH_TRY(need_head(context, model, MH_END_POOLER, "pooler"));
    MH_TRY(MH_NEED(context, {"hidden", hidden}, {"pooled", pooled}));
    MH_TRY(mh_model_read_input(context, model, input, &own));
    const size_t bytes = own.sequences * model->description.block.d_model * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_status status = pool_with(context, model, &own, hidden, memory, pooled);
    mh_free(context, memory, bytes);
    return status;
}

// The classifier's input (sequences, its width), by what the family's classifier reads.
static mh_status label_input(mh_context *context, const mh_model *model,
                             const mh_model_input *input, const mh_tensor *hidden, float *memory,
                             mh_tensor *x)
{
    const mh_description *d = &model->description;
    const size_t D = d->block.d_model;
    mh_tensor first = mh_tensor_slice(*x, 1, 0, D);
    if (d->label_input == MH_LABELS_POOLED && model->ends[MH_END_POOLER].rank)
        return pool_with(context, model, input, hidden, memory, x);
    if (d->label_input == MH_LABELS_FIRST_MEAN)
        mean_of_patches(input, hidden, d->vision.first, x);
    return mh_model_first_tokens(context, input, hidden, &first);
}

// DeiT's second classifier, of the distillation token: the mean of both is the result.
static mh_status add_teacher(mh_context *context, const mh_model *model,
                             const mh_model_input *input, const mh_tensor *hidden, mh_tensor *x,
                             mh_tensor *logits)
{
    mh_linear_options o = mh_linear_options_default();
    if (!model->ends[MH_END_TEACHER].rank)
        return MH_OK;
    for (size_t b = 0; b < input->sequences; b++) {
        const mh_tensor from = mh_tensor_slice(*hidden, 0, (size_t)input->starts[b] + 1, 1);
        mh_tensor to = mh_tensor_slice(*x, 0, b, 1);
        MH_TRY(mh_tensor_copy(context, &from, &to));
    }
    o.precision = model->precision;
    o.packed = model->packed[MH_END_TEACHER];
    o.bias = &model->ends[MH_END_TEACHER_BIAS];
    o.accumulate = true;
    MH_TRY(mh_linear(context, &o, x, NULL, logits));
    const float half = 0.5f;
    for (size_t b = 0; b < logits->shape[0]; b++)
        for (size_t i = 0; i < logits->shape[1]; i++)
            ((float *)logits
                 ->data)[(ptrdiff_t)b * logits->stride[0] + (ptrdiff_t)i * logits->stride[1]] *=
                half;
    return MH_OK;
}

mh_status mh_model_classify(mh_context *context, const mh_model *model, const mh_model_input *input,
                            const mh_tensor *hidden, mh_tensor *logits)
{
    mh_model_input own;
    MH_TRY(MH_NEED(context, {"model", model}));
    if (!(model->info.abilities & MH_CAN_CLASSIFY))
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "this model (%s%s%s) has %s%s",
                       model->info.family, *model->architecture ? ", " : "", model->architecture,
                       model->other_head ? "a head that is not supported: "
                                         : "no sequence classifier",
                       model->other_head ? model->other_head : "");
    MH_TRY(MH_NEED(context, {"hidden", hidden}, {"logits", logits}));
    MH_TRY(mh_model_read_input(context, model, input, &own));
    if (own.sequences == 0)
        return MH_OK;
    const size_t D = model->description.block.d_model;
    const size_t width = model->ends[MH_END_CLASSIFIER].shape[1];
    const size_t bytes = own.sequences * (D + width) * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_tensor x = mh_tensor_2d(memory + own.sequences * D, MH_F32, own.sequences, width);
    mh_status status = label_input(context, model, &own, hidden, memory, &x);
    if (!status)
        status = mh_model_apply(context, model, MH_END_CLASSIFIER, MH_END_CLASSIFIER_BIAS, NULL, &x,
                                logits);
    if (!status)
        status = add_teacher(context, model, &own, hidden, &x, logits);
    mh_free(context, memory, bytes);
    return status;
}

// ---- sentence embeddings ------------------------------------------------------------------------

// One sequence's token vectors (count, D) pooled into `to`, in double and in order: the result does
// not depend on the batch.
static void pool_sequence(mh_pooling pooling, const float *rows, size_t count, size_t D, float *to)
{
    for (size_t d = 0; d < D; d++) {
        double value =
            pooling == MH_POOLING_LAST ? (double)rows[(count - 1) * D + d] : (double)rows[d];
        for (size_t i = 1; i < count && pooling == MH_POOLING_MEAN; i++)
            value += (double)rows[i * D + d];
        for (size_t i = 1; i < count && pooling == MH_POOLING_MAX; i++)
            value = fmax(value, (double)rows[i * D + d]);
        if (pooling == MH_POOLING_MEAN)
            value /= (double)count;
        to[d] = (float)value;
    }
}

static void normalize_row(float *row, size_t D)
{
    double square = 0;
    for (size_t d = 0; d < D; d++)
        square += (double)row[d] * (double)row[d];
    const double length = sqrt(square);
    for (size_t d = 0; d < D && length > 0; d++)
        row[d] = (float)((double)row[d] / length);
}

typedef struct pool_job {
    mh_pooling pooling;
    const mh_model_input *input;
    const float *hidden;
    const mh_tensor *pooled; // (sequences, D)
} pool_job;

static void pool_one(void *arg, size_t b, size_t worker)
{
    const pool_job *job = arg;
    const size_t D = job->pooled->shape[1];
    const size_t begin = (size_t)job->input->starts[b], end = (size_t)job->input->starts[b + 1];
    (void)worker;
    pool_sequence(job->pooling, job->hidden + begin * D, end - begin, D,
                  (float *)job->pooled->data + (ptrdiff_t)b * job->pooled->stride[0]);
}

static mh_status check_embeddings(mh_context *context, const mh_model *model, mh_pooling pooling,
                                  const mh_model_input *input, const mh_tensor *embeddings)
{
    char found[128];
    const size_t D = model->info.embedding_dim;
    if (pooling < MH_POOLING_MEAN || pooling > MH_POOLING_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "pooling: found %d, expected an mh_pooling",
                       (int)pooling);
    if (embeddings->rank != 2 || embeddings->dtype != MH_F32 || embeddings->stride[1] != 1 ||
        embeddings->shape[0] != input->sequences || embeddings->shape[1] != D)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "embeddings: found %s, expected f32 (%zu, %zu) with contiguous rows",
                       mh_tensor_describe(embeddings, found, sizeof found), input->sequences, D);
    for (size_t b = 0; b < input->sequences; b++)
        if (input->starts[b] == input->starts[b + 1])
            return mh_fail(context, MH_ERROR_ARGUMENT, "sequence %zu: found no tokens", b);
    return MH_OK;
}

// Hidden states (rows, D) and, if they are projected, pooled ones (sequences, D) are in `memory`.
static mh_status embed_with(mh_context *context, const mh_model *model, mh_pooling pooling,
                            const mh_model_input *input, float *memory, mh_tensor *embeddings)
{
    const size_t rows = mh_model_rows(input), D = model->description.block.d_model;
    const bool projected = model->ends[MH_END_PROJECTION].rank;
    mh_tensor hidden = mh_tensor_2d(memory, MH_F32, rows, D);
    mh_tensor pooled =
        projected ? mh_tensor_2d(memory + rows * D, MH_F32, input->sequences, D) : *embeddings;
    MH_TRY(mh_model_hidden(context, model, input, &hidden));
    const pool_job job = {pooling, input, memory, &pooled};
    mh_parallel_for(context, input->sequences, pool_one, (void *)&job);
    if (!projected || input->sequences == 0)
        return MH_OK;
    mh_linear_options o = mh_linear_options_default();
    o.precision = model->precision;
    o.packed = model->packed[MH_END_PROJECTION];
    return mh_linear(context, &o, &pooled, o.packed ? NULL : &model->ends[MH_END_PROJECTION],
                     embeddings);
}

mh_status mh_model_embed(mh_context *context, const mh_model *model, mh_pooling pooling,
                         bool normalize, const mh_model_input *input, mh_tensor *embeddings)
{
    mh_model_input own;
    MH_TRY(mh_model_read_input(context, model, input, &own));
    MH_TRY(MH_NEED(context, {"embeddings", embeddings}));
    MH_TRY(check_embeddings(context, model, pooling, &own, embeddings));
    own.target_starts = NULL; // embeddings are the encoder's
    const size_t rows = mh_model_rows(&own), D = model->description.block.d_model;
    const size_t bytes = (rows + own.sequences) * D * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_status status = embed_with(context, model, pooling, &own, memory, embeddings);
    for (size_t b = 0; b < own.sequences && normalize && !status; b++)
        normalize_row((float *)embeddings->data + (ptrdiff_t)b * embeddings->stride[0],
                      embeddings->shape[1]);
    mh_free(context, memory, bytes);
    return status;
}
