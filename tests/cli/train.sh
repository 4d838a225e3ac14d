# SPDX-License-Identifier: MIT
# `multihead train`: from pairs to a model, interrupted and gone on with, and what it refuses.

# Pairs of a language in which a word is a word.
for a in one two three four five six seven eight nine ten; do
    for b in red green blue; do printf "%s\t%s\n" "$a $b" "$b $a"; done
done >pairs.tsv
head -5 pairs.tsv >dev.tsv
sizes="--preset tiny --d-model 16 --heads 2 --ff 32 --encoder-layers 1 --decoder-layers 1 --merges 40"
options="$sizes --data pairs.tsv --valid dev.tsv --batch-tokens 200 --save-freq 20u --valid-freq 30u"

run multihead train -q $options --after 60u -o whole
ls whole
multihead translate -m whole "one red" | wc -l
multihead train $options --after 60u -o whole 2>&1
multihead train -q $sizes --data - --valid dev.tsv --batch-tokens 200 --save-freq 20u \
    --valid-freq 30u --after 60u -o piped <pairs.tsv
cmp whole/model.safetensors piped/model.safetensors && echo "the same from standard input"
cut -f 1 pairs.tsv | gzip >source.gz
cut -f 2 pairs.tsv >target.txt
multihead train -q $sizes --data source.gz --targets target.txt --valid dev.tsv --batch-tokens 200 \
    --save-freq 20u --valid-freq 30u --after 60u -o two
cmp whole/model.safetensors two/model.safetensors && echo "the same from two files"

# Presets do not undo what stands before them, and the README's command line can be given to a shell.
multihead train -q --d-model 16 --heads 2 --ff 32 --encoder-layers 1 --decoder-layers 1 --merges 40 \
    --data pairs.tsv --valid dev.tsv --batch-tokens 200 --save-freq 20u --valid-freq 30u --after 60u \
    -o order --preset tiny --attribution "it's ours; \$1 \`x\`"
cmp whole/model.safetensors order/model.safetensors && echo "the same in another order"
sed -n 's/^ *multihead train .*--attribution/--attribution/p' order/README.md

# Ctrl-C once something more is logged: exit code 5, and the same bytes after going on. A shell
# lets what runs in its background ignore Ctrl-C, which `env` undoes.
logged() { cat stopped/log.jsonl 2>/dev/null | wc -l; }
interrupt() { # SIGNAL [OPTION...]
    signal=$1
    shift
    before=$(logged)
    env --default-signal=INT multihead train -q $options --after 3000u "$@" -o stopped 2>&1 &
    while [ "$(logged)" -le "$before" ] && kill -0 $! 2>/dev/null; do sleep 0.01; done
    kill -s "$signal" $!
    [ "$signal" != HUP ] || kill -s HUP $! 2>/dev/null # as a closed terminal may: no second request
    wait $!
    echo "exit $?"
}
interrupt INT
interrupt TERM --threads 1
interrupt HUP
multihead train -q $options --after 3000u -o stopped
multihead train -q $options --after 3000u -o straight
for file in model.safetensors checkpoint.safetensors; do
    cmp stopped/$file straight/$file && echo "$file is the same"
done
for run in stopped straight; do sed 's/"seconds".*//' $run/log.jsonl >$run.log; done
cmp stopped.log straight.log && echo "log.jsonl is the same but for the seconds"

# The languages of the pairs are those of the model, under whatever name.
for i in $(seq 30); do printf 'Le chat est dans la maison %s.\tThe cat is in the house %s.\n' $i $i; done >cats.tsv
multihead train -q $sizes --data cats.tsv --hold-out 0 --dtype f32 --after 1u -o cats
grep language cats/config.json
multihead translate -m cats --beam 1 "The cat sleeps." 2>&1 >nonsense | sed 's/; -m.*//'

# A picture that could not be written is made up for; one that is there is left alone.
rm whole/loss.svg
run multihead train $options --after 60u -o whole
ls whole/loss.svg
touch -d '2001-01-01' whole/loss.svg
multihead train -q $options --after 60u -o whole
find whole/loss.svg -newermt '2002-01-01'
remember whole/loss.svg
multihead train -q $options --after 60u -o whole
untouched whole/loss.svg

# A warm-up is at most a tenth of the run, unless it is given; a run that ends within it says so, and
# so does one that has learnt nothing. Progress names the epoch that has ended.
rates() { sed -n 's/.*"learning_rate": \([^,]*\).*/\1/p' $1/log.jsonl | tr '\n' ' '; }
quieter() { sed '/validation at /d; s/ *loss.*left  / ... /; s/  ppl.*//; s/  lr .*//'; }
short="$sizes --dtype f32 --data pairs.tsv --valid dev.tsv --batch-tokens 200 --lr 0.003"
multihead train $short --after 30u -o tenth 2>&1 | quieter
rates tenth && echo
multihead train $short --after 5e -o epochs 2>&1 | quieter
multihead train $short --after 5u --warmup 100 -o given 2>&1 | quieter
rates given && echo
run multihead train -q $short --after 30u --lr 0.002 -o tenth
run multihead train -q $short --after 30u --dropout 0.3 -o tenth

