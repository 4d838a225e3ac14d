// SPDX-License-Identifier: MIT
// Evaluates a translator on validation data.
#ifndef MH_TRAIN_VALIDATE_H
#define MH_TRAIN_VALIDATE_H

#include "train/batch_rows.h"
#include "train/batches.h"

typedef struct mh_validation {
    mh_corpus corpus;    // count 0: none
    mh_dataset examples; // of the corpus
    mh_batches batches;  //
    mh_batch_rows rows;
} mh_validation;

typedef struct mh_validation_score {
    double loss;              // per token, without label smoothing
    double bleu, chrf, exact; // of greedy translations
} mh_validation_score;

// Whether a score is better than the best so far: by BLEU; by loss if BLEU is equal, or below 1 in
// both, where it is noise. A best loss of 0 is unknown: early checkpoints did not have it.
bool mh_validation_beats(const mh_validation_score *score, const mh_validation_score *best);

// Reports translation progress; returning false stops it.
typedef bool (*mh_validation_fn)(void *user, double part);

// Errors: MH_ERROR_MEMORY. *stopped: the callback returned false, and there is no score.
mh_status mh_validate(mh_context *context, const mh_translator *translator, mh_validation *data,
                      mh_loss_memory *memory, mh_validation_fn told, void *user,
                      mh_validation_score *score, bool *stopped);
void mh_validation_free(mh_context *context, mh_validation *data);

#endif
