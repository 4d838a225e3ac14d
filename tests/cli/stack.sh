# SPDX-License-Identifier: MIT
# What `multihead encoder` and `multihead decoder` compute and show. Numbers at random are those of
# one level, so that their last digit is everybody's.
trace="--trace --no-times --isa scalar"
small="--d-model 4 --nhead 2"

# d_model 4 and two heads in numbers
run multihead encoder $small --random 1x3 $trace --values
run multihead decoder $small --random 1x3 --memory 1x5 $trace --values
# a middle token if there is a causal mask, with its masked scores; or any; on one screen
multihead encoder $small --causal $trace --values | sed -n '/^Values/,/^$/p'
multihead encoder $small --causal $trace --values --token 4 | grep -E 'Values|scores|attends'
run multihead decoder $small --random 1x3 $trace --values --token 3
run multihead decoder $small --random 1x3 $trace --token 1
COLUMNS=80 multihead encoder $small --trace --values | awk 'length > 80 { print "too wide: " $0 } END { print NR <= 40 ? "fits" : NR }'
# with the feed-forward network of a real layer, and more heads than are shown
COLUMNS=80 multihead encoder --d-model 512 --nhead 32 --random 1x3 $trace --values |
    awk 'length > 80 { print "too wide: " $0 } /heads more|\(2048\)$/'
# stacks, pre-norm, GPT's causal rule, one layer of several in full
run multihead encoder --d-model 512 --nhead 8 --layers 2 --ffn 1024 --random 32x10 $trace
run multihead encoder $small --layers 3 --norm-first --final-norm --causal --activation gelu --random 2x4 $trace --layer 1
run multihead decoder $small --layers 2 --norm-first --no-causal --batch-first --random 2x3 --memory 2x4 $trace --layer 1 --values
run multihead encoder --d-model 4 --nhead 1 --random 1x1 $trace
# nothing else asked for: the shape
run multihead encoder --d-model 512 --nhead 8 --random 32x10
run multihead decoder --d-model 512 --nhead 8 --layers 6 --ffn 8 --random 32x10 --batch-first
multihead encoder $small --trace --values --json | check_json
multihead decoder $small --layers 2 --trace --values --json | check_json
multihead decoder $small --trace --json | grep -o '"step": "[^"]*mask"' # no indentation
multihead encoder $small --trace >with_times.txt && grep -c -E ' (us|ms|s)  ' with_times.txt

# A layer in numbers that can be checked by hand: attention and feed-forward give 0, so that only
# LayerNorm of x remains: (x - mean) / std, as weight is 1 and bias 0.
zeros='0 0 0 0'
layer() { # PREFIX, then more of make_npy's arguments
    name=$1
    shift
    make_npy "$@" ${name}self_attn.in_proj_weight f32 6x2 $zeros $zeros $zeros + \
        ${name}self_attn.in_proj_bias f32 6 $zeros 0 0 + \
        ${name}self_attn.out_proj.weight f32 2x2 $zeros + ${name}self_attn.out_proj.bias f32 2 0 0 + \
        ${name}linear1.weight f32 3x2 $zeros 0 0 + ${name}linear1.bias f32 3 0 0 0 + \
        ${name}linear2.weight f32 2x3 $zeros 0 0 + ${name}linear2.bias f32 2 0 0 + \
        ${name}norm1.weight f32 2 1 1 + ${name}norm1.bias f32 2 0 0 + \
        ${name}norm2.weight f32 2 1 1 + ${name}norm2.bias f32 2 0 0
}
layer "" layer.safetensors
layer encoder.layers.0. whole.safetensors
make_npy x.npy f32 2x1x2 1 3 -4 4 # (T, B, D)
make_npy unbatched.npy f32 2x2 1 3 -4 4
run multihead encoder -m layer.safetensors --nhead 1 --src x.npy --out y.npy --weights w.npy
run make_npy --show y.npy
run make_npy --show w.npy
run multihead encoder -m whole.safetensors --nhead 2 --src unbatched.npy --out same.npy
run make_npy --show same.npy
run multihead encoder -m whole.safetensors --prefix encoder. --nhead 1 --src x.npy $trace --out same.npy
cmp y.npy same.npy && echo "same as y.npy"
run multihead encoder -m layer.safetensors --nhead 1 --norm-first --src x.npy --out same.npy
run make_npy --show same.npy
multihead encoder -m layer.safetensors --nhead 1 --src x.npy --out - >stdout.npy
cmp y.npy stdout.npy && echo "same as y.npy"
# the steps' weights are those of the fused pass
multihead decoder $small --layers 2 --weights a.npy --out b.npy
multihead decoder $small --layers 2 --weights a2.npy --out b2.npy --trace >trace.txt
cmp a.npy a2.npy && cmp b.npy b2.npy && echo "the same with --trace"

