# SPDX-License-Identifier: MIT
# `multihead attend --random` and `--trace`: every step of attention, and why scores are scaled.
# Numbers at random are those of one level, so that their last digit is everybody's.
trace="--trace --isa scalar"
run multihead attend --random 1x2x3x4 $trace
run multihead attend --random 2x8x32x64 --scale 1 $trace
run multihead attend --random 3x1 $trace
# a middle query where there is a mask: the last one sees every key. Or any
run multihead attend --random 6x4 --causal $trace
multihead attend --random 6x4 --causal $trace --token 1 | grep -A 1 -E '^(Below|mask|softmax)'
multihead attend --random 6x4 --window=1,1 $trace --token 5 | grep -A 1 -E '^(mask|softmax)'
run multihead attend --random 6x4 $trace --token 6
run multihead attend --random 6x4 --token 1
COLUMNS=60 multihead attend --random 3x4 $trace | sed -n '/^step/,/^softmax/p'
# nothing else asked for: the shapes
run multihead attend --random 2x4x10x8
run multihead attend --random 10,8
run multihead attend --random 4x10x8 --seed 3
run multihead attend --random 1x64x40000x1 # nothing is computed: the weights would take 410 GB

# Numbers that can be checked by hand. Query 1 has the score ln 3 with key 1: weights 1/4 and 3/4.
make_npy q.npy f32 2x1 0 1
make_npy k.npy f32 2x1 0 1.0986122887
make_npy v.npy f32 2x1 4 8
make_npy keep.npy bool 2x2 1 0 1 1
make_npy drop.npy bool 2x2 0 1 0 0
make_npy add.npy f32 2x2 1 -inf 1 1
make_npy none.npy bool 2x2 0 0 1 1
make_npy lengths.npy i64 1 1
run multihead attend --q q.npy --k k.npy --v v.npy $trace --out o.npy
run make_npy --show o.npy
values() { # of the mask, if there is one, the weights and the output
    run multihead attend --q q.npy --k k.npy --v v.npy $trace "$@" >shown.txt
    grep -A 1 -E '^(\$|!|mask|softmax|output)' shown.txt
}
values --causal
values --mask keep.npy
values --mask drop.npy
values --mask add.npy
values --mask none.npy
values --window=0,0
values --kv-lengths lengths.npy
values --scale 2
values --scale 0
values --causal bottom-right --mask keep.npy --window=5,5
multihead attend --random 1x2x4x8 --causal --trace --json | check_json
multihead attend --random 2x4x8 --causal --out o.npy --weights w.npy
multihead attend --random 2x4x8 --causal --out o2.npy --trace >/dev/null
cmp o.npy o2.npy && echo "the same with --trace"

# refused
run multihead attend --trace
run multihead attend --random 5
run multihead attend --random 1x2x3x4x5
run multihead attend --random 1x0
run multihead attend --random 1x2x3x2000
run multihead attend --random 1x2 --q q.npy
run multihead attend --random 1x2 --trace --softcap 3
run multihead attend --random 1x2 --trace --alibi
run multihead attend --random 1x2 --trace --dropout 0.1
run multihead attend --random 1x2 --trace --dtype bf16
run multihead attend --random 1x2 --trace --explain
run multihead attend --random 1x2 --trace --out -
run multihead attend --random 1x2 --json
