// SPDX-License-Identifier: MIT
// The names of a run's classes, run->labels; the index of a label is its id.
#ifndef MH_TRAIN_RUN_LABELS_H
#define MH_TRAIN_RUN_LABELS_H

#include "support/buffer.h"
#include "train/run_internal.h"

bool mh_labels_find(const mh_run *run, mh_text name, size_t *label);

// Appends a label, which is copied. Error: MH_ERROR_MEMORY.
mh_status mh_labels_add(mh_run *run, mh_text name);

void mh_labels_free(mh_run *run);

// Members of config.json's "id2label", or of "label2id": `ids`.
void mh_labels_put(mh_appender *to, const mh_run *run, bool ids);

#endif
