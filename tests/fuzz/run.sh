#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the fuzzers into $BUILD (build-fuzz) and runs each for some time on one core, $JOBS (1) at
# once:
#   tests/fuzz/run.sh SECONDS [TARGET...]          for example: tests/fuzz/run.sh 60 fuzz_npy
# What they find interesting is kept in $BUILD/corpus/, so that the next run goes on from there; an
# input that crashes one is kept in $BUILD/crashes/ and the script fails.
set -eu
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/${BUILD:-build-fuzz}

mkdir -p "$build/crashes"
cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER="${CC:-clang}" -DMH_BUILD_FUZZERS=ON \
    -DMH_SANITIZE=fuzzer-no-link,address,undefined >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target fuzzers -j "${JOBS:-1}"
programs=$build/tests/fuzz
"$programs/make_seeds" "$build/seeds"

fuzz() { # TARGET
    corpus=$build/corpus/${1#fuzz_}
    mkdir -p "$corpus"
    "$programs/$1" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=1024 -timeout=5 \
        -dict="$root/tests/fuzz/tokens.dict" -artifact_prefix="$build/crashes/$1-" \
        -print_final_stats=1 "$corpus" "$build/seeds/${1#fuzz_}" >"$build/$1.log" 2>&1 ||
        { tail -40 "$build/$1.log"; return 1; }
    echo "$1: $(grep -E '^Done' "$build/$1.log")"
}

[ $# -gt 0 ] || set -- $(cd "$root/tests/fuzz" && ls fuzz_*.c | sed 's/\.c$//')
while [ $# -gt 0 ]; do # as many as there are jobs, then the next ones
    pids=
    for job in $(seq "${JOBS:-1}"); do
        [ $# -gt 0 ] || break
        fuzz "$1" &
        pids="$pids $!"
        shift
    done
    for pid in $pids; do wait "$pid"; done
done
