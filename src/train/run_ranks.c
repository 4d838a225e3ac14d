// SPDX-License-Identifier: MIT
// Steps of a run on several ranks, and what they agree on; see run_ranks.h.
#include "train/run_ranks.h"

#include "base/compiler.h"
#include "support/grow.h"
#include <stdio.h>

enum { MESSAGE = 480 };

// ---- tables -------------------------------------------------------------------------------------

static size_t table_bytes(const mh_run *run)
{
    const size_t R = run->ranks.ranks;
    return 2 * (R + 1) * sizeof(size_t) + R * sizeof(int32_t);
}

mh_status mh_run_tables_create(mh_run *run)
{
    run->starts = mh_alloc(run->context, table_bytes(run));
    if (!run->starts)
        return MH_ERROR_MEMORY;
    run->first_grains = run->starts + run->ranks.ranks + 1;
    run->statuses = (int32_t *)(run->first_grains + run->ranks.ranks + 1);
    return MH_OK;
}

void mh_run_tables_free(mh_run *run)
{
    mh_shrink(run->context, &run->norms, &run->segments, sizeof *run->norms);
    if (run->starts)
        mh_free(run->context, run->starts, table_bytes(run));
}

// ---- messages -----------------------------------------------------------------------------------

mh_status mh_run_lost(mh_run *run, mh_status status)
{
    return status ? mh_fail(run->context, status,
                            "rank %zu: a message to or from another rank failed", run->ranks.rank)
                  : MH_OK;
}

mh_status mh_run_broadcast(mh_run *run, void *data, size_t bytes)
{
    return mh_run_lost(run, mh_communicator_broadcast(&run->ranks, data, bytes));
}

mh_status mh_run_gather(mh_run *run, void *data)
{
    return mh_run_lost(run, mh_communicator_gather(&run->ranks, data, run->starts));
}

// ---- steps --------------------------------------------------------------------------------------

typedef struct announcement {
    int32_t step, status, stopped;
    char message[MESSAGE];
} announcement;

// All have the announcement of the rank that it is of.
static mh_status follow(mh_run *run, const announcement *a)
{
    run->agreed = a->status != MH_OK;
    return a->status ? mh_fail(run->context, (mh_status)a->status, "%s", a->message) : MH_OK;
}

static void describe(const mh_run *run, mh_status status, announcement *a)
{
    a->status = (int32_t)status;
    snprintf(a->message, sizeof a->message, "%s", status ? mh_error_message(run->context) : "");
}

mh_status mh_run_next(mh_run *run, mh_run_step *step, mh_status status)
{
    announcement a = {.step = (int32_t)*step, .stopped = run->stopped};
    if (run->ranks.ranks == 1)
        return status;
    describe(run, status, &a);
    MH_TRY(mh_run_broadcast(run, &a, sizeof a));
    *step = (mh_run_step)a.step;
    run->stopped = run->stopped || a.stopped;
    return follow(run, &a);
}

// Statuses carry this bit of ranks that want the run to stop.
enum { STOP = 1 << 16 };

static void take_stops(mh_run *run)
{
    for (size_t r = 0; r < run->ranks.ranks; r++) {
        run->stopped = run->stopped || run->statuses[r] & STOP;
        run->statuses[r] &= ~STOP;
    }
}

mh_status mh_run_agree(mh_run *run, mh_status status)
{
    const size_t R = run->ranks.ranks;
    if (R == 1)
        return status;
    for (size_t r = 0; r <= R; r++)
        run->starts[r] = r * sizeof *run->statuses;
    run->statuses[run->ranks.rank] = (int32_t)status | (run->stopped ? STOP : 0);
    MH_TRY(mh_run_gather(run, run->statuses));
    take_stops(run);
    size_t first = 0;
    while (first < R && !run->statuses[first])
        first++;
    if (first == R)
        return MH_OK;
    for (size_t r = 0; r <= R; r++)
        run->starts[r] = r <= first ? 0 : sizeof(announcement);
    announcement a = {0};
    if (first == run->ranks.rank)
        describe(run, status, &a);
    MH_TRY(mh_run_gather(run, &a));
    return follow(run, &a);
}
