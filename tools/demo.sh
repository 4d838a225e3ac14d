#!/bin/sh
# SPDX-License-Identifier: MIT
# `make demo`: French to English with the shipped model, what its heads attend to, and attention by
# itself.
#
#     demo.sh BUILD          BUILD is the build directory

build=$(cd "${1:?usage: demo.sh BUILD}" && pwd) || exit 1
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
set -e
cd "$root"

bold= normal=
if [ -t 1 ] && [ -z "$NO_COLOR" ]; then
    bold=$(printf '\033[1m') normal=$(printf '\033[0m')
fi
title() { printf '\n%s== %s%s\n\n' "$bold" "$*" "$normal"; }
# Shows a command as one would type it, then runs it.
type_in() {
    printf '  %s$ %s%s\n' "$bold" "$*" "$normal"
    PATH=$build:$PATH sh -c "$*" >"$work/.shown"
    sed 's/^/    /' "$work/.shown"
}

title "French to English"
type_in 'multihead translate -m models/fr-en "Où est la gare ?" "Je ne sais pas pourquoi elle est partie si tôt."'

title "Which French words each English word attends to: heads of the last decoder layer"
type_in 'multihead translate -m models/fr-en --show-attention "Le chat noir dort sur la chaise."'

title "The same with one of its 36 heads switched off: head 1 of the encoder's first layer"
type_in 'multihead translate -m models/fr-en --disable-head enc.0.1 "Le chat noir dort sur la chaise."'

title "The same as a page: all layers and heads, alignment, every step of the computation"
type_in "multihead translate -m models/fr-en --attention $build/attention.html \"Le chat noir dort sur la chaise.\""
printf '\n  Open %s in a browser; it needs no network.\n' "$build/attention.html"

title "Multi-head attention, step by step"
type_in "multihead mha --preset bert-base --random 4x32 --trace"

title "This machine"
type_in "multihead info"

title "Try next"
cat <<'END'
  build/multihead serve -m models/fr-en --open    translate in the browser, see what the heads do
  build/multihead train --example numbers -o run  train a model on French numbers in a minute or two
  build/multihead train --help                    ... or on your own sentence pairs
  build/multihead attend --help                   attention on your own arrays, every mask and option
  build/multihead bench                           benchmark against this machine's measured peak
  make test                                       builds and runs the tests and the examples
  examples/01_attention.c, examples/07_train.c    the library in one page; training a Transformer
END
