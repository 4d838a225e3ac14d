// SPDX-License-Identifier: MIT
// Translation: sentence pairs, by an encoder-decoder of our own format.
#ifndef MH_TRAIN_TASK_TRANSLATION_H
#define MH_TRAIN_TASK_TRANSLATION_H

#include "train/run_internal.h"

mh_status mh_translation_validate(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                                  bool *stopped);

#endif
