# SPDX-License-Identifier: MIT
# What `multihead mha` computes and shows. Numbers at random are those of one level, so that their
# last digit is everybody's.
trace="--trace --no-times --isa scalar"

# the classic run of the tutorials: nine shapes
run multihead mha --input-dim 1024 --embed-dim 512 --heads 8 --qkv interleaved --random 30x5 $trace
run multihead mha --embed-dim 512 --heads 8 --random 32x10 $trace
run multihead mha --embed-dim 512 --heads 1 --random 32x10 $trace
run multihead mha --embed-dim 12 --heads 3 --random 2x4 --causal top-left --seed 7 $trace --values
run multihead mha --embed-dim 8 --heads 2 --kdim 3 --vdim 4 --random 2x3 $trace
run multihead mha --embed-dim 4 --heads 1 --random 1x1 $trace
# masked scores are shown, of a middle query or of any
values() { multihead mha --embed-dim 4 --heads 2 --random 1x5 $trace --values "$@" | sed -n '/^Values/,/^$/p'; }
values --causal
values --causal --token 0
values --token 1
run multihead mha --embed-dim 4 --heads 2 --random 1x5 $trace --values --token 5
run multihead mha --embed-dim 4 --heads 2 --random 1x5 $trace --token 1
multihead mha --embed-dim 4 --heads 2 --random 1x5 --causal --trace --values --json | check_json
# times are left out first where lines are too wide, then lines are divided
COLUMNS=100 multihead mha --embed-dim 4 --heads 2 --random 1x5 --trace --isa scalar | sed -n '/^step/,/^scores/p'
COLUMNS=80 multihead mha --embed-dim 4 --heads 2 --random 1x5 --trace --isa scalar | sed -n '/^step/,/of the heads$/p'
# nothing else asked for: the shapes
run multihead mha --embed-dim 512 --heads 8 --random 32x10
run multihead mha --embed-dim 512 --heads 8 --random 32,10 --batch-first --per-head
run multihead mha --presets
multihead mha --presets --json | check_json
multihead mha --preset whisper-tiny --trace --values --json | check_json
multihead mha --preset whisper-tiny --trace >with_times.txt && grep -c -E ' (us|ms|s)  ' with_times.txt

# Numbers that can be checked by hand: two heads of width 1, all projections the identity.
same='1 0 0 1'
make_npy id.safetensors in_proj_weight f32 6x2 1 0 0 1 1 0 0 1 1 0 0 1 + out_proj.weight f32 2x2 $same
make_npy x.npy f32 3x1x2 0 0 1 10 2 20 # (T, B, D)
run multihead mha -m id.safetensors --heads 2 --query x.npy --out o.npy --weights w.npy
run make_npy --show o.npy
run make_npy --show w.npy
run multihead mha -m id.safetensors --heads 2 --query x.npy --weights w.npy --per-head
run multihead mha -m id.safetensors --heads 2 --query x.npy --seed 1 --weights w.npy
run make_npy --show w.npy

# the same parameters under other names, and in another order
make_npy tutorial.safetensors W_q.weight f32 2x2 $same + W_k.weight f32 2x2 $same + \
    W_v.weight f32 2x2 $same + W_o.weight f32 2x2 $same
make_npy linear.safetensors q_linear.weight f32 2x2 $same + k_linear.weight f32 2x2 $same + \
    v_linear.weight f32 2x2 $same + out_linear.weight f32 2x2 $same
make_npy layer.safetensors qkv_layer.weight f32 6x2 1 0 1 0 1 0 0 1 0 1 0 1 + \
    linear_layer.weight f32 2x2 $same
for model in tutorial linear layer; do
    run multihead mha -m $model.safetensors --heads 2 --query x.npy --out same.npy
    cmp o.npy same.npy && echo "same as o.npy"
done
# a layer of a larger model
make_npy large.safetensors a.0.in_proj_weight f32 6x2 1 0 0 1 1 0 0 1 1 0 0 1 + \
    a.0.out_proj.weight f32 2x2 $same + a.1.out_proj.weight f32 1x1 9 + b f32 1 3
run multihead mha -m large.safetensors --prefix a.0. --heads 2 --query x.npy --out same.npy
cmp o.npy same.npy && echo "same as o.npy"
run multihead mha -m large.safetensors --heads 2 --query x.npy --out same.npy
run multihead mha -m large.safetensors --prefix a.2. --heads 2 --query x.npy --out same.npy
run multihead mha -m large.safetensors --prefix a.1. --heads 2 --embed-dim 2 --query x.npy --out same.npy
run multihead mha --prefix a. --embed-dim 2 --heads 2 --query x.npy --out same.npy
run multihead mha -m layer.safetensors --heads 2 --qkv interleaved --query x.npy --out same.npy
cmp o.npy same.npy && echo "same as o.npy"

