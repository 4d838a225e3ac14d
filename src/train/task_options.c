// SPDX-License-Identifier: MIT
// See task_options.h.
#include "train/task_options.h"

#include "base/compiler.h"

enum {
    TRANSLATION = 1 << MH_TASK_TRANSLATION,
    IMAGES = 1 << MH_TASK_IMAGES,
    LM = 1 << MH_TASK_LM,
    TEXT = TRANSLATION | LM | 1 << MH_TASK_CLASSIFICATION,
};

static const char *name_tasks(int tasks)
{
    return tasks == TRANSLATION ? "translation"
           : tasks == IMAGES    ? "pictures"
           : tasks == LM        ? "language models"
                                : "text";
}

mh_status mh_task_options_check(mh_context *context, const mh_train_options *o)
{
    const mh_train_options usual = mh_train_options_default();
    const struct {
        const char *name;
        bool given;
        int tasks;
    } options[] = {
        {"example", o->example, TRANSLATION},
        {"data_targets", o->data_targets, TRANSLATION},
        {"valid_targets", o->valid_targets, TRANSLATION},
        {"more_data", o->more_data_count, LM},
        {"arch", o->arch != usual.arch, LM},
        {"tokenizer", o->tokenizer, TEXT},
        {"merges", o->merges != usual.merges, TEXT},
        {"init", o->init, TEXT},
        {"held_out", o->held_out > 0, TEXT},
        {"label_names", o->label_names, IMAGES},
        {"image_size", o->image_size, IMAGES},
        {"patch_size", o->patch_size != usual.patch_size, IMAGES},
        {"crop_padding", o->crop_padding, IMAGES},
        {"flip", o->flip, IMAGES},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given && !(options[i].tasks & 1 << o->task))
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: expected none, it is for %s",
                           options[i].name, name_tasks(options[i].tasks));
    return MH_OK;
}
