#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: prove_sharded.sh BUILD [CASES]
# Sharded attention has the bits of one process: random option sets (200, or CASES, at the best level,
# a tenth of that at the others), each with 1 to 8 ranks and both schemes, forward and backward. Ranks
# are threads; then processes, some cases with each MPI that libmultihead-mpi was built for. Takes some
# minutes.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: prove_sharded.sh BUILD [CASES]}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
MH_TEST_ALL_RANKS=1 MH_TEST_CASES=${2:-200} "$build/tests/test_sharded"
for program in sharded_mpi:mpirun.openmpi sharded_mpich:mpirun.mpich; do
    run=${program#*:} program=$build/tests/${program%:*}
    if [ ! -x "$program" ] || ! command -v "$run" >/dev/null; then
        echo "skipped: no ${program##*/} or no $run"
        continue
    fi
    for ranks in 1 2 3 4 5 6 7 8; do
        MH_TEST_CASES=4 "$run" -n "$ranks" "$program"
    done
done
