// SPDX-License-Identifier: MIT
// Progress of a training run: one live line on a terminal, else a line now and then.
#ifndef CLI_TRAIN_PROGRESS_H
#define CLI_TRAIN_PROGRESS_H

#include <multihead/train.h>

typedef struct train_progress {
    double shown; // seconds, when the last line was
    double rate;  // target tokens per second, recently
    double rated; // seconds and tokens when that was measured
    uint64_t rated_tokens;
    size_t updates;                 // of this process
    double measured, measured_part; // when the first one ended, and the part of the run then
    bool estimated;                 // the time that is left has been told
} train_progress;

// Handles an event of a run; `p` is initially all zeros.
void train_progress_show(train_progress *p, const mh_train_event *event);

#endif
