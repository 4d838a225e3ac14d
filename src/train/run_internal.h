// SPDX-License-Identifier: MIT
// A training run: shared by train.c and run_prepare.c.
#ifndef MH_TRAIN_RUN_INTERNAL_H
#define MH_TRAIN_RUN_INTERNAL_H

#include "model/translator_internal.h"
#include "support/directory.h"
#include "train/checkpoint.h"
#include "train/gradient_tree.h"
#include "train/grains.h"
#include "train/run_log.h"
#include "train/validate.h"

typedef struct mh_run {
    mh_context *context;
    const mh_train_options *options;
    mh_directory directory;
    bool resumed, stopped, moved;

    mh_dataset examples;
    mh_validation valid;
    mh_batches plan; // of epoch `planned`
    uint64_t planned;
    mh_batch_rows rows;

    mh_precision precision;
    mh_translator *translator;
    mh_run_arrays arrays; // its parameters and their moments
    float *aside;         // (floats): saved parameters
    mh_grains grains;     // of the current update
    mh_gradient_tree gradients;
    mh_loss_memory *memory;

    uint64_t warmup, updates; // of the run, `updates` approximately
    mh_settings settings;
    mh_progress progress;
    mh_run_log log;
    mh_train_event event;
    double begun; // time when updates began
} mh_run;

// The batches of the epoch that progress is at.
mh_status mh_run_plan_epoch(mh_run *run);

// One update; its losses are in run->progress and run->event. Errors: MH_ERROR_DIVERGED,
// MH_ERROR_MEMORY.
mh_status mh_run_update(mh_run *run);

// Everything up to the first update: opens the directory, reads the data, creates or loads the
// model.
mh_status mh_run_prepare(mh_run *run);
void mh_run_free(mh_run *run);

// Whether the directory is still at its path, checked before anything is written there by name.
// Sets run->moved if not.
mh_status mh_run_check_directory(mh_run *run);

#endif
