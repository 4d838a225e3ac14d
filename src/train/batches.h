// SPDX-License-Identifier: MIT
// Which examples make up each step of an epoch: a function of the examples' lengths, the budget,
// the seed and the epoch alone.
//
//     mh_batches_plan(context, &examples, &options, epoch, &batches);     again for each epoch
//     for (size_t b = 0; b < batches.count; b++)
//         step(batches.examples + batches.starts[b], batches.starts[b + 1] - batches.starts[b]);
#ifndef MH_TRAIN_BATCHES_H
#define MH_TRAIN_BATCHES_H

#include "train/dataset.h"

typedef struct mh_batch_options {
    uint64_t seed;
    size_t tokens; // at most, of a batch: source and target, with </s>, without padding
} mh_batch_options;

typedef struct mh_batches {
    size_t count;       // the same for every seed and epoch
    uint32_t *examples; // (starts[count]) every example once; batch b is [starts[b], starts[b + 1])
    uint32_t *starts;   // (count + 1)
    size_t examples_capacity, starts_capacity;
} mh_batches;

// Plans an epoch. The examples of a batch have similar lengths; the grouping of examples of equal
// lengths, and the order of batches, are random. An example larger than the budget is a batch by
// itself. `batches` is all zeros or the plan of another epoch, whose memory is reused.
// Errors: MH_ERROR_MEMORY, MH_ERROR_ARGUMENT (no examples, 2^32 of them or more, a budget of 0).
mh_status mh_batches_plan(mh_context *context, const mh_dataset *examples,
                          const mh_batch_options *options, uint64_t epoch, mh_batches *batches);

// Frees all and makes it empty; all zeros is allowed.
void mh_batches_free(mh_context *context, mh_batches *batches);

#endif
