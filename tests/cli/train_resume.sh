# SPDX-License-Identifier: MIT
# `multihead train -o DIR` resumes a run with the options that it has recorded, from any directory.
for a in one two three four five six seven eight nine ten; do
    for b in red green blue; do printf "%s\t%s\n" "$a $b" "$b $a"; done
done >pairs.tsv
head -5 pairs.tsv >dev.tsv
sizes="--preset tiny --d-model 16 --heads 2 --ff 32 --encoder-layers 1 --decoder-layers 1 --merges 40"
options="$sizes --dtype f32 --data pairs.tsv --valid=dev.tsv --batch-tokens 200 --valid-freq 10u --lr 0.003"
here() { sed "s|$PWD|PWD|"; }

multihead train -q $options --after 30u --attribution 'it\is
ours' -o straight
multihead train -q $options --after 10u --warmup 3 -o run --
multihead train -q $options --after 30u --warmup 3 --attribution 'it\is
ours' -o run
cmp straight/model.safetensors run/model.safetensors && echo "the same weights"
here <run/command.txt | tail -n 11

# Alone, and with a longer --after, which is recorded.
mkdir elsewhere
run multihead train -o run
(cd elsewhere && multihead train -q -o ../run --after 40u)
tail -n 2 run/command.txt
multihead train -q $options --after 30u --warmup 3 -o whole
multihead train -q -o whole --after 40u
cmp whole/checkpoint.safetensors run/checkpoint.safetensors && echo "the same checkpoint"
run multihead train -o run
multihead translate -m run "one red" | wc -l

# What does not fit the run is refused.
run multihead train -o run --lr 0.002
run multihead train -o run --seed 2
run multihead train -o run --patience 0
run multihead train -o elsewhere

# Data that has moved, that has changed, and that cannot be read again.
mv pairs.tsv moved.tsv
run multihead train -o run 2>&1 | here
sed -i 's|/pairs.tsv|/moved.tsv|' run/command.txt
run multihead train -o run
sed 's/one red/one rod/' moved.tsv >changed.tsv
sed -i 's|/moved.tsv|/changed.tsv|' run/command.txt
run multihead train -o run
multihead train -q $sizes --data - --after 3u -o piped <moved.tsv
run multihead train -o piped

# A record that is none.
printf -- '--data\0x\n' >piped/command.txt
run multihead train -o piped
printf -- '--data\nx' >piped/command.txt
run multihead train -o piped
printf -- '--seed\n1\n' >piped/command.txt
run multihead train -o piped
rm piped/command.txt && mkdir piped/command.txt
run multihead train -o piped
multihead train -q $sizes --data moved.tsv --after 4u -o piped
echo "exit $?"
