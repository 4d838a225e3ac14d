// SPDX-License-Identifier: MIT
// Validation on all ranks, by the task.
#include "train/run_ranks.h"

#include "base/compiler.h"

// The leader's parameters, which may be a mean of snapshots. Followers keep theirs aside.
static mh_status share_parameters(mh_run *run)
{
    const mh_run_arrays *a = &run->arrays;
    if (run->ranks.ranks == 1 || run->options->average <= 1)
        return MH_OK;
    if (!mh_run_leads(run))
        memcpy(run->aside, a->parameters, a->floats * sizeof(float));
    return mh_run_broadcast(run, a->parameters, a->floats * sizeof(float));
}

static void restore_parameters(mh_run *run)
{
    const mh_run_arrays *a = &run->arrays;
    if (run->options->average > 1 && !mh_run_leads(run))
        memcpy(a->parameters, run->aside, a->floats * sizeof(float));
}

mh_status mh_run_validate(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                          bool *stopped)
{
    mh_status status = share_parameters(run);
    *stopped = false;
    if (!status)
        status = run->task->validate(run, told, score, stopped);
    restore_parameters(run);
    return status;
}
