# SPDX-License-Identifier: MIT
# Masks that leave queries without a key, alone and together with other rules: a note with their
# number. And numbers that the type to compute in cannot hold.
make_npy x.npy f32 3x1x4 0 1 2 3 4 5 6
make_npy x2.npy f32 3x2x4 0 1 2 3 4 5 6
make_npy q.npy f32 2x2x3x4 1 2 3 4 5 # (B, H, T, E)
make_npy kv.npy f32 2x2x3x4 5 4 3 2 1 0
mha="multihead mha --embed-dim 4 --heads 2 --weights w.npy"
attend="multihead attend --q q.npy --k kv.npy --v kv.npy --out o.npy"

# tril, as tutorials write the causal mask: true = may attend. For mha it masks.
make_npy tril.npy bool 3x3 1 0 0 1 1 0 1 1 1
make_npy triu.npy bool 3x3 0 1 1 0 0 1 0 0 0
run $mha --query x.npy --attn-mask tril.npy
run $mha --query x.npy --attn-mask triu.npy
run $mha --query x.npy --attn-mask tril.npy -q
run $mha --query x2.npy --attn-mask tril.npy --causal
run $attend --mask tril.npy
run $attend --mask triu.npy

# padding: each sequence counts, each head does not
make_npy padding.npy bool 2x3 1 1 1 0 1 1
run $mha --query x2.npy --key-padding-mask padding.npy
run $mha --query x2.npy --key-padding-mask padding.npy --attn-mask triu.npy
make_npy numbers.npy f32 2x3 -inf -inf -inf 0 -inf -inf
run $mha --query x2.npy --key-padding-mask numbers.npy --per-head
# heads of their own: (B*H, T, S) and (H, T, S)
make_npy heads.npy bool 4x3x3 0 0 0 0 0 0 1 1 1
run $mha --query x2.npy --attn-mask heads.npy
make_npy keep.npy bool 2x3x3 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1
run $attend --mask keep.npy
make_npy one.npy bool 2x1x1x1 0 1
run $attend --mask one.npy
make_npy add.npy f32 3x3 -inf -inf -inf 0 -1e30 -inf 0 0 0
run $attend --mask add.npy

# rules that leave no key by themselves or together with a mask
make_npy short.npy f32 2x2x1x4 1 2 3
make_npy lengths.npy i64 2 0 2
make_npy last.npy bool 3 0 0 1
run multihead attend --q q.npy --k short.npy --v short.npy --out o.npy --causal bottom-right
run multihead attend --q q.npy --k short.npy --v short.npy --out o.npy --causal top-left
run multihead attend --q q.npy --k short.npy --v short.npy --out o.npy --window 0,0
run $attend --kv-lengths lengths.npy
run $attend --mask last.npy --kv-lengths lengths.npy
run $attend --mask last.npy --causal
run $attend --mask last.npy --window 1,1
run $attend --mask last.npy --causal bottom-right --kv-lengths lengths.npy
make_npy --show o.npy | head -n 1

# the number of rows of weights that are all zero
run multihead attend --q q.npy --k kv.npy --v kv.npy --mask last.npy --window 1,1 --weights w.npy
make_npy --show w.npy | grep -c '^0.0000 0.0000 0.0000$'

# sinks do not hide it; a learned key is seen by all
make_npy sinks.npy f32 2 1
run $attend --mask triu.npy --sinks sinks.npy
id='1 0 0 1'
make_npy learned.safetensors in_proj_weight f32 6x2 1 + bias_k f32 1x1x2 1 + bias_v f32 1x1x2 1 + \
    out_proj.weight f32 2x2 $id
make_npy y.npy f32 3x1x2 1 2 3
run multihead mha -m learned.safetensors --heads 2 --query y.npy --attn-mask tril.npy --weights w.npy

# float64 is converted without a word, unless a number becomes infinite
make_npy wide.npy f64 3x4 1 2 3 4 5
make_npy huge.npy f64 3x4 1 1e300 inf 4 5 -1e39
make_npy large.npy f32 3x4 1 70000 3
run multihead attend --q wide.npy --k wide.npy --v wide.npy --out o.npy
run multihead attend --q wide.npy --k wide.npy --v huge.npy --out o.npy
run multihead attend --q wide.npy --k wide.npy --v huge.npy --out o.npy -q
run multihead attend --q wide.npy --k large.npy --v wide.npy --out o.npy --dtype f16
run multihead attend --q wide.npy --k large.npy --v wide.npy --out o.npy --dtype bf16
run multihead mha --embed-dim 4 --heads 2 --query wide.npy --out o.npy
run multihead mha --embed-dim 4 --heads 2 --query huge.npy --out o.npy
