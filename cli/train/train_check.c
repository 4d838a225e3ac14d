// SPDX-License-Identifier: MIT
// Which options of `multihead train` go together.
#include "train_options.h"
#include "train_record.h"

const choice train_task_choices[] = {{"translation", MH_TASK_TRANSLATION},
                                     {"image-classification", MH_TASK_IMAGES},
                                     {"lm", MH_TASK_LM},
                                     {"classification", MH_TASK_CLASSIFICATION},
                                     {NULL, 0}};

// A run is resumed with its recorded options, which are checked together with the others. Rank 0
// looks for them.
static bool resumes(const train *t)
{
    const mh_train_options *o = &t->options;
    return !o->data && !o->example && !t->record &&
           (t->ranks.rank > 0 || train_record_exists(o->directory));
}

static void check_task(struct argp_state *state, const train *t)
{
    const mh_task_kind task = t->options.task;
    for (int i = 0; train_task_choices[i].name; i++)
        if (train_task_choices[i].value != (int)task && t->only[train_task_choices[i].value])
            argp_error(state, "%s is for --task %s", t->only[train_task_choices[i].value],
                       train_task_choices[i].name);
    if (t->max_length && (task == MH_TASK_LM || task == MH_TASK_IMAGES))
        argp_error(state, "--max-length is for sentences%s",
                   task == MH_TASK_LM ? "; use --context" : "");
    if (task == MH_TASK_TRANSLATION && t->layers)
        argp_error(state, "--layers is for other tasks; use --encoder-layers and --decoder-layers");
    if (task == MH_TASK_IMAGES && (t->text_only || t->init))
        argp_error(state, "%s is for text", t->text_only ? t->text_only : "--init");
}

static void check_init(struct argp_state *state, const train *t)
{
    const mh_train_options *o = &t->options;
    if (!o->init)
        return;
    if (o->example || o->tokenizer || t->merges)
        argp_error(state, "%s is for a new model, and --init gives one",
                   o->example     ? "--example"
                   : o->tokenizer ? "--tokenizer"
                                  : "--merges");
    if (t->preset != PRESET_NONE || t->kind)
        argp_error(state, "%s is for a new model, and --init gives one",
                   t->kind ? t->kind : "--preset");
}

void train_check_options(struct argp_state *state, train *t)
{
    const mh_train_options *o = &t->options;
    check_task(state, t);
    check_init(state, t);
    if (!o->directory)
        argp_error(state, "-o is missing: the directory for the run and its model");
    if (resumes(t)) {
        t->resumes = true;
        return;
    }
    if (!o->data && !o->example)
        argp_error(state, "--data is missing, %s%s%s", o->directory,
                   t->record ? "/" TRAIN_RECORD_NAME " has none"
                             : " has no " TRAIN_RECORD_NAME " to resume from",
                   o->task == MH_TASK_TRANSLATION ? "; without data at hand try --example numbers"
                                                  : "");
    if (o->example && (o->data || o->valid || o->data_targets || o->valid_targets))
        argp_error(state, "--example comes with its own data; leave out --data and --valid, and "
                          "their targets");
    if (o->valid_targets && !o->valid)
        argp_error(state, "--valid-targets is for --valid, which is missing");
    if (t->hold_out && (o->valid || o->example || o->task == MH_TASK_IMAGES))
        argp_error(state, "--hold-out is for text without --valid");
    const bool none = o->task == MH_TASK_IMAGES || (t->hold_out && o->held_out <= 0);
    if ((o->patience || t->valid_freq) && !o->valid && !o->example && none)
        argp_error(state, "%s is for validation, and --valid is missing",
                   o->patience ? "--patience" : "--valid-freq");
    if (t->merges && o->tokenizer)
        argp_error(state, "--merges is for learning a tokenizer, and --tokenizer gives one");
}
