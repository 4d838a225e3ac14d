#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: netns.sh BUILD
# Training over TCP between two network namespaces, in a directory for each. The weights must be those of
# one process, and the gradients must have gone through the cable. Needs root; skipped where namespaces
# are not permitted.
set -u
build=$(cd "${1:?usage: netns.sh BUILD}" && pwd)
multihead=$build/multihead
tmp=$(mktemp -d)
. "$(dirname "$0")/namespaces.sh"
# shellcheck disable=SC2317
clean() { namespaces_close; rm -rf "$tmp"; }
trap clean EXIT
skip() { echo "skipped: mpi over TCP: $1"; exit 0; }

[ -e "$build/libmultihead-mpi.so" ] || skip "no libmultihead-mpi"
# shellcheck disable=SC2154
namespaces_open "$tmp" || skip "$why"

options="--example numbers --batch-tokens 30720 --after 6u --valid-freq 0u --save-freq 3u --threads 1 -q"
# shellcheck disable=SC2086
"$multihead" train $options -o "$tmp/one" || exit 1
mkdir "$tmp/0" "$tmp/1"
printf '#!/bin/sh\ncd "%s/$OMPI_COMM_WORLD_RANK" && exec "$@"\n' "$tmp" >"$tmp/apart"
chmod +x "$tmp/apart"
# shellcheck disable=SC2086
namespaces_run timeout 120 "$tmp/apart" "$multihead" train $options -o two || {
    echo "mpi over TCP: exit code $?" >&2
    exit 1
}
sent=$(namespaces_sent)
one=$(sha256sum <"$tmp/one/model.safetensors") two=$(sha256sum <"$tmp/0/two/model.safetensors")
[ -z "$(ls "$tmp/1")" ] || {
    echo "mpi over TCP: rank 1 has written files" >&2
    exit 1
}
size=$(wc -c <"$tmp/one/model.safetensors")
[ "$one" = "$two" ] || {
    echo "mpi over TCP: other weights than those of one process" >&2
    exit 1
}
# Half of the gradients and half of the parameters in each update, half of the moments in each of two
# saves, and the run at the start; 15 grains are cut so that each rank has one node of their sum.
[ "$sent" -gt $((6 * size)) ] || {
    echo "mpi over TCP: only $sent bytes went through the cable" >&2
    exit 1
}
[ "$sent" -lt $((21 * size / 2)) ] || {
    echo "mpi over TCP: $sent bytes went through the cable, more than 6 + 3 + 1.5 times the model's $size" >&2
    exit 1
}
echo "mpi over TCP: two namespaces, the weights of one process; $sent bytes sent in 6 updates of $size bytes"
