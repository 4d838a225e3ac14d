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

# JSON
run multihead classify -m bert $scalar --json "The \"cat\"" | sed 's/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'
multihead classify -m bert --json "The cat" | check_json input labels

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
