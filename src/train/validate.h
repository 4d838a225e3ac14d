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
    double quality;           // what models are compared by: BLEU, the accuracy in %, or 0
    double bleu, chrf, exact; // of greedy translations
    double accuracy;          // of classifiers
    double bits_per_byte;     // of text
} mh_validation_score;

// Whether a score is better than the best so far: by quality; by loss if that is equal, or below 1
// in both, where it is noise. A best loss of 0 is unknown: early checkpoints did not have it.
bool mh_validation_beats(const mh_validation_score *score, const mh_validation_score *best);

// The sum of one batch's losses. Errors: MH_ERROR_MEMORY.
mh_status mh_validation_loss(mh_context *context, const mh_translator *translator,
                             mh_validation *data, mh_loss_memory *memory, size_t batch,
                             double *loss);

// The scores of the translations `found` (corpus->count). Errors: MH_ERROR_MEMORY.
mh_status mh_validation_scores(mh_context *context, const mh_corpus *corpus, const mh_text *found,
                               mh_validation_score *score);
void mh_validation_free(mh_context *context, mh_validation *data);

#endif
