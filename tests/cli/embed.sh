# SPDX-License-Identifier: MIT
# multihead embed on a small BERT with random weights, to which a vocabulary of 99 tokens is given.
goldens=$(dirname "$script")/../goldens/models
copy_model() { # DIRECTORY: a copy with a vocabulary
    cp -r "$goldens/bert" "$1"
    {
        printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a man is eating food . someone \
            having meal the dog '##s' cat
        i=18
        while [ $i -lt 99 ]; do
            echo "word$i"
            i=$((i + 1))
        done
    } >"$1/vocab.txt"
}
copy_model tiny
man="A man is eating food." meal="Someone is having a meal."

run multihead embed -m tiny "$man" "$meal" ""
run multihead embed -m tiny --similarity "$man" "$meal" "$man"
run multihead embed -m tiny --pooling none "The dogs"
for pooling in mean cls last max; do
    run multihead embed -m tiny --pooling $pooling --normalize "The dogs"
done
run multihead embed -m tiny --no-normalize --batch 1 --input /dev/null
printf '%s\n%s\n' "$man" "$meal" >lines
run multihead embed -m tiny --input lines

# The same texts in batches of any size have the same bits, and a file has what is printed.
multihead embed -m tiny --out a.npy "$man" "$meal"
multihead embed -m tiny --out b.npy --batch 1 <lines
cmp a.npy b.npy && echo "the same bits"
head -c 8 a.npy | cut -c 2-6 | head -n 1
wc -c <a.npy
multihead embed -m tiny --pooling none --out tokens.npy "The dogs"
wc -c <tokens.npy

# A model's own settings
echo '[{"type": "sentence_transformers.models.Normalize"}]' >tiny/modules.json
mkdir tiny/1_Pooling
echo '{"pooling_mode_cls_token": true}' >tiny/1_Pooling/config.json
run multihead embed -m tiny "The dogs"
run multihead embed -m tiny --no-normalize --pooling mean "The dogs"

# JSON
multihead embed -m tiny --json "$man" "$(printf 'tab\t"quoted"')" | tee json | cut -c 1-48
while read -r line; do echo "$line" | check_json text embedding; done <json
multihead embed -m tiny --json --pooling none "The dogs" | check_json text tokens embedding
run multihead embed -m tiny --json --similarity cat dog | sed 's/\(0[.][0-9]\{4\}\)[0-9]*/\1.../g'

# Command lines
run multihead embed "$man"
run multihead embed -m tiny --pooling median "$man"
run multihead embed -m tiny --pooling none --normalize "$man"
run multihead embed -m tiny --pooling none "$man" "$meal"
run multihead embed -m tiny --input lines "$man"
run multihead embed -m tiny --out a.csv "$man"
run multihead embed -m tiny --out - --json "$man"
run multihead embed -m tiny --dtype f64 "$man"

# Input
long=$(printf 'cat %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 \
    29 30 31 32 33 34 35 36 37 38 39 40)
multihead embed -m tiny "cat" "$long" "dog" | wc -l
run multihead embed -m tiny -q --pooling none --out tokens.npy "$long" | sed 's/\(cat \)*cat $/cat .../'
run multihead embed -m tiny --pooling none --out tokens.npy "$long" | sed 's/\(cat \)*cat $/cat .../'
run multihead embed -m tiny --no-truncate "cat" "$long" | sed 's/\(cat \)*cat $/cat .../'
printf 'caf\351\n' >latin1
run multihead embed -m tiny --input latin1
run multihead embed -m tiny --input none
run multihead embed -m none "$man" | sed 's/ in models.*/ in .../; /models found there/d'
run multihead embed -m ./none "$man"

# Models that are not complete, or something else
run multihead embed -m "$goldens/bert" "$man" | sed "s|$goldens|GOLDENS|"
copy_model other
sed 's/"model_type": "bert"/"model_type": "mamba"/' tiny/config.json >other/config.json
run multihead embed -m other "$man"
echo '{"model_type": ' >other/config.json
run multihead embed -m other "$man"
rm other/config.json
run multihead embed -m other "$man"
copy_model truncated
head -c 20000 tiny/model.safetensors >truncated/model.safetensors
run multihead embed -m truncated "$man"
rm truncated/model.safetensors
run multihead embed -m truncated "$man"
copy_model large
echo surplus >>large/vocab.txt
run multihead embed -m large "$man"
