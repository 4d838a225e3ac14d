# SPDX-License-Identifier: MIT
# `multihead train` of every task, and from every kind of model: Ctrl-C saves the run, which goes on with
# another number of threads to the bytes of an uninterrupted one; so does a run whose files did not fit.
for a in one two three four five six seven eight nine ten; do
    for b in red green blue; do printf "%s\t%s\n" "$a $b" "$b $a"; done
done >pairs.tsv
awk '{ print ($2 == "red" || $2 == "blue" ? $2 : "other") "\tthe number " $1 " in " $2 }' pairs.tsv >labels.tsv
awk '{ print "The number " $1 " is " $2 ".\n" }' pairs.tsv >text.txt
# Numbers that look like pictures of 8 x 8, and their labels.
{
    printf '\000\000\010\003\000\000\000\030\000\000\000\010\000\000\000\010'
    cat pairs.tsv pairs.tsv pairs.tsv pairs.tsv | head -c 1536
} >images-idx3-ubyte
{
    printf '\000\000\010\001\000\000\000\030'
    for i in 1 2 3 4 5 6 7 8; do printf '\000\001\002'; done
} >labels-idx1-ubyte

sizes="--d-model 16 --heads 2 --ff 32 --layers 1"
schedule="--schedule inverse-sqrt --warmup 5" # which do not depend on --after
words="--merges 30 --batch-tokens 200"
options_of() { # KIND
    case $1 in
    translator) echo "--preset tiny --d-model 16 --heads 2 --ff 32 --encoder-layers 1 --decoder-layers 1 $words --data pairs.tsv" ;;
    pictures) echo "--task image-classification --preset tiny $sizes --data images-idx3-ubyte" ;;
    bert) echo "--task classification $sizes $words --data labels.tsv" ;;
    gpt2) echo "--task lm $sizes --context 32 $words --data text.txt" ;;
    llama) echo "--task lm --arch llama $sizes --context 32 $words --data text.txt" ;;
    esac
}
start_of() { # KIND
    case $1 in
    translator) echo "--data pairs.tsv" ;;
    bert) echo "--task classification --data labels.tsv" ;;
    *) echo "--task lm --data text.txt" ;;
    esac
}

# The run is stopped once something is logged, and resumed for 20 more updates.
check() { # NAME OPTION...
    name=$1
    shift
    env --default-signal=INT multihead train "$@" --after 1Mu --threads 2 -o $name.cut 2>messages &
    while [ ! -s $name.cut/log.jsonl ] && kill -0 $! 2>/dev/null; do sleep 0.01; done
    kill -s INT $!
    wait $!
    echo "$name: exit $?: $(grep saved messages | sed 's/update [0-9]*/update N/')"
    after=$(($(sed -n 's/.*saved after update \([0-9]*\).*/\1/p' messages) + 20))u
    multihead train -q --threads 1 --after $after -o $name.cut
    multihead train -q "$@" --threads 2 --after $after -o $name.whole
    (trap '' XFSZ && ulimit -f 40 && exec multihead train -q "$@" --threads 1 --after $after -o $name.full) 2>&1
    echo "$name: exit $?"
    ls -A $name.full | grep '\.tmp\|safetensors'
    multihead train -q "$@" --threads 1 --after $after -o $name.full
    for run in $name.cut $name.full; do
        for file in config.json model.safetensors checkpoint.safetensors; do
            cmp $name.whole/$file $run/$file || echo "$run/$file differs"
        done
    done
}
for kind in translator pictures bert gpt2 llama; do check $kind $(options_of $kind) $schedule; done
for kind in translator bert gpt2 llama; do
    check from-$kind --init $kind.whole $(start_of $kind) --batch-tokens 200 $schedule
done
