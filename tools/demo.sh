#!/bin/sh
# SPDX-License-Identifier: MIT
# `make demo`: the first five minutes of docs/learn. Attention in numbers, a translator, and what its
# heads attend to.
#
#     demo.sh BUILD          BUILD is the build directory

build=$(cd "${1:?usage: demo.sh BUILD}" && pwd) || exit 1
root=$(cd "$(dirname "$0")/.." && pwd)
set -e
cd "$root"

bold= normal=
if [ -t 1 ] && [ -z "$NO_COLOR" ]; then
    bold=$(printf '\033[1m') normal=$(printf '\033[0m')
fi
title() { printf '\n%s== %s%s\n\n' "$bold" "$*" "$normal"; }
# Output that is piped into sed, too, is as wide as the terminal.
columns=$(stty size 2>/dev/null </dev/tty | cut -d ' ' -f 2) || columns=
COLUMNS=${columns:-80}
export COLUMNS
# Shows a command as one would type it, then runs it.
type_in() {
    printf '%s$ %s%s\n' "$bold" "$*" "$normal"
    PATH=$build:$PATH sh -c "$*"
}

printf 'To type these commands yourself: export PATH=%s:$PATH\n' "$build"
title "Attention: three tokens, four numbers each (docs/learn/1-attention.md)"
type_in 'multihead attend --random 3x4 --trace'

title "Two heads of width 2: each weighs the five tokens in its own way (3-heads.md)"
type_in "multihead mha --embed-dim 4 --heads 2 --random 1x5 --trace --values --no-times | sed -n '/^Values/,/^$/p'"

title "A whole encoder layer: attention, residual sums, LayerNorm, feed-forward (6-encoder.md)"
type_in 'multihead encoder --d-model 512 --nhead 8 --random 32x10 --trace'

title "Encoder and decoder together: French to English, English to French (7-decoder.md)"
type_in 'multihead translate -m fr-en "Où est la gare ?" "Je ne sais pas pourquoi elle est partie si tôt."'
type_in 'multihead translate -m en-fr "The bank approved the loan yesterday."'

title "Which English words each French word attends to, in one head of the last layer"
type_in 'multihead look -m en-fr "The bank approved the loan yesterday." --head 1'

title "Which heads tie cat and ran together? (8-what-heads-learn.md)"
type_in 'multihead look -m en-fr "The cat that I saw yesterday ran away." --link cat,ran'

title "Without one layer of cross-attention, and without any"
type_in 'multihead translate -m en-fr --disable-head cross.2 "My sister gave me the book that she wrote last year."'
type_in 'multihead translate -m en-fr --disable-head cross.0 --disable-head cross.1 --disable-head cross.2 "My sister gave me the book that she wrote last year."'

title "How much each head is missed: the increase in loss of a translation without it"
type_in "printf 'The bank approved the loan yesterday.\tLa banque a approuvé le prêt hier.\n' | multihead heads -m en-fr --ablate"

title "What is in a picture, and where the model looks: a map of its patches for each head"
type_in 'multihead classify -m fashion-vit --top 3 examples/pictures/shirt.pgm'
type_in 'multihead look -m fashion-vit examples/pictures/shirt.pgm'

title "All layers and heads as a page, with every step of the computation"
page=${build#"$root"/}/attention.html
type_in "multihead look -m en-fr 'The cat that I saw yesterday ran away.' --page $page"
printf 'Open %s in a browser; it needs no network.\n' "$page"

title "Try next"
cat <<'END'
  docs/learn/README.md                            nine short pages, with commands to copy
  build/multihead serve -m models/fr-en --open    translate in the browser, see what the heads do
  build/multihead train --example numbers -o run  train a model on French numbers in a minute or two
  build/multihead train --help                    ... or on your own sentence pairs
  build/multihead attend --help                   attention on your own arrays, every mask and option
  build/multihead info                            this machine: CPU features, kernels, threads
  build/multihead bench                           benchmark against this machine's measured peak
  make test                                       builds and runs the tests and the examples
  examples/01_attention.c, examples/07_train.c    the library in one page; training a Transformer
END
