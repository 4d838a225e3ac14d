# SPDX-License-Identifier: MIT
# multihead heads on the models that ship, and on small ones with random weights.
goldens=$(dirname "$script")/../goldens/models
ln -s "$(dirname "$script")/../../models/fr-en" "$(dirname "$script")/../../models/en-fr" \
    "$(dirname "$script")/../../models/en-lm" "$goldens/vit" .
printf '%s\t%s\n' 'Le chat noir dort.' 'The black cat is sleeping.' \
    'Tom parle français.' 'Tom speaks French.' 'Il fait beau, et Tom rit.' \
    "It's nice, and Tom laughs." >pairs.tsv
printf 'Tom\tTom\textra\n' >>pairs.tsv
head -n 2 pairs.tsv >two.tsv
scalar="--isa scalar --threads 1"

# Where attention goes
run multihead heads -m fr-en $scalar --input pairs.tsv
multihead heads -m fr-en --threads 1 --input pairs.tsv --json >one.json
multihead heads -m fr-en --threads 3 --input pairs.tsv --json | cmp - one.json &&
    echo "three threads"
check_json texts own_translations far rare groups <one.json
multihead heads -m fr-en $scalar --input two.tsv --width 50 | sed -n '1,/^$/p'
# A line without a tab: the model's own translation
multihead heads -m en-fr "Tom is sleeping." | tail -n 1

# A text that is too long is reported, the others are counted
{
    echo "The cat sat."
    i=0
    while [ $i -lt 300 ]; do
        printf 'word '
        i=$((i + 1))
    done
    echo
} >long.txt
multihead heads -m en-lm --input long.txt --json >one.json
echo "exit $?"
grep -o '"texts": [0-9]*' one.json

# What is lost without a head
run multihead heads -m fr-en $scalar --input two.tsv --ablate
multihead heads -m fr-en --threads 1 --input two.tsv --alone --bleu --curve --json >one.json
multihead heads -m fr-en --threads 2 --input two.tsv --alone --bleu --curve --json |
    cmp - one.json && echo "two threads"
check_json texts tokens loss_of loss bleu without_head alone without_layer curve <one.json
multihead heads -m fr-en --input two.tsv --ablate --svg off.svg --page off.html
grep -c '<rect' off.svg
grep -oE '>(head [01]|all heads|sum|encoder 0|cross 1|Increase[^<]*)<' off.html
multihead heads -m fr-en --input two.tsv --page where.html
grep -oE '>((en|de)coder self-attention|cross-attention|previous|punctuation|distance)<|<d[td]>[^<]*' where.html
grep -c '<title>' off.html

# A causal model, a masked one, and one that predicts nothing
cp -r "$goldens/gpt2" causal
{
    printf '{"T":0,"h":1,"e":2,"\304\240":3,"c":4,"a":5,"t":6,"Th":7,"The":8,"\304\240c":9,"\304\240ca":10,'
    printf '"\304\240cat":11,"s":12,"\304\240s":13,".":14,"<|endoftext|>":15}'
} >causal/vocab.json
printf '#version: 0.2\nT h\nTh e\n\304\240 c\n\304\240c a\n\304\240ca t\n\304\240 s\n' \
    >causal/merges.txt
run multihead heads -m causal $scalar "The cat sat cat" "The cat."
run multihead heads -m causal $scalar --curve --alone --width 50 "The cat sat cat" "The cat."
cp -r "$goldens/bert-mlm" masked
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the cat sat on mat play '##ing' . >masked/vocab.txt
i=13
while [ $i -lt 99 ]; do
    echo "word$i"
    i=$((i + 1))
done >>masked/vocab.txt
run multihead heads -m masked $scalar --ablate "The playing cat sat on the mat."
run multihead heads -m masked $scalar --far 1 "The playing cat sat on the mat, the cat."
multihead heads -m masked $scalar --svg - "The cat." | grep -c 'class="c'

# Pictures
i=0
{
    printf 'P3 30 30 255\n'
    while [ $i -lt 900 ]; do
        echo "$((i % 256)) $((i * 7 % 256)) $((i * 13 % 256))"
        i=$((i + 1))
    done
} >picture.ppm
run multihead heads -m vit $scalar picture.ppm

# Which heads tie two words, over the texts that have both
printf '%s\n' "the cat sat on the mat" "The playing CAT sat." "the mat" >sats.txt
run multihead heads -m masked $scalar --input sats.txt --link cat,sat
run multihead heads -m masked $scalar --json --link playing,sat <sats.txt
multihead heads -m masked $scalar --link cat,sat "the cat sat on the mat" | tail -n +2 >one.txt
multihead look -m masked $scalar --link cat,sat "the cat sat on the mat" | head -n 6 | cmp - one.txt && echo "as look"
run multihead heads -m fr-en $scalar --link noir,chat --input pairs.tsv
run multihead heads -m masked --link cat,dog --input sats.txt
run multihead heads -m masked --link cat --input sats.txt
run multihead heads -m masked --link cat,sat --ablate --input sats.txt
run multihead heads -m masked --link cat,sat --far 3 --input sats.txt
run multihead heads -m vit --link a,b picture.ppm

# One head against many
run multihead heads --compare 1,2,4,8
multihead heads --compare 1,4 --threads 1 --steps 50 --seed 7 --json >seed.json
multihead heads --compare 1,4 --threads 3 --steps 50 --seed 7 --json | cmp - seed.json && echo same
check_json steps seed chance runs <seed.json

# What is refused
run multihead heads
run multihead heads --compare 3
run multihead heads --compare 1,2 -m causal
run multihead heads --compare 1,2 --dtype bf16
run multihead heads --compare 1,2 --far 3
run multihead heads --compare 1,2 --width 60
run multihead heads -m causal --steps 5 "The"
run multihead heads -m causal --seed 5 "The"
run multihead heads -m causal --far 3 --ablate "The"
run multihead heads -m causal --far 0 "The"
run multihead heads -m causal --bleu "The cat"
run multihead heads -m causal --ablate "T"
run multihead heads -m fr-en --ablate "Bonjour."
run multihead heads -m vit --ablate picture.ppm
: >empty
run multihead heads -m causal --input empty
run multihead heads -m causal --page o.html --svg o.html "The"
