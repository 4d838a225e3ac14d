#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: build.sh BUILD JOBS TARGET...
# Builds targets of a configured build directory. Shows how far it is in one line that is rewritten
# (without a terminal: one line at the start), warnings and errors in full, and nothing if there was
# nothing to do.
build=${1:?usage: build.sh BUILD JOBS TARGET...}
jobs=$2
shift 2
terminal=0
[ -t 1 ] && terminal=1

# The inner make has its own -j and does not join the outer one's job server. Its exit status is the
# last line that awk sees.
{
    MAKEFLAGS=--no-print-directory cmake --build "$build" -j "$jobs" --target "$@" 2>&1
    echo "exit status $?"
} | awk -v terminal="$terminal" -v build="$build" '
    function clear_line() { if (shown) printf "\r\033[K"; shown = 0 }
    /^exit status [0-9]+$/ { status = $3; next }
    /^\[ *[0-9]+%\] Built target |^-- |^Consolidate compiler generated dep/ { next }
    /^\[ *[0-9]+(%|\/[0-9]+)\]/ {
        if (terminal) { sub(/^\[ */, ""); sub(/\].*/, ""); printf "\rbuilding: %s\033[K", $0; shown = 1 }
        else if (!started) print "building in " build
        started = 1
        fflush()
        next
    }
    { clear_line(); print; fflush() }
    END { clear_line(); exit status }'
