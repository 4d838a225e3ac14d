// SPDX-License-Identifier: MIT
// The parameters before and after the blocks: embeddings, pooler, classifier and language model
// head.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/half.h"
#include "base/release.h"
#include "model/model_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum end_use { TABLE, VECTOR, MATRIX } end_use;

static const struct {
    const char *name;
    end_use use;
    bool required;
} ends[MH_ENDS] = {
    [MH_END_TOKEN] = {"token_embedding.weight", TABLE, true},
    [MH_END_POSITION] = {"position_embedding.weight", TABLE, true},
    [MH_END_TYPE] = {"type_embedding.weight", TABLE, true},
    [MH_END_NORM] = {"embedding_norm.weight", VECTOR, true},
    [MH_END_NORM_BIAS] = {"embedding_norm.bias", VECTOR, true},
    [MH_END_TARGET_TOKEN] = {"target_token_embedding.weight", TABLE, true},
    [MH_END_TARGET_POSITION] = {"target_position_embedding.weight", TABLE, true},
    [MH_END_TARGET_NORM] = {"target_embedding_norm.weight", VECTOR, true},
    [MH_END_TARGET_NORM_BIAS] = {"target_embedding_norm.bias", VECTOR, true},
    [MH_END_POOLER] = {"pooler.weight", MATRIX, false},
    [MH_END_POOLER_BIAS] = {"pooler.bias", VECTOR, false},
    [MH_END_CLASSIFIER] = {"classifier.weight", MATRIX, false},
    [MH_END_CLASSIFIER_BIAS] = {"classifier.bias", VECTOR, false},
    [MH_END_TEACHER] = {"distillation_classifier.weight", MATRIX, false},
    [MH_END_TEACHER_BIAS] = {"distillation_classifier.bias", VECTOR, false},
    [MH_END_TRANSFORM] = {"lm_transform.weight", MATRIX, false},
    [MH_END_TRANSFORM_BIAS] = {"lm_transform.bias", VECTOR, false},
    [MH_END_LM_NORM] = {"lm_norm.weight", VECTOR, false},
    [MH_END_LM_NORM_BIAS] = {"lm_norm.bias", VECTOR, false},
    [MH_END_LM_HEAD] = {"lm_head.weight", MATRIX, false},
    [MH_END_LM_BIAS] = {"lm_head.bias", VECTOR, false},
    [MH_END_PATCH] = {"patch_embedding.weight", MATRIX, true},
    [MH_END_PATCH_BIAS] = {"patch_embedding.bias", VECTOR, true},
    [MH_END_CLASS] = {"class_token.weight", VECTOR, true},
    [MH_END_DISTILLATION] = {"distillation_token.weight", VECTOR, true},
    [MH_END_PROJECTION] = {"projection.weight", MATRIX, false},
    [MH_END_CONV1] = {"sound_conv1.weight", MATRIX, true},
    [MH_END_CONV1_BIAS] = {"sound_conv1.bias", VECTOR, true},
    [MH_END_CONV2] = {"sound_conv2.weight", MATRIX, true},
    [MH_END_CONV2_BIAS] = {"sound_conv2.bias", VECTOR, true},
};

