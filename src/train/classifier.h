// SPDX-License-Identifier: MIT
// The loss and the scores of tasks whose models have a classifier: of pictures and of texts.
#ifndef MH_TRAIN_CLASSIFIER_H
#define MH_TRAIN_CLASSIFIER_H

#include "train/model_task.h"

// Examples as the model reads them; all memory is scratch memory of the run.
typedef struct mh_classifier_batch {
    mh_model_input input;
    int32_t *labels;           // (count)
    mh_tensor hidden, dhidden; // (rows, D)
    mh_tensor logits;          // (count, labels)
} mh_classifier_batch;

// The sum of the losses, and the gradients of a grain's examples.
mh_status mh_classifier_loss(mh_run *run, mh_classifier_batch *batch,
                             const mh_loss_options *options, double *loss);

// The sum of the losses without smoothing, and the number of correct answers.
mh_status mh_classifier_score(mh_run *run, mh_classifier_batch *batch, mh_batch_score *score);

// Loss and accuracy over all validation batches.
mh_status mh_classifier_validate(mh_run *run, mh_batch_score_fn score_batch, mh_validation_fn told,
                                 mh_validation_score *score, bool *stopped);

#endif
