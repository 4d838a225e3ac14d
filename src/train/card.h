// SPDX-License-Identifier: MIT
// The README.md of a run: what the model is, how it was made, how good it is.
#ifndef MH_TRAIN_CARD_H
#define MH_TRAIN_CARD_H

#include <multihead/train.h>

// `event` has the figures of the model that lies beside it. The file appears whole or not at all.
mh_status mh_card_write(mh_context *context, const mh_train_options *options,
                        const mh_train_event *event);

#endif
