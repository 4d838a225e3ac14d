#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the fuzzers into build-fuzz/ and runs each for some time, on one core, one after the other:
#   tests/fuzz/run.sh SECONDS [TARGET...]          for example: tests/fuzz/run.sh 60 fuzz_npy
# What they find interesting is kept in build-fuzz/corpus/, so that the next run goes on from there;
# an input that crashes one is kept in build-fuzz/crashes/ and the script fails.
set -eu
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build-fuzz

mkdir -p "$build/crashes"
cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER="${CC:-clang}" -DMH_BUILD_FUZZERS=ON \
    -DMH_SANITIZE=fuzzer-no-link,address,undefined >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target fuzzers -j "${JOBS:-1}"
programs=$build/tests/fuzz
"$programs/make_seeds" "$build/seeds"

[ $# -gt 0 ] || set -- $(cd "$root/tests/fuzz" && ls fuzz_*.c | sed 's/\.c$//')
for target in "$@"; do
    corpus=$build/corpus/${target#fuzz_}
    mkdir -p "$corpus"
    echo "== $target, $seconds seconds"
    "$programs/$target" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=1024 -timeout=5 \
        -dict="$root/tests/fuzz/tokens.dict" -artifact_prefix="$build/crashes/$target-" \
        -print_final_stats=1 "$corpus" "$build/seeds/${target#fuzz_}" >"$build/$target.log" 2>&1 ||
        { tail -40 "$build/$target.log"; exit 1; }
    grep -E '^(Done|stat::)' "$build/$target.log"
done
