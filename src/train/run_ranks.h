// SPDX-License-Identifier: MIT
// A run on several ranks. Rank 0 leads: it alone reads data, writes files and reports, and tells
// the others, step by step, what all do together; they have the same data, parameters and progress.
//
//     leader       prepare -> share -> update -> update -> gather, save -> validate -> ... -> end
//     follower              share -> update -> update -> gather       -> validate -> ... -> end
//
// Every error of a step is agreed on: all ranks return it, with the message of the first that has
// it.
#ifndef MH_TRAIN_RUN_RANKS_H
#define MH_TRAIN_RUN_RANKS_H

#include "train/run_internal.h"

typedef enum mh_run_step {
    MH_STEP_END,
    MH_STEP_UPDATE,
    MH_STEP_GATHER,   // the moments, to be saved
    MH_STEP_VALIDATE, // with the leader's parameters, which may be a mean
} mh_run_step;

static inline bool mh_run_leads(const mh_run *run) { return run->ranks.rank == 0; }

// Tables of ranks, before anything else.
mh_status mh_run_tables_create(mh_run *run);
void mh_run_tables_free(mh_run *run);

// The slices of parameters that ranks own, after the arrays are allocated.
mh_status mh_run_divide(mh_run *run);

// Sends the leader's bytes to all ranks.
mh_status mh_run_pass(mh_run *run, void *data, size_t bytes);

// Shares the leader's prepared run with the others, or its `status`. Returns the same on all ranks.
mh_status mh_run_share(mh_run *run, mh_status status);

// The leader's next step; *step is set on all ranks. With MH_STEP_END it has a status, which all
// return.
mh_status mh_run_next(mh_run *run, mh_run_step *step, mh_status status);

// Whether any rank has failed: all return the first one's status, with its message.
mh_status mh_run_agree(mh_run *run, mh_status status);

// The gradients of all ranks become the sum of their tree, of which each has the elements that it
// owns: *gradients, run->owned[rank] to run->owned[rank + 1].
mh_status mh_run_reduce(mh_run *run, float **gradients);

// Every rank gets all elements of an array of `arrays.floats` that each owns a part of.
mh_status mh_run_gather(mh_run *run, float *array);

// The grains of a rank.
static inline size_t mh_run_first_grain(const mh_run *run, size_t rank)
{
    return run->grains.count / run->ranks.ranks * rank +
           run->grains.count % run->ranks.ranks * rank / run->ranks.ranks;
}

#endif