// The shape that the description gives an end, as a tensor without data; rank 0: the model has
// none.
static mh_tensor shape_of(const mh_description *d, mh_end end)
{
    const size_t D = d->block.d_model;
    const size_t targets = mh_description_target_vocabulary(d);
    const bool positions = d->positions && !d->sinusoidal;
    const mh_vision *v = &d->vision;
    const mh_tensor none = {.rank = 0};
    switch (end) {
    case MH_END_TOKEN:
        return v->image ? none : mh_tensor_2d(NULL, MH_F32, d->vocabulary, D);
    case MH_END_PATCH:
        return v->image ? mh_tensor_2d(NULL, MH_F32, D, v->channels * v->patch * v->patch) : none;
    case MH_END_PATCH_BIAS:
        return v->patch_bias ? mh_tensor_1d(NULL, MH_F32, D) : none;
    case MH_END_CLASS:
        return v->first > 0 ? mh_tensor_1d(NULL, MH_F32, D) : none;
    case MH_END_DISTILLATION:
        return v->first > 1 ? mh_tensor_1d(NULL, MH_F32, D) : none;
    case MH_END_PROJECTION:
        return d->projection ? mh_tensor_2d(NULL, MH_F32, d->projection, D) : none;
    case MH_END_TARGET_TOKEN:
        return mh_has_target_tokens(d) ? mh_tensor_2d(NULL, MH_F32, targets, D) : none;
    case MH_END_LM_HEAD:
        return mh_tensor_2d(NULL, MH_F32, targets, D);
    case MH_END_CONV1:
        return d->sound.mels ? mh_tensor_2d(NULL, MH_F32, D, 3 * d->sound.mels) : none;
    case MH_END_CONV2:
        return d->sound.mels ? mh_tensor_2d(NULL, MH_F32, D, 3 * D) : none;
    case MH_END_CONV1_BIAS:
    case MH_END_CONV2_BIAS:
        return d->sound.mels ? mh_tensor_1d(NULL, MH_F32, D) : none;
    case MH_END_POSITION:
        if (d->sound.mels)
            return mh_tensor_2d(NULL, MH_F32, d->sound.positions, D);
        return positions ? mh_tensor_2d(NULL, MH_F32, d->positions, D) : none;
    case MH_END_TARGET_POSITION:
        return positions && d->decoder_layers ? mh_tensor_2d(NULL, MH_F32, d->positions, D) : none;
    case MH_END_TYPE:
        return d->types ? mh_tensor_2d(NULL, MH_F32, d->types, D) : none;
    case MH_END_NORM:
    case MH_END_NORM_BIAS:
        return d->embedding_norm ? mh_tensor_1d(NULL, MH_F32, D) : none;
    case MH_END_TARGET_NORM:
    case MH_END_TARGET_NORM_BIAS:
        return d->embedding_norm && d->decoder_layers ? mh_tensor_1d(NULL, MH_F32, D) : none;
    case MH_END_POOLER:
    case MH_END_TRANSFORM:
        return mh_tensor_2d(NULL, MH_F32, D, D);
    case MH_END_CLASSIFIER:
        return mh_tensor_2d(NULL, MH_F32, d->labels,
                            d->label_input == MH_LABELS_FIRST_MEAN ? 2 * D : D);
    case MH_END_TEACHER:
        return mh_tensor_2d(NULL, MH_F32, d->labels, D);
    case MH_END_CLASSIFIER_BIAS:
    case MH_END_TEACHER_BIAS:
        return mh_tensor_1d(NULL, MH_F32, d->labels);
    case MH_END_LM_BIAS:
        return mh_tensor_1d(NULL, MH_F32, targets);
    case MH_END_POOLER_BIAS:
    case MH_END_TRANSFORM_BIAS:
    case MH_END_LM_NORM:
    case MH_END_LM_NORM_BIAS:
        return mh_tensor_1d(NULL, MH_F32, D);
    case MH_ENDS:
        break;
    }
    return none;
}

// Which ends the model has: those that it needs, and the others where the file has them. A tied
// head is the token table, whatever the file has.
static void find_ends(const mh_weight_source *source, mh_model *model)
{
    const mh_description *d = &model->description;
    for (int i = 0; i < MH_ENDS; i++) {
        mh_tensor shape = shape_of(d, (mh_end)i);
        if (!ends[i].required && !mh_weights_have(source, ends[i].name))
            shape.rank = 0;
        if (i == MH_END_LM_HEAD && d->tied)
            shape.rank = 0;
        model->ends[i] = shape;
    }
}

// Whether an end stays where it is in the file: tables of a model for inference.
static bool stays_in_file(const mh_weight_source *source, const mh_model *model, int end,
                          mh_tensor *view)
{
    return ends[end].use == TABLE && !model->trainable &&
           mh_weights_view(source, ends[end].name, view) &&
           mh_tensor_same_shape(view, &model->ends[end]);
}

// Whether rows of the token table are dequantised when they are needed: a copy of it would be
// larger than the rest of the model in 4 bits.
static bool rows_on_demand(const mh_weight_source *source, const mh_model *model, int end,
                           size_t *index)
{
    mh_stored_tensor stored;
    mh_tensor table;
    return end == MH_END_TOKEN && !model->trainable &&
           mh_weights_index(source, ends[end].name, index) &&
           mh_tensor_file_stored(source->file, *index, &stored) && stored.block_values > 1 &&
           mh_tensor_file_describe(source->file, *index, &table) &&
           mh_tensor_same_shape(&table, &model->ends[end]);
}

// Memory for all ends that are copied.
static mh_status model_ends_allocate(mh_context *context, const mh_weight_source *source,
                                     mh_model *model)
{
    mh_tensor view;
    size_t index;
    for (int i = 0; i < MH_ENDS; i++)
        if (model->ends[i].rank && !stays_in_file(source, model, i, &view) &&
            !rows_on_demand(source, model, i, &index) &&
            (ends[i].use != MATRIX || model->trainable))
            model->floats += mh_tensor_count(&model->ends[i]);
    model->values = mh_alloc(context, model->floats * sizeof(float));
    return model->values ? MH_OK : MH_ERROR_MEMORY;
}

