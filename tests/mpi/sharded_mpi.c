// SPDX-License-Identifier: MIT
// usage: mpirun -n RANKS sharded_mpi
//
// test_sharded with ranks that are processes: each makes the same random cases, computes them
// alone, then its own part together with the others, and compares the bits. $MH_TEST_CASES cases,
// with both schemes each.
#include "sharded_case.h"

#include <multihead/mpi.h>

static bool run_case(mh_context *context, const mh_communicator *communicator, uint64_t seed)
{
    static sharded_case s;
    bool right = true;
    sharded_case_create(context, &s, seed, 100000000);
    s.ranks = communicator->ranks;
    for (int scheme = 0; scheme < 2; scheme++) {
        char why[2048];
        s.sharding.scheme = (mh_shard_scheme)scheme;
        sharded_case_make_shard(&s, communicator->rank);
        sharded_case_run(communicator, &s);
        if (!sharded_case_is_right(&s, communicator->rank, NULL, why, sizeof why)) {
            fprintf(stderr, "%s\n", why);
            right = false;
        }
        sharded_case_free_shard(&s, communicator->rank);
    }
    sharded_case_free(&s);
    return right;
}

int main(void)
{
    mh_communicator communicator = mh_communicator_default();
    char error[256];
    if (mh_mpi_open(&communicator, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    if (communicator.ranks > SHARDED_RANKS_MOST) {
        fprintf(stderr, "ranks: found %zu, expected at most %d\n", communicator.ranks,
                SHARDED_RANKS_MOST);
        mh_mpi_abort(&communicator, 1);
    }
    mh_context *context = test_context(NULL, 1);
    for (size_t n = 0; n < test_cases(12); n++)
        if (!run_case(context, &communicator, test_seed() + n))
            mh_mpi_abort(&communicator, 1);
    if (communicator.rank == 0)
        printf("%zu cases with %zu ranks, %s: the bits of one process\n", test_cases(12),
               communicator.ranks, mh_mpi_library());
    mh_context_free(context);
    mh_mpi_close(&communicator);
    return 0;
}
