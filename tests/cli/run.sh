#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one test of the command and compares its transcript with what is expected.
#
#     run.sh NAME.sh FOLDER-OF-MULTIHEAD FOLDER-OF-HELPERS
#
# A test is a script NAME.sh that calls `run COMMAND...`. The transcript shows each command, its
# stdout, its stderr behind "! ", and its exit code if that is not 0. It must equal NAME.txt
# beside the script. After a change that is meant: UPDATE=1 make test, then read the diff.

script=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
expected=${script%.sh}.txt
PATH=$(cd "$2" && pwd):$(cd "$3" && pwd):$PATH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PATH
export LC_ALL=C
unset COLUMNS MH_ISA MULTIHEAD_MODELS HF_HOME NO_COLOR ARGP_HELP_FMT

run() {
    echo "\$ $*"
    "$@" >"$work/stdout" 2>"$work/stderr"
    code=$?
    cat "$work/stdout"
    sed 's/^/! /' "$work/stderr"
    [ $code -eq 0 ] || echo "exit $code"
}

# Says so if a file is not what it was at the time of `remember FILE`.
remember() { cp "$1" "$work/remembered"; }
untouched() { cmp -s "$1" "$work/remembered" && echo "$1 is untouched" || echo "$1 HAS CHANGED"; }

mkdir "$work/files" && cd "$work/files" || exit 1
. "$script" >"$work/transcript" 2>&1
if [ -n "$UPDATE" ]; then
    cp "$work/transcript" "$expected"
fi
diff -u "$expected" "$work/transcript"