// Packs end `i` for products as end `to`.
static mh_status model_ends_pack(mh_context *context, mh_weight_source *source, mh_model *model,
                                 int i, mh_end to)
{
    mh_tensor matrix;
    MH_TRY(mh_weights_matrix(source, ends[i].name, model->ends[i].shape, &matrix));
    const mh_tensor transposed = mh_tensor_swap(matrix, 0, 1);
    return mh_matrix_pack(context, model->precision, &transposed, &model->packed[to]);
}

static mh_status load_end(mh_context *context, mh_weight_source *source, mh_model *model, int i,
                          float **next)
{
    mh_tensor *end = &model->ends[i], view;
    if (!end->rank)
        return MH_OK;
    if (stays_in_file(source, model, i, &view)) {
        *end = view;
        return MH_OK;
    }
    if (rows_on_demand(source, model, i, &model->token_index)) {
        model->token_in_file = true;
        return MH_OK;
    }
    if (ends[i].use == MATRIX && !model->trainable)
        return model_ends_pack(context, source, model, i, (mh_end)i);
    end->data = *next;
    *next += mh_tensor_count(end);
    return mh_weights_copy(source, ends[i].name, end);
}

// A trainable model's ends as a list of parameters.
static void list_parameters(mh_model *model)
{
    for (int i = 0; i < MH_ENDS && model->trainable; i++) {
        const mh_tensor *end = &model->ends[i];
        if (!end->rank)
            continue;
        mh_parameter *p = &model->list[model->parameters.count++];
        *p = (mh_parameter){.rank = end->rank,
                            .shape = {end->shape[0], end->rank > 1 ? end->shape[1] : 0},
                            .offset = (size_t)((float *)end->data - model->values),
                            .count = mh_tensor_count(end)};
        snprintf(p->name, sizeof p->name, "%s", ends[i].name);
    }
    model->parameters.list = model->list;
    model->parameters.floats = model->trainable ? model->floats : 0;
    model->parameters.values = model->values;
}

// Marian's positions: sines in the first half of a row, cosines of the same angles in the second.
static mh_status compute_blocked(mh_context *context, mh_model *model)
{
    const mh_description *d = &model->description;
    const size_t D = d->block.d_model, half = D / 2, rows = d->positions;
    if (D % 2)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "sinusoidal positions: found a width of %zu, expected an even one", D);
    float *row = mh_alloc(context, D * sizeof *row);
    mh_status status = row ? MH_OK : MH_ERROR_MEMORY;
    mh_tensor interleaved = mh_tensor_2d(row, MH_F32, 1, D);
    for (size_t p = 0; p < rows && !status; p++) {
        status = mh_positions_sinusoidal(context, (int64_t)p, 1, &interleaved);
        for (size_t i = 0; i < half && !status; i++) {
            model->sinusoids[p * D + i] = row[2 * i];
            model->sinusoids[p * D + half + i] = row[2 * i + 1];
        }
    }
    mh_free(context, row, D * sizeof *row);
    return status;
}

static mh_status compute_positions(mh_context *context, mh_model *model)
{
    const mh_description *d = &model->description;
    const size_t D = d->block.d_model; // and rows: at most MH_MOST_TOKENS
    model->sinusoids = mh_alloc(context, d->positions * D * sizeof(float));
    if (!model->sinusoids)
        return MH_ERROR_MEMORY;
    mh_tensor table = mh_tensor_2d(model->sinusoids, MH_F32, d->positions, D);
    model->ends[MH_END_POSITION] = table;
    return d->interleaved ? mh_positions_sinusoidal(context, 0, 1, &table)
                          : compute_blocked(context, model);
}

// The head of an encoder-decoder that is not run: its file has it in place of a language model's,
// which the token table would be otherwise. NULL: there is none.
static const char *find_other_head(const mh_weight_source *source)
{
    static const char *const heads[] = {"classification_head.out_proj.weight", "qa_outputs.weight"};
    size_t index;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (mh_tensor_file_index(source->file, heads[i], &index) &&
            !mh_weights_have(source, ends[MH_END_LM_HEAD].name))
            return heads[i];
    return NULL;
}