# From a model: its sizes and tokenizer, and a contradiction is refused; the run does not need it any more.
tune="--init whole --data pairs.tsv --valid dev.tsv --batch-tokens 200"
multihead train -q $tune --after 20u -o tuned
cmp whole/tokenizer.json tuned/tokenizer.json && cmp whole/config.json tuned/config.json && echo "the same sizes"
mv whole away
multihead train -q --after 30u -o tuned
mv away whole
sed -n '2,3s|/.*/||p' tuned/command.txt
# A model in Hugging Face's cache has the same name by its directory, which is recorded.
mkdir -p cache/hub/models--org--small-one/snapshots/0123abcd
cp whole/config.json whole/tokenizer.json whole/model.safetensors cache/hub/models--org--small-one/snapshots/0123abcd
cached() { HF_HOME=$PWD/cache multihead train -q "$@" -o cached; echo "exit $?"; }
cached --init org/small-one --data pairs.tsv --valid dev.tsv --batch-tokens 200 --after 20u
cached --init org/small-one --data pairs.tsv --valid dev.tsv --batch-tokens 200 --after 30u
cached --after 40u
run multihead train -q $tune --after 20u -o whole
mkdir foreign && touch foreign/pytorch_model.bin
run multihead train -q $options --after 60u -o foreign
run multihead train -q $tune --d-model 32 -o run
run multihead train -q $tune --preset tiny -o run
run multihead train -q $tune --merges 40 -o run
run multihead train -q $tune --task lm -o run
run multihead train -q $tune --task image-classification -o run

# Classification: labels of texts; what is held out is said. Then an example that is refused.
for i in 1 2 3 4 5 6 7 8 9 10; do
    for kind in "good\tI liked this film" "bad\tI left the cinema early" "fair\tIt was as long as others"; do
        printf "$kind, number $i of the week\n"
        printf "$kind, in row $i\n"
        printf "$kind, with $i friends\n"
        printf "$kind on day $i\n"
    done
done >films.tsv
labels="--task classification --preset nano --merges 100 --dtype f32"
multihead train $labels --data films.tsv --lr 0.003 --after 4e -o films 2>&1 | quieter
multihead classify -m films --top 1 "I liked this film, with 12 friends" | sed 's/[0-9.]* /.../'
multihead train -q --task classification --init films --data films.tsv --dtype f32 --after 1e -o refined
ls refined
tr '\t' ',' <films.tsv >films.csv
run multihead train $labels --data films.csv -o run
# what is hardly meant: columns, a header, few data; and a model that has learnt nothing
awk -F '\t' '{print $2 "\t" $1}' films.tsv >swapped.tsv
{ printf 'label\ttext\n'; head -30 films.tsv; } >header.tsv
{ head -30 films.tsv; printf 'odd\ta film\nrare\tanother\n'; } >rare.tsv
few() { multihead train $labels --data "$1" --after 1u --hold-out 0 -o few 2>&1 | grep -v update; rm -rf few; }
few swapped.tsv
few header.tsv
few rare.tsv
multihead train $labels --data header.tsv --after 1u -o few 2>&1 | grep missing
rm -rf few
multihead train $labels --data films.tsv --lr 1e-7 --warmup 0 --after 1u -o few 2>&1 | sed -n 's/, but/&/; s/[0-9.]* %/N %/gp' | grep answer
run multihead train --data films.txt --data films.tsv -o run
run multihead train --task classification --data films.tsv films.csv -o run
run multihead train --task classification --init whole --data films.tsv -o run
run multihead train --task classification --data films.tsv --context 8 -o run
run multihead train --task classification --data films.tsv --hold-out 5 --valid films.tsv -o run
run multihead train --data pairs.tsv --hold-out 0 --patience 3 -o run

# usage
run multihead train
run multihead train -o run
run multihead train --data pairs.tsv
run multihead train --data pairs.tsv --example numbers -o run
run multihead train --example numbers --targets pairs.tsv -o run
run multihead train --data pairs.tsv --valid-targets dev.tsv -o run
run multihead train --data pairs.tsv --patience 3 -o run
run multihead train --data pairs.tsv --valid-freq 1e --hold-out 0 -o run
run multihead train --data pairs.tsv --tokenizer run/tokenizer.json --merges 9 -o run
run multihead train --example letters -o run
run multihead train --data pairs.tsv --after 20 -o run
run multihead train --data pairs.tsv --heads 3 -o heads
run multihead train --data pairs.tsv --dropout 1 -o dropout
run multihead train --data pairs.tsv --lr 0 -o rate
run multihead train --data pairs.tsv --beta2 2 -o rate
run multihead train --data pairs.tsv --after 0u -o after
run multihead train --data pairs.tsv extra -o run

# files
printf 'good\tbon\nno tab\n\tempty\nb\303(d\tbad\nalso good\tbien\n' >mixed.tsv
printf '' >empty.tsv
tr '\t' ',' <pairs.tsv >pairs.csv
run multihead train --data nowhere.tsv -o run
ls -d run 2>&1
run multihead train --data empty.tsv -o run
run multihead train --data pairs.csv -o run
multihead train --data mixed.tsv --preset tiny --dtype f32 --after 1u -o mixed 2>&1 |
    grep -v 'update 1 '
run multihead train -q --data pairs.tsv --targets dev.tsv -o run
run multihead train -q $options --after 60u --seed 2 -o whole
run multihead train -q $options --after 60u -o pairs.tsv
run multihead train -q $options --after 60u -o no/such/folder
run multihead train -q --data pairs.tsv --tokenizer pairs.tsv --after 60u -o tokens
printf '{"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}}' >words.json
run multihead train -q --task lm --data pairs.tsv --tokenizer words.json -o tokens
