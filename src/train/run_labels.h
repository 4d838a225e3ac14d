// SPDX-License-Identifier: MIT
// The names of a run's classes; the index of a label is its id.
#ifndef MH_TRAIN_RUN_LABELS_H
#define MH_TRAIN_RUN_LABELS_H

#include "support/buffer.h"

#include <multihead/text.h>

typedef struct mh_labels {
    char **names; // (count)
    size_t count, capacity;
} mh_labels;

bool mh_labels_find(const mh_labels *labels, mh_text name, size_t *label);

// Appends a label, which is copied. Error: MH_ERROR_MEMORY.
mh_status mh_labels_add(mh_context *context, mh_labels *labels, mh_text name);

void mh_labels_free(mh_context *context, mh_labels *labels);

// Members of config.json's "id2label", or of "label2id": `ids`.
void mh_labels_put(mh_appender *to, const mh_labels *labels, bool ids);

#endif
