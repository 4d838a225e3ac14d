#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/peers/run_marian.sh BUILD
# Translates the first 1,000 sentences of $MH_TEST_DATA/tatoeba-fra-eng/dev.tsv with opus-mt-fr-en, greedily and with a
# beam of 4, and compares BLEU with that of transformers' translations (tests/goldens/make_opus_mt.py): within 0.2.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: tests/peers/run_marian.sh BUILD}" && pwd)
dev=${MH_TEST_DATA:?expected the directory of tatoeba-fra-eng}/tatoeba-fra-eng/dev.tsv
golden=$here/../goldens/opus_mt_dev.tsv
model=$(python3 "$here/../../tools/fetch_models.py" opus-mt-fr-en)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

count=$(wc -l <"$golden")
head -n "$count" "$dev" >"$tmp/dev"
cut -f1 "$tmp/dev" >"$tmp/source"
cut -f2 "$tmp/dev" >"$tmp/reference"
bleu() { "$build/multihead" score --metric bleu --width 2 --json --ref "$tmp/reference" "$1" | sed 's/.*"score": \([0-9.]*\).*/\1/'; }

# compare NAME COLUMN BEAM
compare() {
    cut -f"$2" "$golden" >"$tmp/theirs"
    "$build/multihead" translate -q -m "$model" --dtype f32 --beam "$3" --input "$tmp/source" >"$tmp/ours"
    same=$(paste -d'\n' "$tmp/ours" "$tmp/theirs" | awk 'NR % 2 { ours = $0; next } ours == $0 { n++ } END { print n + 0 }')
    ours=$(bleu "$tmp/ours") theirs=$(bleu "$tmp/theirs")
    echo "$1: BLEU $ours, transformers $theirs; $same of $count translations are the same"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { exit !(a - b <= 0.2 && b - a <= 0.2) }'
}
compare greedy 1 1
compare "beam 4" 2 4
