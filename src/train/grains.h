// SPDX-License-Identifier: MIT
// Grains: the parts that an update's batches are cut into. Each grain is one forward and backward
// pass, and an update's gradient is a sum over grains in a fixed order (gradient_tree.h). So its
// bits are a function of the data, and not of how many processes share the work.
#ifndef MH_TRAIN_GRAINS_H
#define MH_TRAIN_GRAINS_H

#include "train/batches.h"

typedef struct mh_grain {
    const uint32_t *examples; // (count), in the plan
    size_t count;             // at least 1
} mh_grain;

typedef struct mh_grains {
    mh_grain *list; // (count)
    size_t count, capacity;
} mh_grains;

// The grains of batches first to end - 1, in order, of about `tokens` each, source and target.
// `grains` is all zeros or that of another update, whose memory is reused. Errors: MH_ERROR_MEMORY.
mh_status mh_grains_cut(mh_context *context, const mh_dataset *examples, const mh_batches *plan,
                        size_t first, size_t end, size_t tokens, mh_grains *grains);

// How many these are.
size_t mh_grains_count(const mh_dataset *examples, const mh_batches *plan, size_t first, size_t end,
                       size_t tokens);

// Frees all and makes it empty; all zeros is allowed.
void mh_grains_free(mh_context *context, mh_grains *grains);

#endif
