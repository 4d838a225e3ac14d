// SPDX-License-Identifier: MIT
// How far a run has come, and whether that is far enough.
#ifndef MH_TRAIN_DURATION_H
#define MH_TRAIN_DURATION_H

#include <multihead/train.h>

typedef enum mh_pending { MH_PENDING_NOTHING, MH_PENDING_SAVE, MH_PENDING_VALIDATION } mh_pending;

// All that a run is, besides weights and moments. An epoch's batches are numbered from 0.
typedef struct mh_progress {
    uint64_t update;
    uint64_t epoch, batch; // of the next batch
    uint64_t batches;      // all so far: names the batch's dropout
    uint64_t tokens;       // target tokens so far
    uint64_t pending;      // an mh_pending: what is still to be done after this update
    uint64_t saves;        // snapshots written so far
    uint64_t best_update;  // 0: none yet
    uint64_t stale;        // validations since
    double best_bleu;
    double best_loss; // of the same; 0: unknown
    double loss_sum;  // since the last line of the log
    uint64_t loss_tokens;
} mh_progress;

// Whether `duration` is over.
bool mh_duration_over(mh_duration duration, const mh_progress *progress);

// How many updates `duration` is, about, with so many updates and target tokens in an epoch.
uint64_t mh_duration_updates(mh_duration duration, uint64_t epoch_updates, uint64_t epoch_tokens);

// Whether a multiple of `period` lies between two states, `before` excluded.
bool mh_duration_due(mh_duration period, const mh_progress *before, const mh_progress *now);

// The part of `duration` that is done, 0 .. 1; epoch_part is that of the epoch at work.
double mh_duration_part(mh_duration duration, const mh_progress *progress, double epoch_part);

#endif
