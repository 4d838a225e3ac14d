#!/bin/sh
# SPDX-License-Identifier: MIT
# Do the other heads compensate? Switches each head of a model off in turn, and all heads but one of
# each layer, and scores the translations:
#
#     heads.sh MULTIHEAD MODEL PAIRS.tsv [SENTENCES]       default: the first 500
#
# Prints a Markdown table: BLEU with this head off, and with only this head of its attention on.
set -eu
multihead=${1:?usage: heads.sh MULTIHEAD MODEL PAIRS.tsv [SENTENCES]}
model=${2:?}
pairs=${3:?}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
head -n "${4:-500}" "$pairs" | cut -f 1 >"$tmp/source"
head -n "${4:-500}" "$pairs" | cut -f 2 >"$tmp/reference"
size() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$model/config.json"; }
heads=$(size nhead)

bleu() # OPTIONS...: BLEU of greedy translations with these options
{
    "$multihead" translate -q -m "$model" --beam 1 "$@" --input "$tmp/source" |
        "$multihead" score --ref "$tmp/reference" --metric bleu --json |
        sed 's/.*"score": \([0-9.]*\).*/\1/'
}
others() # ATTENTION.LAYER HEAD: options that switch all heads off but this one
{
    for other in $(seq 0 $((heads - 1))); do
        [ "$other" = "$2" ] || printf -- '--disable-head %s.%s ' "$1" "$other"
    done
}

echo "All heads: BLEU $(bleu) on $(wc -l <"$tmp/source") sentences, greedy."
echo
echo "| attention, layer | head | without it | it alone |"
echo "|---|---|---|---|"
for attention in enc dec cross; do
    layers=$(size num_encoder_layers)
    [ $attention = enc ] || layers=$(size num_decoder_layers)
    for layer in $(seq 0 $((layers - 1))); do
        for head in $(seq 0 $((heads - 1))); do
            echo "| $attention $layer | $head | $(bleu --disable-head $attention.$layer.$head) |" \
                "$(bleu $(others $attention.$layer $head)) |"
        done
    done
done
