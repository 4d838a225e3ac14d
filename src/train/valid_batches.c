// SPDX-License-Identifier: MIT
// See valid_batches.h.
#include "train/valid_batches.h"

#include "base/compiler.h"
#include "train/run_ranks.h"

size_t mh_valid_batches_first(const mh_run *run, size_t rank)
{
    return run->valid.batches.count * rank / run->ranks.ranks;
}

mh_status mh_valid_batches_sum(mh_run *run, double *values, size_t count, double *sums)
{
    for (size_t r = 0; r <= run->ranks.ranks; r++)
        run->starts[r] = mh_valid_batches_first(run, r) * count * sizeof *values;
    MH_TRY(mh_run_gather(run, values));
    for (size_t i = 0; i < count; i++) {
        sums[i] = 0;
        for (size_t b = 0; b < run->valid.batches.count; b++)
            sums[i] += values[b * count + i];
    }
    return MH_OK;
}
