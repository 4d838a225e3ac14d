// SPDX-License-Identifier: MIT
// Validation data from the training data, where no other are given. Which texts these are depends
// on the texts and the seed alone, not on their order; equal texts stay together.
#ifndef MH_TRAIN_HELD_OUT_H
#define MH_TRAIN_HELD_OUT_H

#include "train/corpus.h"

// Moves about `part` of the corpus's pairs to *held, which is empty: by the hash of `texts`, which
// are its sources or targets. At least `least` pairs are wanted and at most `most` taken; of fewer
// than 10 * least nothing is. Errors: MH_ERROR_MEMORY.
typedef struct mh_holding {
    uint64_t seed;
    double part;
    size_t least, most;
    bool by_target;
} mh_holding;

mh_status mh_hold_out(mh_context *context, const mh_holding *how, mh_corpus *corpus,
                      mh_corpus *held);

#endif
