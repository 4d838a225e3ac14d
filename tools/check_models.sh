#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_models.sh BUILD
# Published models, which are downloaded once (tools/fetch_models.py): what the command computes with
# all-MiniLM-L6-v2 must be what its authors' packages compute. Without a network nothing is checked.
set -eu
build=${1:?usage: check_models.sh BUILD}
build=$(cd "$build" && pwd)
cd "$(dirname "$0")/.."
fail() { echo "check_models: $*" >&2; exit 1; }

status=0
model=$(python3 tools/fetch_models.py minilm) || status=$?
case $status in
0) ;;
3)
    echo "skipped: models, all-MiniLM-L6-v2 could not be downloaded"
    exit 0
    ;;
*) fail "all-MiniLM-L6-v2 is not the expected one" ;;
esac

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
embed() { "$build/multihead" embed -q -m "$model" "$@" "A man is eating food." "Someone is having a meal."; }

# The first values of the first sentence, to three decimals.
embed >"$tmp/lines"
awk -v expected="0.033 0.004 -0.006 0.048 -0.139 -0.034 0.101 -0.054" '
    NR == 1 {
        n = split(expected, e, " ")
        for (i = 1; i <= n; i++)
            if ($(i + 1) - e[i] > 0.00056 || e[i] - $(i + 1) > 0.00056) bad = 1
    }
    END { exit bad || NR != 2 }' "$tmp/lines" || { cat "$tmp/lines"; fail "expected other values"; }

embed --similarity --json >"$tmp/cosines"
cosine=$(sed -n '1s/.*"similarity": \[[^,]*, \([0-9.]*\)\].*/\1/p' "$tmp/cosines")
awk -v found="$cosine" 'BEGIN { exit !(found >= 0.6885 && found <= 0.6895) }' ||
    fail "cosine: found '$cosine', expected 0.689"

MH_MINILM=$model "$build/tests/test_minilm" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "test_minilm failed"; }
echo "check_models: all-MiniLM-L6-v2: cosine $cosine, embeddings of 21 texts within 1e-6"
