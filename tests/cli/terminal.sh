# SPDX-License-Identifier: MIT
# What a terminal shows meanwhile: a line of progress, as wide as the terminal, that messages erase.
# Escape sequences are written as the words cyan, plain and erase.
mkdir model
make_model model 5
yes "le chat" | head -40 >lines.txt
make_npy x.npy f32 2x1x4 1 2 3 4 5

on_terminal() { # COLUMNS COMMAND
    echo "\$ $2"
    TERM=xterm COLUMNS=$1 script -qec "stty cols $1 rows 24; $2" /dev/null </dev/null |
        sed 's/\x1b\[36m/<cyan>/g; s/\x1b\[0m/<plain>/g; s/\x1b\[K/<erase>/g' | tr '\r' '\n' |
        grep -v '^$'
}
cp -r "$(dirname "$script")/../goldens/models/vit" .
on_terminal 80 "multihead classify -m vit"
translate="multihead translate -m model --isa scalar --threads 1 --beam 1 --batch 40"
on_terminal 80 "$translate --input lines.txt -o out.txt"
on_terminal 30 "NO_COLOR=1 $translate --input lines.txt -o out.txt"
on_terminal 80 "$translate --input lines.txt -o out.txt -q"
on_terminal 80 "TERM=dumb $translate --input lines.txt -o out.txt"
on_terminal 80 "multihead mha --embed-dim 4 --heads 2 --query x.npy --out o.npy"
on_terminal 80 "multihead attend --q x.npy --k x.npy --v x.npy --out none/o.npy"
on_terminal 80 "multihead mha --embed-dim 4 --heads 2 --query x.npy --trace --no-times --isa scalar" | sed "s/ *$//"
on_terminal 120 "multihead mha --embed-dim 4 --heads 2 --query x.npy --trace --no-times --isa scalar" | head -n 6

# Control characters of a text do not reach the terminal
TEXT=$(printf 'a\033[7mb\302\233c')
export TEXT
on_terminal 80 "multihead translate -m model --isa scalar --threads 1 --target \"\$TEXT\" le" | cut -f 2
