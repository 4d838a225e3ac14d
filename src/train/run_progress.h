// SPDX-License-Identifier: MIT
// The progress of a run, and whether a duration has passed.
#ifndef MH_TRAIN_RUN_PROGRESS_H
#define MH_TRAIN_RUN_PROGRESS_H

#include <multihead/train.h>

typedef enum mh_pending { MH_PENDING_NOTHING, MH_PENDING_SAVE, MH_PENDING_VALIDATION } mh_pending;

// The state of a run, besides weights and moments. An epoch's batches are numbered from 0.
typedef struct mh_progress {
    uint64_t update;
    uint64_t epoch, batch; // of the next batch
    uint64_t grains;       // all so far: selects the grain's dropout
    uint64_t tokens;       // target tokens so far
    uint64_t pending;      // an mh_pending: work left to do after this update
    uint64_t saves;        // snapshots written so far
    uint64_t best_update;  // 0: none yet
    uint64_t stale;        // validations since
    double best_quality;   // mh_validation_score
    double best_loss;      // of the same; 0: unknown
    double loss_sum;       // since the last line of the log
    uint64_t loss_tokens;
} mh_progress;

// Whether `duration` is over.
bool mh_duration_over(mh_duration duration, const mh_progress *progress);

// The approximate number of updates of `duration`, given the updates and target tokens of an epoch.
uint64_t mh_duration_updates(mh_duration duration, uint64_t epoch_updates, uint64_t epoch_tokens);

// Whether a multiple of `period` lies between two states, `before` excluded.
bool mh_duration_due(mh_duration period, const mh_progress *before, const mh_progress *now);

// The fraction of `duration` that is done, 0 .. 1; epoch_part is that of the current epoch.
double mh_duration_part(mh_duration duration, const mh_progress *progress, double epoch_part);

#endif
