// SPDX-License-Identifier: MIT
// The batches of the validation data, which the ranks divide among themselves in order.
#ifndef MH_TRAIN_VALID_BATCHES_H
#define MH_TRAIN_VALID_BATCHES_H

#include "train/run_internal.h"

// The first batch of a rank; of rank `ranks`, their number.
size_t mh_valid_batches_first(const mh_run *run, size_t rank);

// Gathers values (batches, count), of which each rank has those of its batches, and sums them in
// order: the same bits for any number of ranks. Errors: those of messages.
mh_status mh_valid_batches_sum(mh_run *run, double *values, size_t count, double *sums);

#endif
