// SPDX-License-Identifier: MIT
// What a loaded model is: its sizes, what it can do, and the memory that it takes.
#include "io/tensor_file.h"
#include "model/model_internal.h"
#include <string.h>

// Heads that share their tensors' names with a classifier, but mean something else.
static bool is_classifier(const mh_model *model)
{
    return model->ends[MH_END_CLASSIFIER].rank &&
           (!*model->architecture || strstr(model->architecture, "ForSequenceClassification") ||
            strstr(model->architecture, "ForImageClassification"));
}

static size_t count_parameters(const mh_model *model)
{
    const mh_parameters *parameters = mh_transformer_parameters(model->transformer);
    size_t count = 0;
    for (size_t i = 0; i < parameters->count; i++)
        count += parameters->list[i].count;
    for (int i = 0; i < MH_ENDS; i++)
        if (model->ends[i].rank && !(i == MH_END_LM_HEAD && model->description.tied) &&
            !(model->sinusoids && i == MH_END_POSITION))
            count += mh_tensor_count(&model->ends[i]);
    return count;
}

static void set_position_info(const mh_description *d, mh_model_info *info)
{
    static const char *const rules[] = {"linear", "llama3", "yarn"}; // by mh_rope_rule
    const mh_rotary *rotary = &d->rotary[MH_LAYER_FULL];
    for (size_t i = 0; i < d->layers; i++)
        info->window_layers += d->sliding[i / 64] >> i % 64 & 1;
    info->window = info->window_layers ? d->window : 0;
    info->rope_base = d->block.rope ? rotary->base : 0;
    info->rope_scaling = d->block.rope && rotary->scaled ? rules[rotary->scaling.rule] : "";
}

// What is packed is measured, and computed for bf16; the rest is the same in both.
static void set_memory_info(mh_context *context, mh_model *model)
{
    const mh_description *d = &model->description;
    mh_model_info *info = &model->info;
    size_t rest = model->floats * sizeof(float);
    if (model->sinusoids)
        rest += d->positions * d->block.d_model * sizeof(float);
    info->memory_bytes = rest + mh_transformer_bytes(model->transformer);
    info->memory_bytes_bf16 = rest + mh_transformer_bytes_bf16(context, model->transformer);
    for (int i = 0; i < MH_ENDS; i++) {
        info->memory_bytes += mh_packed_matrix_bytes(model->packed[i]);
        info->memory_bytes_bf16 += mh_packed_matrix_bytes_bf16(context, model->packed[i]);
    }
}

void mh_model_set_info(mh_context *context, mh_model *model)
{
    const mh_description *d = &model->description;
    const mh_block_config *b = &d->block;
    mh_model_info *info = &model->info;
    info->family = model->family->model_type;
    info->architecture = model->architecture;
    info->abilities = d->sound.mels ? 0 : MH_CAN_EMBED;
    if (model->ends[MH_END_LM_HEAD].rank)
        info->abilities |= d->sound.mels       ? MH_CAN_TRANSCRIBE
                           : d->decoder_layers ? MH_CAN_TRANSLATE
                           : d->causal         ? MH_CAN_GENERATE
                                               : MH_CAN_FILL;
    if (is_classifier(model)) {
        info->abilities |= MH_CAN_CLASSIFY;
        info->labels = d->labels;
    }
    info->layers = d->layers;
    info->d_model = b->d_model;
    info->heads = b->num_heads;
    info->kv_heads = b->kv_heads ? b->kv_heads : b->num_heads;
    info->head_dim = b->head_dim ? b->head_dim : b->d_model / b->num_heads;
    info->dim_feedforward = b->dim_feedforward;
    info->vocabulary = d->vocabulary;
    info->causal = d->causal;
    info->decoder_layers = d->decoder_layers;
    info->target_vocabulary = mh_description_target_vocabulary(d);
    set_position_info(d, info);
    info->image_size = d->vision.image;
    info->patch_size = d->vision.image ? d->vision.patch : 0;
    info->image_channels = d->vision.image ? d->vision.channels : 0;
    info->embedding_dim = d->projection ? d->projection : b->d_model;
    info->parameters = count_parameters(model);
    info->file_bytes = model->file ? mh_tensor_file_bytes(model->file) : 0;
    set_memory_info(context, model);
}

const mh_model_info *mh_model_describe(const mh_model *model) { return &model->info; }

const char *mh_model_label(const mh_model *model, size_t i)
{
    return i < model->info.labels ? model->labels[i] : NULL;
}

const mh_tokenizer *mh_model_tokenizer(const mh_model *model) { return model->tokenizer; }

const mh_model *mh_model_text_tower(const mh_model *model) { return model->text; }

const mh_transformer *mh_model_transformer(const mh_model *model) { return model->transformer; }
