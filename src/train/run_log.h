// SPDX-License-Identifier: MIT
// log.jsonl: the log of a run, one JSON object per line, each line with "update" first.
#ifndef MH_TRAIN_RUN_LOG_H
#define MH_TRAIN_RUN_LOG_H

#include "support/directory.h"
#include <multihead/train.h>
#include <stdio.h>

#define MH_LOG_NAME "log.jsonl"

typedef struct mh_run_log {
    mh_context *context;
    FILE *file; // NULL: not open
    char path[MH_PATH_BYTES];
} mh_run_log;

// Opens the log to append after the lines of updates up to `update`; later lines, left by a run
// that stopped before saving, are removed. Errors: MH_ERROR_FILE, MH_ERROR_MEMORY.
mh_status mh_run_log_open(mh_context *context, const char *directory, uint64_t update,
                          mh_run_log *log);
void mh_run_log_close(mh_run_log *log);

// Adds a line: the losses of the last updates, with the label smoothing they include, or the
// results of a validation.
mh_status mh_run_log_updated(mh_run_log *log, const mh_train_event *event, double label_smoothing);
mh_status mh_run_log_validated(mh_run_log *log, const mh_train_event *event);

// Syncs the lines to disk, before a checkpoint that relies on them.
mh_status mh_run_log_sync(mh_run_log *log);

#endif
