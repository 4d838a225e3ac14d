#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: run_tests.sh BUILD JOBS [CTEST OPTION...]
# Runs the tests of a build with ctest, and names the tests and cases that were skipped afterwards, each
# with the reason that the test printed.
build=${1:?usage: run_tests.sh BUILD JOBS [CTEST OPTION...]}
jobs=$2
shift 2
ctest --test-dir "$build" --output-on-failure --no-tests=error --no-label-summary -j "$jobs" "$@"
status=$?

# A case's lines are "[ RUN      ] name", what it printed, "[  SKIPPED ] name".
awk '
    /^[0-9]+\/[0-9]+ Test(ing)?: / { test = $NF; reason = "" }
    /^\[ RUN      \]/ { running = 1; reason = ""; next }
    /^\[  SKIPPED \]/ && running { print "skipped: " test ", " $4 (reason ? ": " reason : "") }
    /^\[/ { running = 0; next }
    sub("^skipped: (" test "[:,] )?", "skipped: " test ": ") && !running { print }
    running && NF { reason = $0 }' "$build/Testing/Temporary/LastTest.log"
exit $status
