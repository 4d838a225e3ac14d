// SPDX-License-Identifier: MIT
// What tasks, presets, --example and --init set: sizes of models, and how they are trained.
#include "train_options.h"

static void set_preset(mh_translator_config *model, mh_task_kind task, int preset)
{
    static const size_t sizes[][5][4] = {
        [MH_TASK_TRANSLATION] = {[PRESET_NANO] = {64, 2, 2, 256},
                                 [PRESET_TINY] = {128, 4, 2, 512},
                                 [PRESET_SMALL] = {256, 4, 3, 1024},
                                 [PRESET_BASE] = {512, 8, 6, 2048}},
        [MH_TASK_IMAGES] = {[PRESET_NANO] = {64, 2, 4, 128},
                            [PRESET_TINY] = {96, 3, 4, 192},
                            [PRESET_SMALL] = {192, 3, 6, 768},
                            [PRESET_BASE] = {384, 6, 12, 1536}},
        [MH_TASK_LM] = {[PRESET_NANO] = {128, 4, 4, 512},
                        [PRESET_TINY] = {256, 4, 6, 1024},
                        [PRESET_SMALL] = {512, 8, 8, 2048},
                        [PRESET_BASE] = {768, 12, 12, 3072}},
        [MH_TASK_CLASSIFICATION] = {[PRESET_NANO] = {64, 2, 2, 256},
                                    [PRESET_TINY] = {128, 4, 2, 512},
                                    [PRESET_SMALL] = {256, 4, 4, 1024},
                                    [PRESET_BASE] = {512, 8, 6, 2048}},
    };
    model->d_model = sizes[task][preset][0];
    model->nhead = sizes[task][preset][1];
    model->num_encoder_layers = model->num_decoder_layers = sizes[task][preset][2];
    model->dim_feedforward = sizes[task][preset][3];
}

// What suits the other tasks: AdamW with decay, and a cosine.
static void set_task(train *t)
{
    mh_train_options *o = &t->options;
    o->batch_tokens = MH_BATCH_TOKENS_AUTO;
    if (o->task == MH_TASK_TRANSLATION)
        return;
    set_preset(&t->model, o->task, PRESET_TINY);
    t->model.dropout = 0;
    o->schedule = MH_SCHEDULE_COSINE;
    if (o->task == MH_TASK_IMAGES) {
        o->weight_decay = 0.05;
        o->beta2 = 0.999;
        o->crop_padding = 2;
        o->flip = true;
    } else if (o->task == MH_TASK_CLASSIFICATION) {
        t->model.dropout = 0.1F;
        o->weight_decay = 0.01;
        o->beta2 = 0.999;
        o->label_smoothing = 0;
        o->after = (mh_duration){5, MH_EPOCHS};
    } else {
        o->weight_decay = 0.1;
        o->beta2 = 0.95;
        o->label_smoothing = 0;
        o->valid_every = (mh_duration){500, MH_UPDATES};
    }
}

// Sizes that are not given are the model's; so are kinds.
static void set_init(train *t)
{
    const mh_task_kind task = t->options.task;
    const bool classifies = task == MH_TASK_CLASSIFICATION;
    t->model = (mh_translator_config){.struct_size = sizeof t->model,
                                      .dropout = classifies ? 0.1F : -1.0F};
    t->options.learning_rate = classifies ? 5e-5 : task == MH_TASK_LM ? 1e-4 : 3e-4;
}

// A minute or two on two cores; nearly all numbers are translated correctly.
static void set_example(train *t)
{
    mh_train_options *o = &t->options;
    o->merges = 100;
    set_preset(&t->model, MH_TASK_TRANSLATION, PRESET_TINY);
    t->model.dropout = 0;
    o->batch_tokens = 2048;
    o->learning_rate = 3e-3;
    o->after = (mh_duration){8, MH_EPOCHS};
}

void train_set_defaults(train *t)
{
    set_task(t);
    if (t->options.init)
        set_init(t);
    if (t->options.example)
        set_example(t);
    if (t->preset != PRESET_NONE)
        set_preset(&t->model, t->options.task, t->preset);
}
