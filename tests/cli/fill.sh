# SPDX-License-Identifier: MIT
# multihead fill on small models with random weights, to which vocabularies are given.
goldens=$(dirname "$script")/../goldens/models
word_pieces() { # DIRECTORY: a vocabulary of 99 tokens
    {
        printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the cat sat on mat play '##ing' .
        i=13
        while [ $i -lt 99 ]; do
            echo "word$i"
            i=$((i + 1))
        done
    } >"$1/vocab.txt"
}
cp -r "$goldens/bert-mlm" tiny
word_pieces tiny
scalar="--isa scalar --threads 1"
run multihead fill -m tiny $scalar "The cat [MASK] on the mat."
run multihead fill -m tiny $scalar --top 2 "The cat <mask> on the ____." "[MASK]"

# All spellings of a mask are the same text to the model.
multihead fill -m tiny $scalar "The [MASK] sat" | tail -n 5 >expected
for mask in '<mask>' ___ ______; do
    multihead fill -m tiny $scalar "The $mask sat" | tail -n 5 | cmp - expected && echo "$mask"
done
multihead fill -m tiny --isa scalar --threads 3 "The [MASK] sat" | tail -n 5 | cmp - expected
multihead fill -m tiny $scalar --top 1000 "[MASK]" | wc -l
printf 'the [MASK]\n[MASK] cat\n' >lines
run multihead fill -m tiny $scalar --top 1 --input lines

# JSON
run multihead fill -m tiny $scalar --json --top 2 "The \"cat\" [MASK] ___" |
    sed 's/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'
multihead fill -m tiny $scalar --json "The [MASK]" | check_json text masks

# Damaged weights: the last one, of the head, is NaN
cp -r tiny damaged
printf '\000\000\300\177' | dd of=damaged/model.safetensors bs=1 seek=$(($(wc -c <damaged/model.safetensors) - 4)) \
    conv=notrunc 2>dd.log
run multihead fill -m damaged --json "The [MASK]"

# No mask, no head, no tokenizer, no model
run multihead fill -m tiny "The cat sat."
run multihead fill -m tiny "The cat __ sat."
run multihead fill -m tiny ""
run multihead fill -m tiny --top 1 $scalar "the [MASK]" "the cat"
long=$(printf 'the %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 \
    30 31 32 33 34 35 36 37 38 39 40)
multihead fill -m tiny "$long [MASK]"
multihead fill -m tiny $scalar --top 1 --no-truncate "[MASK]" "$long [MASK]"
cp -r "$goldens/bert" headless
word_pieces headless
run multihead fill -m headless "The [MASK]"
cp -r "$goldens/bert-mlm" silent
run multihead fill -m silent "The [MASK]"
cp -r tiny broken
echo '{"model_type": "bert", "hidden_size": }' >broken/config.json
run multihead fill -m broken "The [MASK]"
echo '{"model_type": "elmo"}' >broken/config.json
run multihead fill -m broken "The [MASK]"
run multihead fill "The [MASK]"
run multihead fill -m tiny --top 0 "The [MASK]"
run multihead fill -m tiny --top many "The [MASK]"
multihead fill -m tiny "$(printf 'a\377b')"
