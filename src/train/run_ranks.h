// SPDX-License-Identifier: MIT
// A run on several ranks. Rank 0 leads: it alone reads data, writes files and reports, and tells
// the others, step by step, what all do together; they have the same data, parameters and progress.
//
//     leader       prepare -> share -> update -> update -> gather, save -> validate -> ... -> end
//     follower              share -> update -> update -> gather       -> validate -> ... -> end
//
// Every error is agreed on: all ranks return it, with the message of the first that has it. Memory
// is therefore taken, and agreed on, before messages that need it are started. Not agreed on are
// messages that fail, and lack of memory before the first message. With it goes that a rank's event
// function wants the run to stop: the leader then saves and ends it.
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

// The status of a message, with a message about it if it failed.
mh_status mh_run_lost(mh_run *run, mh_status status);

// Sends the leader's bytes to all ranks.
mh_status mh_run_broadcast(mh_run *run, void *data, size_t bytes);

// All ranks get all of `data`, of which rank r has bytes [run->starts[r], run->starts[r + 1]).
mh_status mh_run_gather(mh_run *run, void *data);

// Shares the leader's prepared run with the others, or its `status`. Returns the same on all ranks.
mh_status mh_run_share(mh_run *run, mh_status status);

// The leader's next step; *step is set on all ranks. With MH_STEP_END it has a status, which all
// return.
mh_status mh_run_next(mh_run *run, mh_run_step *step, mh_status status);

// Whether any rank has failed: all return the first one's status, with its message.
mh_status mh_run_agree(mh_run *run, mh_status status);

// Whether all ranks have memory for what is sent next.
static inline mh_status mh_run_agree_memory(mh_run *run, bool there)
{
    return mh_run_agree(run, there ? MH_OK : MH_ERROR_MEMORY);
}

// ---- slices of parameters (run_gradients.c) -----------------------------------------------------

// Divides the parameters among ranks, after the arrays are allocated.
mh_status mh_run_divide(mh_run *run);

// The floats of a stripe that a rank owns: measures, updates and sends.
typedef struct mh_slice {
    size_t first, count;
} mh_slice;
mh_slice mh_run_slice(const mh_run *run, size_t stripe, size_t rank);

// Where the own slice of a stripe is in an array of the own slices alone. All stripes but the last
// have as many segments of every rank.
static inline size_t mh_run_slice_offset(const mh_run *run, size_t stripe)
{
    return stripe * (run->stripe / run->ranks.ranks) * MH_SEGMENT;
}

// The gradients of all ranks become the sum of their tree. Prepare divides the grains and takes
// memory; when all have it, begin, before the grains; exchange what has not been sent after them,
// even if one has failed with `status`, as the others wait for it; then *gradients are the own
// slices of the sum.
mh_status mh_run_reduce_scatter_prepare(mh_run *run);
mh_status mh_run_reduce_scatter_begin(mh_run *run);
mh_status mh_run_reduce_scatter_exchange(mh_run *run, mh_status status);
void mh_run_reduce_scatter_end(mh_run *run, const float **gradients);

// For each grain of this rank, in order: an array for its gradients, NULL if out of memory; for the
// last one, during its backward pass, sends what is final (mh_gradients_ready_fn); and after it.
float *mh_run_reduce_scatter_take(mh_run *run, size_t grain);
void mh_run_reduce_scatter_ready(void *run, size_t first);
void mh_run_reduce_scatter_add(mh_run *run, size_t grain);

// Every rank gets all elements of an array of `arrays.floats`, of which each has its slices; and
// the same stripe by stripe.
mh_status mh_run_all_gather(mh_run *run, float *array);
mh_status mh_run_all_gather_begin(mh_run *run, float *array);
mh_status mh_run_all_gather_send(mh_run *run, const float *array, size_t stripe);
mh_status mh_run_all_gather_end(mh_run *run);

// Lets messages advance (mh_context_set_poll).
void mh_run_poll(void *run);

void mh_run_exchange_free(mh_run *run);

// The grains of a rank, after mh_run_reduce_scatter_prepare().
static inline size_t mh_run_first_grain(const mh_run *run, size_t rank)
{
    return run->first_grains[rank];
}

#endif
