#!/bin/sh
# SPDX-License-Identifier: MIT
# What `make demo` shows: attention on a sentence, the same from the shell, and this machine.
#
#     demo.sh BUILD          BUILD is the folder of the build

build=$(cd "${1:?usage: demo.sh BUILD}" && pwd) || exit 1
multihead=$build/multihead
examples=$build/examples
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
set -e

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

title "Attention on a sentence (examples/01_attention.c)"
"$examples/example_01_attention"

title "The same from the shell, on files (examples/08_files.c)"
"$examples/example_08_files" "$work"
cd "$work"
printf '\n'
type_in "multihead attend --q q.npy --k k.npy --v v.npy --out out.npy --weights weights.npy"
printf '\n  The weights, the last 64 bytes of a .npy: the cat it purred, each word a row.\n'
type_in "tail -c 64 weights.npy | od -A n -t f4 -w16"
printf '\n  With a causal mask no word looks ahead:\n'
type_in "multihead attend --q q.npy --k k.npy --v v.npy --causal top-left \\
      --out out.npy --weights weights.npy"
type_in "tail -c 64 weights.npy | od -A n -t f4 -w16"
printf '\n  The same as a picture; -o page.html makes a page of it:\n'
printf 'the\ncat,\nit\npurred\n' >tokens.txt
type_in "multihead view --weights weights.npy --tokens tokens.txt"

title "Multi-head attention, step by step"
type_in "multihead mha --preset bert-base --random 4x32 --trace"

title "What runs, and why"
type_in "multihead attend --q qkv.safetensors:q --k qkv.safetensors:k --v qkv.safetensors:v --explain"

title "This machine"
type_in "multihead info"

title "Try next"
cat <<'END'
  build/multihead attend --help            every mask and option, on your own arrays
  build/multihead mha --presets            layers of known models; --preset NAME --trace runs one
  build/multihead view --help              see what heads attend to, in the terminal or as a page
  build/multihead bench                    how fast it is here, beside the machine's limit
  build/examples/example_02_masks          each mask as a little picture
  build/examples/example_07_train          why several heads: trains models with 1 to 8 of them
  less examples/01_attention.c             the library in one page
END
