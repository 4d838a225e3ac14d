# SPDX-License-Identifier: MIT
# multihead look on small models with random weights, to which vocabularies are given.
goldens=$(dirname "$script")/../goldens/models
cp -r "$goldens/bert-mlm" tiny
{
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the cat sat on mat play '##ing' .
    i=13
    while [ $i -lt 99 ]; do
        echo "word$i"
        i=$((i + 1))
    done
} >tiny/vocab.txt
scalar="--isa scalar --threads 1"
run multihead look -m tiny $scalar "The playing cat."
run multihead look -m tiny $scalar --layer 0 --head 3 "The cat" --pair "sat."
run multihead look -m tiny $scalar --head 0 --width 20 "cat"
multihead look -m tiny $scalar "The playing cat." >expected
echo "The playing cat." | multihead look -m tiny --isa scalar --threads 3 | cmp - expected &&
    echo "three threads, standard input"

# Links between words: of several tokens, of either case, and of a word that occurs twice
run multihead look -m tiny $scalar --link playing,CAT "The playing cat sat on the mat"
run multihead look -m tiny $scalar --link "the,the" --layer 1 --head 2 "The cat sat on the mat"
run multihead look -m tiny $scalar --json --link "the mat,cat" "The cat sat on the mat" |
    sed 's/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'
multihead look -m tiny --json --link cat,sat "cat sat" | check_json text link heads

run multihead look -m tiny $scalar --json --link "play,the" "The playing cat, play" |
    sed 's/, {.*//; s/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'
run multihead look -m tiny $scalar --json --link "play,the" "The playing cat, word13" |
    sed 's/, {.*//; s/\(0[.][0-9]\{4\}\)[0-9]*/\1/g'

# A head that is off changes the layers after it.
multihead look -m tiny $scalar --layer 0 "The cat" >on.txt
multihead look -m tiny $scalar --layer 0 --disable-head 0:1 "The cat" | cmp - on.txt && echo "same"
multihead look -m tiny $scalar "The cat" >on.txt
multihead look -m tiny $scalar --disable-head 0:1 "The cat" | cmp -s - on.txt || echo "changed"
multihead look -m tiny $scalar --disable-head 0 --disable-head 1:3 "The cat" | cmp -s - on.txt ||
    echo "changed"

# Files
run multihead look -m tiny $scalar --page page.html --trace-out t.safetensors "The playing cat."
grep -c '<!doctype html>' page.html
grep -o '"title":"[^"]*","model":"[^"]*"' page.html
multihead view --trace t.safetensors | cmp - expected && echo "the trace has the same heatmaps"
multihead view --trace t.safetensors -o again.html && cmp page.html again.html
multihead look -m tiny $scalar --page - "The playing cat." | cmp - page.html

# A causal model, whose tokens have a space before them
cp -r "$goldens/gpt2" causal
{
    printf '{"T":0,"h":1,"e":2,"\304\240":3,"c":4,"a":5,"t":6,"Th":7,"The":8,"\304\240c":9,"\304\240ca":10,'
    printf '"\304\240cat":11,"s":12,"\304\240s":13,".":14,"<|endoftext|>":15}'
} >causal/vocab.json
printf '#version: 0.2\nT h\nTh e\n\304\240 c\n\304\240c a\n\304\240ca t\n\304\240 s\n' \
    >causal/merges.txt
run multihead look -m causal $scalar --head 1 "The cat sat cat"
run multihead look -m causal $scalar --link cat,The --head 0 --layer 0 "The cat sat"

# An encoder-decoder, with its own translation and with one that is given
seq2seq=$goldens/../translations/marian
cp -rL "$seq2seq" seq2seq
run multihead look -m seq2seq $scalar --head 0 --width 60 "w41 w7"
run multihead look -m seq2seq $scalar --head 0 --kind decoder --layer 0 "w41 w7" --target "w9 w10"
run multihead look -m seq2seq $scalar --link w41,w7 "w41 w7"
multihead look -m seq2seq --target "w9" --trace-out t.safetensors "w41 w7" && run multihead view --trace t.safetensors --kind encoder --head 0 --width 60
run multihead look -m seq2seq --pair "w9" "w41"
run multihead look -m seq2seq --disable-head 0:1 "w41"
run multihead look -m seq2seq --layer 2 "w41"
run multihead look -m tiny --target "cat" "The cat"

# What is refused
run multihead look -m tiny --layer 2 "The cat"
run multihead look -m tiny --head 4 "The cat"
run multihead look -m tiny --head -1 "The cat"
run multihead look -m tiny --link cat,ran "The cat"
run multihead look -m tiny --link dog,cat "The playing cat"
run multihead look -m tiny --link cat "The cat"
run multihead look -m tiny --link ,cat "The cat"
run multihead look -m tiny --disable-head 2:0 "The cat"
run multihead look -m tiny --disable-head 0:4 "The cat"
multihead look -m tiny --disable-head 0:1 "The cat" >colon.txt
multihead look -m tiny --disable-head enc.0.1 "The cat" | cmp - colon.txt && echo "enc.0.1 is 0:1"
run multihead look -m tiny --disable-head both.0 "The cat"
multihead look "The cat" --page page.html # the model that ships
multihead look -m tiny --json "The cat" | check_json
multihead look -m tiny --json --layer 0 --head 2 "The cat" | sed -E 's/(0\.[0-9]{4})[0-9]*/\1/g'
run multihead look -m tiny --json --page page.html "The cat"
run multihead look -m tiny "The cat" "sat"
run multihead look -m tiny </dev/null
run multihead look -m tiny --page p.png "The cat"
run multihead look -m tiny --page p.html --trace-out ./p.html "The cat"
run multihead look -m tiny --page nowhere/p.html "The cat"
multihead look -m tiny --pair "$(printf '\377')" "The cat"
multihead look -m tiny "$(printf 'a\377')"
long="the the the the the the the the the the the the the the the the the the the the the"
multihead look -m tiny "$long $long"
cp -r "$goldens/bert" silent
run multihead look -m silent "The cat"
cp -r tiny broken
echo '{"model_type": "bert", "hidden_size": }' >broken/config.json
run multihead look -m broken "The cat"
