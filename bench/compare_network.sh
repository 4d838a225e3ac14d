#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: compare_network.sh RATE DATA ROUNDS BUILD...
# The training speed of two ranks of one thread over TCP, through a cable of RATE (as of tc, such as
# 1gbit) between two network namespaces, for one or more builds in turn: target tokens per second of
# each round. Needs root.
set -eu
rate=${1:?usage: compare_network.sh RATE DATA ROUNDS BUILD...} data=$2 rounds=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
. "$here/../tests/mpi/namespaces.sh"
# shellcheck disable=SC2317
clean() { namespaces_close; rm -rf "$tmp"; }
trap clean EXIT
# shellcheck disable=SC2154
namespaces_open "$tmp" "$rate" || { echo "compare_network.sh: $why" >&2; exit 1; }

speed() # LOG: between its first and its last update
{
    awk -F '[:,]' '{ for (i = 1; i < NF; i++) { if ($i ~ /"tokens"/) t = $(i + 1); if ($i ~ /"seconds"/) s = $(i + 1) }
        if (NR == 1) { t0 = t; s0 = s } } END { printf "%.0f", (t - t0) / (s - s0) }' "$1"
}
for round in $(seq "$rounds"); do
    for build in "$@"; do
        rm -rf "$tmp/run"
        namespaces_run "$(cd "$build" && pwd)/multihead" train --data "$data" -q --threads 1 --batch-tokens 4096 \
            --save-freq 0u --tokenizer "$here/../models/fr-en/tokenizer.json" --after 10u -o "$tmp/run"
        echo "$rate, $build, round $round: $(speed "$tmp/run/log.jsonl") target tokens/s"
    done
done