# layouts: batch first, unbatched, standard output
make_npy first.npy f32 1x3x2 0 0 1 10 2 20
make_npy unbatched.npy f32 3x2 0 0 1 10 2 20
run multihead mha -m id.safetensors --heads 2 --query first.npy --batch-first --out b.npy --weights w.npy
run make_npy --show b.npy
run multihead mha -m id.safetensors --heads 2 --query unbatched.npy --out u.npy --weights w.npy
run make_npy --show u.npy
run multihead mha -m id.safetensors --heads 2 --query unbatched.npy
run multihead mha -m id.safetensors --heads 2 --query unbatched.npy --per-head
run make_npy --show w.npy
multihead mha -m id.safetensors --heads 2 --query x.npy --out - >stdout.npy
cmp o.npy stdout.npy && echo "same as o.npy"

# masks: true = may not attend
weights() {
    run multihead mha -m id.safetensors --heads 2 --query x.npy --weights w.npy "$@"
    make_npy --show w.npy
}
make_npy padding.npy bool 1x3 0 0 1
make_npy mask.npy bool 3x3 0 1 1 0 0 1 0 0 0
make_npy heads.npy bool 2x3x3 0 1 1 0 1 1 0 1 1 1 0 1 1 0 1 1 0 1
make_npy all.npy bool 3x3 1 1 1 0 0 0 0 0 0
make_npy add.npy f32 3x3 0 -inf -inf 0 0 -inf 0 0 0
make_npy zero_one.npy f32 3x3 0 1 0
weights --key-padding-mask padding.npy
weights --attn-mask mask.npy
weights --attn-mask add.npy
weights --causal top-left
weights --attn-mask heads.npy --per-head
weights --attn-mask zero_one.npy
weights --attn-mask all.npy --key-padding-mask padding.npy --trace --no-times -q

# key and value of their own; a learned key and value more
make_npy k.npy f32 2x1x2 0 0 1 1
make_npy v.npy f32 2x1x2 5 6 7 8
run multihead mha -m id.safetensors --heads 2 --query x.npy --key k.npy --value v.npy --out o2.npy $trace
run make_npy --show o2.npy
make_npy bias_kv.safetensors in_proj_weight f32 6x2 1 0 0 1 1 0 0 1 1 0 0 1 + \
    in_proj_bias f32 6 0 + bias_k f32 1x1x2 9 9 + bias_v f32 1x1x2 3 4 + \
    out_proj.weight f32 2x2 $same + out_proj.bias f32 2 100 200
run multihead mha -m bias_kv.safetensors --heads 2 --query x.npy --out o3.npy --weights w3.npy $trace --values
run make_npy --show o3.npy
run make_npy --show w3.npy

# a causal rule beside a learned key, which every query sees
run multihead mha -m bias_kv.safetensors --heads 2 --query x.npy --out o3.npy --weights w3.npy --causal top-left \
    $trace
run make_npy --show w3.npy

# grouped queries, positions, sinks: parameters at random, then from files, by hand
run multihead mha --embed-dim 8 --heads 4 --kv-heads 2 --rope half --alibi --causal top-left --random 2x3 $trace
run multihead mha --embed-dim 8 --heads 2 --kv-heads 1 --kdim 3 --rope interleaved --rope-base 100 --random 2x3 \
    $trace --values
multihead mha --embed-dim 8 --heads 4 --kv-heads 2 --rope half --random 2x3 --trace --no-times --json | check_json
make_npy grouped.safetensors q_proj.weight f32 2x2 $same + k_proj.weight f32 1x2 1 0 + v_proj.weight f32 1x2 0 1 + \
    o_proj.weight f32 2x2 $same
run multihead mha -m grouped.safetensors --heads 2 --query x.npy --out o4.npy --weights w4.npy --per-head
run make_npy --show o4.npy
run make_npy --show w4.npy
make_npy sinks.safetensors in_proj_weight f32 6x2 1 0 0 1 1 0 0 1 1 0 0 1 + out_proj.weight f32 2x2 $same + \
    sinks f32 2 0 -inf
run multihead mha -m sinks.safetensors --heads 2 --query x.npy --out o5.npy --weights w5.npy --per-head $trace
run make_npy --show w5.npy