# a directory's config.json says what shapes do not; options override it
mkdir whole && cp whole.safetensors whole/model.safetensors
hidden() { multihead encoder -m whole --src x.npy $trace "$@" 2>&1 | grep -o '[a-z_]*(x W1^T + b1)\|multihead.*'; }
for name in relu gelu gelu_tanh silu; do
    printf '{"nhead": 1, "activation": "%s"}' $name >whole/config.json
    hidden
done
hidden --activation relu
printf '{"nhead": 1, "activation": "tanh"}' >whole/config.json
run multihead encoder -m whole --src x.npy
hidden --activation gelu
printf '{"nhead": 1, "activation": 3}' >whole/config.json
run multihead encoder -m whole --src x.npy
printf '{"nhead": 1,' >whole/config.json
run multihead encoder -m whole --src x.npy

# no tokens, no sequences, an empty memory
make_npy no_tokens.npy f32 0x1x4 0
make_npy no_batch.npy f32 3x0x4 0
run multihead encoder $small --src no_tokens.npy $trace --values
run multihead encoder $small --src no_batch.npy
multihead decoder $small --tgt no_batch.npy --trace --values --json | check_json
run multihead decoder $small --random 1x2 --memory no_tokens.npy $trace --values

# refused
run multihead encoder
run multihead encoder --d-model 4
run multihead encoder --d-model 4 --nhead 3
run multihead encoder $small --layers 0
run multihead encoder $small --layer 2 --trace
run multihead encoder $small --layer 2
run multihead encoder $small --values
run multihead encoder $small --final-norm
run multihead encoder $small --memory 1x5
run multihead encoder $small --random 3
run multihead encoder $small --random 1x3 --src x.npy
run multihead encoder $small --src x.npy
run multihead encoder $small --src none.npy
run multihead encoder $small --out y.csv
run multihead encoder $small --trace --out -
run multihead encoder $small --activation tanh
run multihead encoder $small --nheads 3
run multihead encoder $small --prefix a.
run multihead encoder -m layer.safetensors --src x.npy
run multihead encoder -m layer.safetensors --nhead 3 --src x.npy
run multihead encoder -m layer.safetensors --nhead 1 --d-model 2
run multihead encoder -m layer.safetensors --nhead 1 --layer 1 --trace
run multihead encoder -m layer.safetensors --nhead 1 --prefix a.
run multihead encoder -m x.npy --nhead 1
run multihead decoder -m layer.safetensors --nhead 1 --tgt x.npy
run multihead decoder $small --random 2x3 --memory 1x5
run multihead decoder $small --random 2x3 --memory 2x
run multihead decoder $small --random 2x3 --memory none.npy
run multihead decoder $small --causal --no-causal
make_npy cut.safetensors self_attn.in_proj_weight f32 6x2 $zeros $zeros $zeros
run multihead encoder -m cut.safetensors --nhead 1
make_npy odd.safetensors self_attn.in_proj_weight f32 6x2 $zeros $zeros $zeros + linear1.weight f32 3x2 $zeros 0 0
run multihead encoder -m odd.safetensors --nhead 1

# a published model: the family, and what shows its attention
run multihead encoder -m en-lm