// A tied head is the token table, packed as well where logits are wanted. So is the head of an
// encoder-decoder whose file has none.
static mh_status tie_head(mh_context *context, mh_weight_source *source, mh_model *model)
{
    mh_description *d = &model->description;
    const bool head = d->causal || d->decoder_layers || model->ends[MH_END_TRANSFORM].rank;
    model->other_head = d->decoder_layers ? find_other_head(source) : NULL;
    if (model->other_head) {
        mh_log(context, MH_LOG_WARNING,
               "%s: the head of tensor \"%s\" is not supported; the model has hidden states only",
               source->path, model->other_head);
        return MH_OK;
    }
    if (d->decoder_layers && !model->ends[MH_END_LM_HEAD].rank)
        d->tied = true;
    if (!d->tied || !head)
        return MH_OK;
    const mh_end table = mh_has_target_tokens(d) ? MH_END_TARGET_TOKEN : MH_END_TOKEN;
    model->ends[MH_END_LM_HEAD] = model->ends[table];
    if (model->trainable)
        return MH_OK;
    return model_ends_pack(context, source, model, (int)table, MH_END_LM_HEAD);
}

// Gemma multiplies by a root of the weights' type: with bf16, by 55.5 where sqrt(3072) is 55.43.
static void round_embedding_scale(const mh_weight_source *source, mh_description *d)
{
    mh_tensor view;
    if (!d->round_scale || !mh_weights_view(source, ends[MH_END_TOKEN].name, &view))
        return;
    if (view.dtype == MH_BF16)
        d->embedding_scale = mh_bf16_to_float(mh_float_to_bf16(d->embedding_scale));
    else if (view.dtype == MH_F16)
        d->embedding_scale = mh_f16_to_float(mh_float_to_f16(d->embedding_scale));
}

mh_status mh_model_load_ends(mh_context *context, mh_weight_source *source, mh_model *model)
{
    find_ends(source, model);
    MH_TRY(model_ends_allocate(context, source, model));
    float *next = model->values;
    for (int i = 0; i < MH_ENDS; i++)
        MH_TRY(load_end(context, source, model, i, &next));
    list_parameters(model);
    round_embedding_scale(source, &model->description);
    if (model->description.sinusoidal)
        MH_TRY(compute_positions(context, model));
    return tie_head(context, source, model);
}

// ---- without a file -----------------------------------------------------------------------------

// How an end begins: tables as in GPT-2 and ViT, matrices as PyTorch's Linear.
static void set_initial(const mh_model *model, mh_parameter *p, int end)
{
    const mh_end e = (mh_end)end;
    p->init = MH_INIT_ZERO;
    if (ends[end].use == TABLE || e == MH_END_CLASS) {
        p->init = MH_INIT_NORMAL;
        p->init_scale = e == MH_END_POSITION && !model->description.vision.image ? 0.01f : 0.02f;
    } else if (ends[end].use == MATRIX) {
        p->init = MH_INIT_NORMAL;
        p->init_scale = e == MH_END_PATCH ? (float)(1 / sqrt((double)p->shape[1])) : 0.02f;
    } else if (e == MH_END_NORM || e == MH_END_LM_NORM) {
        p->init = MH_INIT_ONE;
    }
}

static bool is_created(const mh_description *d, int end, bool classifier)
{
    if (end == MH_END_CLASSIFIER || end == MH_END_CLASSIFIER_BIAS)
        return classifier;
    if ((end == MH_END_POOLER || end == MH_END_POOLER_BIAS) && !d->vision.image)
        return classifier && d->label_input == MH_LABELS_POOLED;
    return ends[end].required || (end == MH_END_LM_HEAD && d->causal && !d->tied);
}

mh_status mh_model_create_ends(mh_context *context, mh_model *model, bool classifier)
{
    const mh_description *d = &model->description;
    for (int i = 0; i < MH_ENDS; i++) {
        const mh_tensor shape = shape_of(d, (mh_end)i);
        if (!is_created(d, i, classifier) || !shape.rank)
            continue;
        model->ends[i] = shape;
        model->floats += mh_tensor_count(&shape);
    }
    model->values = mh_alloc(context, model->floats * sizeof(float));
    if (!model->values)
        return MH_ERROR_MEMORY;
    memset(model->values, 0, model->floats * sizeof(float));
    float *next = model->values;
    for (int i = 0; i < MH_ENDS; i++)
        if (model->ends[i].rank) {
            model->ends[i].data = next;
            next += mh_tensor_count(&model->ends[i]);
        }
    list_parameters(model);
    for (int i = 0, k = 0; i < MH_ENDS; i++)
        if (model->ends[i].rank)
            set_initial(model, &model->list[k++], i);
    if (d->causal && d->tied)
        model->ends[MH_END_LM_HEAD] = model->ends[MH_END_TOKEN];
    return MH_OK;
}

void mh_model_free_ends(mh_model *model)
{
    const mh_description *d = &model->description;
    for (int i = 0; i < MH_ENDS; i++)
        mh_packed_matrix_free(model->packed[i]);
    mh_release(&model->allocator, model->values, model->floats * sizeof(float));
    mh_release(&model->allocator, model->sinusoids,
               d->positions * d->block.d_model * sizeof(float));
}
