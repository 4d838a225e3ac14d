// SPDX-License-Identifier: MIT
// Examples to the rows of a batch.
#ifndef MH_TRAIN_BATCH_ROWS_H
#define MH_TRAIN_BATCH_ROWS_H

#include "model/translator_loss.h"
#include "train/dataset.h"

// All zeros is empty; the memory is reused.
typedef struct mh_batch_rows {
    int32_t *numbers; // all arrays of ids and positions
    int64_t *starts;  // both arrays of starts
    size_t numbers_capacity, starts_capacity;
} mh_batch_rows;

// The examples `which` (count) as one batch, which points into `rows`. `bos` is <s>. Errors:
// MH_ERROR_MEMORY.
mh_status mh_batch_rows_fill(mh_context *context, const mh_dataset *examples, const uint32_t *which,
                             size_t count, int32_t bos, mh_batch_rows *rows, mh_pair_batch *batch);
void mh_batch_rows_free(mh_context *context, mh_batch_rows *rows);

// The target tokens of some examples.
size_t mh_target_tokens(const mh_dataset *examples, const uint32_t *which, size_t count);

#endif
