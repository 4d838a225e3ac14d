# SPDX-License-Identifier: MIT
# multihead classify on small models with random weights, to which vocabularies are given.
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
for family in bert distilbert; do
    cp -r "$goldens/$family-classifier" $family
    word_pieces $family
done
scalar="--isa scalar --threads 1"
run multihead classify -m bert $scalar "The cat sat." "The mat is playing"
run multihead classify -m distilbert $scalar "The cat sat."
run multihead classify -m bert $scalar --top 1 ""
run multihead classify -m bert $scalar --top 100 "the"
printf 'the cat\nthe mat\n' | multihead classify -m bert $scalar --top 1

# Pairs, whose tokens have types in BERT: transformers computes the same
run multihead classify -m bert $scalar "The cat" --pair "sat."
run multihead classify -m distilbert $scalar "The cat" --pair "sat."
run multihead classify -m bert $scalar --json --top 1 "The cat" --pair "sat." | sed 's/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'
multihead classify -m bert --pair "$(printf '\377')" "The cat"
long=$(printf 'cat %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40)
multihead classify -m bert --top 1 "$long" --pair sat >/dev/null && echo "truncated"
multihead classify -m bert --top 1 --no-truncate "$long" --pair sat

# JSON
run multihead classify -m bert $scalar --json "The \"cat\"" | sed 's/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'
multihead classify -m bert --json "The cat" | check_json input labels

# Damaged weights: the last one, of the classifier, is NaN
damage() { printf '\000\000\300\177' | dd of=$1 bs=1 seek=$(($(wc -c <$1) - 4)) conv=notrunc 2>dd.log; }
cp -r bert damaged && damage damaged/model.safetensors
run multihead classify -m damaged "The cat"

# No classifier, wrong configuration
cp -r "$goldens/bert-mlm" headless
word_pieces headless
run multihead classify -m headless "The cat"
cp -r bert broken
echo '{"model_type": "bert", "hidden_size": }' >broken/config.json
run multihead classify -m broken "The cat"
run multihead classify "The cat"
run multihead classify -m bert --top 0 "The cat"
run multihead classify -m bert --input lines "The cat"
run multihead classify -m bert --input missing
