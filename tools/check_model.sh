#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_model.sh BUILD
# The models that ship. The classifier of pictures must recognise as many of Fashion-MNIST's test
# pictures as is given below, if Debian's package dataset-fashion-mnist is there. The translators:
# their BLEU on the sentence pairs that they were validated with must be at least what is given
# below, greedy and with a beam, and a beam must not be worse; no translation may score below the
# greedy one because the search stopped too early. The language model: bits per byte of the English
# sentences of these pairs, which it has not read, at most what is given. These need $MH_TEST_DATA.
set -eu
build=${1:?usage: check_model.sh BUILD}
build=$(cd "$build" && pwd)
cd "$(dirname "$0")/.."
multihead=$build/multihead
pictures=/usr/share/datasets/fashion-mnist/t10k
if [ -f $pictures-images-idx3-ubyte.gz ]; then
    found=$(python3 tools/picture_accuracy.py "$build" models/fashion-vit \
        $pictures-images-idx3-ubyte.gz $pictures-labels-idx1-ubyte.gz 91.4) || exit 1
    echo "$found" | sed 's/^/fashion-vit, /'
else
    echo "check_model: skipped, Debian's package dataset-fashion-mnist is not installed"
fi
pairs=${MH_TEST_DATA:-}/tatoeba-fra-eng/dev.tsv
if [ ! -f "$pairs" ]; then
    echo "check_model: skipped, MH_TEST_DATA names no folder with tatoeba-fra-eng/dev.tsv"
    exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# translator NAME SOURCE-COLUMN TARGET-COLUMN LEAST-BLEU
translator() {
    cut -f "$2" "$pairs" >"$tmp/source"
    cut -f "$3" "$pairs" >"$tmp/reference"
    for beam in 1 5; do
        "$multihead" translate -q -m "models/$1" --beam $beam --input "$tmp/source" >"$tmp/translated"
        "$multihead" score --ref "$tmp/reference" --width 2 "$tmp/translated" | sed "s/^/$1, beam $beam: /"
        "$multihead" score --ref "$tmp/reference" --metric bleu --json --width 2 "$tmp/translated" |
            sed 's/.*"score": \([0-9.]*\).*/\1/' >"$tmp/bleu.$beam"
    done
    awk -v greedy="$(cat "$tmp/bleu.1")" -v beam="$(cat "$tmp/bleu.5")" -v least="$4" \
        'BEGIN { exit !(greedy >= least && beam >= greedy - 0.1) }' ||
        { echo "check_model: $1: expected at least $4, and no less with a beam" >&2; exit 1; }
    if [ -x "$build/tests/trace_beam" ]; then
        "$build/tests/trace_beam" "models/$1" 4 <"$tmp/source"
    fi
}
translator fr-en 1 2 53
translator en-fr 2 1 46

# language_model NAME COLUMN MOST-BITS-PER-BYTE
language_model() {
    cut -f "$2" "$pairs" >"$tmp/text"
    # an update that changes next to nothing, for the validation after it
    "$multihead" train -q --task lm --init "models/$1" --data "$tmp/text" --valid "$tmp/text" --after 1u \
        --lr 1e-9 -o "$tmp/run"
    bits=$(sed -n 's/.*"bits_per_byte": \([0-9.]*\).*/\1/p' "$tmp/run/log.jsonl" | tail -n 1)
    echo "$1: $bits bits per byte"
    awk -v bits="$bits" -v most="$3" 'BEGIN { exit !(bits > 0 && bits <= most) }' ||
        { echo "check_model: $1: expected at most $3" >&2; exit 1; }
}
language_model en-lm 2 1.6
