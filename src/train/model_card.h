// SPDX-License-Identifier: MIT
// The README.md of a run (model card): the model, its training, its scores.
#ifndef MH_TRAIN_MODEL_CARD_H
#define MH_TRAIN_MODEL_CARD_H

#include <multihead/pretrained.h>
#include <multihead/train.h>

// `event` has the results of the model in the same directory; `model` is NULL for a translator of
// ours. The file is written atomically.
mh_status mh_card_write(mh_context *context, const mh_train_options *options,
                        const mh_model_info *model, const mh_train_event *event);

#endif
