# SPDX-License-Identifier: MIT
# `multihead bench`: one line a case, JSON is JSON, bad arguments are refused, Ctrl-C ends it.
run multihead bench quux
run multihead bench attention again
run multihead bench attention --case quux
run multihead bench attention --shape 1,2
run multihead bench attention --shape 1,2,3,4,5,6
run multihead bench attention --shape 1,2,2,4,5,0
run multihead bench attention --shape 1,2,2,4,5,6,quux
run multihead bench attention --shape 1,2,2,4,5,6,causal,causal
run multihead bench attention --dtype f64
run multihead bench attention --pass decode
run multihead bench matmul --pass backward
run multihead bench --pass sideways
run multihead bench --shape 1,2,2,4,5,6
run multihead bench matmul --shape 1,2,2,4,5,6
run multihead bench matmul --shape 1,2,causal
run multihead bench matmul --shape 1,2,3 --case square
run multihead bench --case quux --pass decode
run multihead bench --case gpt3 --quick --pass backward
run multihead bench model
run multihead bench model --preset gpt2-smal
run multihead bench model --preset gpt2 --layers 13
run multihead bench model --preset gpt2 --dtype f16
run multihead bench model --preset gpt2 --case gpt2
run multihead bench model --preset gpt2 --shape 1,2,3
run multihead bench model --preset gpt2 --pass backward
run multihead bench model --preset gpt2 --batch 0
run multihead bench model --preset bert-base --pass decode
run multihead bench matmul --preset gpt2
run multihead bench --length 5

# The lines as they are, but for the figures in the columns from ms on.
lines() {
    "$@" 2>&1 | sed -e 's/: [a-z0-9]* kernels/: ... kernels/' |
        awk '/ kernels,/ { from = 99 } # the title
            from < 99 { for (i = from; i <= NF; i++) sub(/^[0-9.]+$/, "x", $i) }
            $1 == "case" { for (i = 1; $i != "ms"; i++) from = i + 1 }
            { $1 = $1; print }'
}
small="--quick --shape 1,2,1,4,6,8 --shape 1,2,2,4,4,8,causal"
lines multihead bench attention $small --threads 1
lines multihead bench decode --threads 2 --quick --shape 2,4,2,1,1500,8 --dtype f16
lines multihead bench matmul --threads 1 --quick --shape 3,4,5 --shape 1,20,30,packed
lines multihead bench --threads 1 --quick --case tutorial --pass forward --dtype f32
lines multihead bench --threads 1 --quick --pass decode --case batch
model="--quick --length 5 --layers 1"
lines multihead bench model --preset gpt2-small $model --batch 2 --threads 1
lines multihead bench model --preset BERT-base $model --threads 2 --dtype bf16
lines multihead bench model --preset whisper-tiny --length 7 --quick --threads 1 --dtype f32
lines multihead bench model --preset vit $model --threads 1 --dtype f32 --pass forward
lines multihead bench model --preset gpt3-small $model --threads 1 --dtype f32 --pass decode
multihead bench model --preset llama-7b $model --threads 2 --dtype bf16 --json | check_json
multihead bench model --preset transformer-base $model --threads 1 --dtype f32 --json | cut -d, -f 1-15
keys='case B H G T S E causal dtype pass threads ms gflops gbps limit percent isa '
for suite in "attention $small" "decode --quick --shape 1,2,1,1,70,8" \
    "matmul --quick --shape 8,9,10"; do
    multihead bench $suite --json --threads 1 2>&1 | check_json | grep -cx "$keys"
done
multihead bench attention $small --json --threads 1 --dtype bf16 | cut -d, -f 1-11
multihead bench --quick --case tutorial --json --threads 1 | cut -d, -f 1-11

# Progress is for a terminal, in colour unless NO_COLOR says no, and not with -q.
on_terminal() {
    TERM=xterm script -qec "multihead bench attention $small --threads 1 $*" /dev/null </dev/null
}
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    on_terminal >default
    NO_COLOR=1 on_terminal >no_color
    NO_COLOR= on_terminal >empty_no_color
    on_terminal -q >quiet
else # no way to make a terminal here, so this is skipped: what it would show
    printf '\033[36m----' | tee default >empty_no_color
    echo ---- >no_color
    echo >quiet
fi
for file in default no_color empty_no_color quiet; do
    grep -q -e '----' $file && bar=bar || bar="no bar"
    grep -q "$(printf '\033')\[36m" $file && colour=colour || colour="no colour"
    echo "$file: $bar, $colour"
done

timeout --preserve-status -s TERM 2 multihead bench --json >/dev/null 2>interrupted
echo "exit $?"
cat interrupted
