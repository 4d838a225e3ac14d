# SPDX-License-Identifier: MIT
# Options in general: other spellings that are accepted, names that do not exist, names of files that
# would steer a terminal.
make_npy q.npy f32 2x4 1 0 0 0 0 1 0 0
make_npy k.npy f32 3x4 8 0 0 0 0 8 0 0 0 0 8 0
make_npy v.npy f32 3x2 1 2 3 4 5 6
make_npy x.npy f32 3x1x4 0 1 2 3 4 5 6
make_npy o.npy f32 1 42
qkv="--q q.npy --k k.npy --v v.npy"

# names that do not exist, and the nearest ones that do
run multihead attend $qkv --out o.npy --causla
run multihead attend $qkv --out o.npy --attn-mask m.npy
run multihead attend $qkv --out o.npy --quux
run multihead mha --embed-dim 4 --head 2 --random 1x3 --mask m.npy
run multihead mha --embed-dim 4 --heads 2 --rnadom=1x3
run multihead translate --beams 3
run multihead mha --see
run multihead mha --n
run multihead mha --trace=yes
run multihead mha -heads 8
run multihead mha -qx
run multihead mha -qm
run multihead info -- --quux

# a value may look like an option
run multihead attend $qkv --out --weights

# the names of PyTorch and Hugging Face
run multihead attend --query q.npy --key k.npy --value v.npy --out o1.npy
run multihead attend $qkv --out o2.npy
cmp o1.npy o2.npy && echo "same"
run multihead mha --embed_dim 4 --num_heads=2 --q x.npy --k x.npy --v x.npy --is_causal --out o1.npy
run multihead mha --d-model 4 --nhead 2 --query x.npy --causal top-left --out o2.npy
cmp o1.npy o2.npy && echo "same"
run multihead mha --hidden-size 4 --num-attention-heads 2 --num-key-value-heads 1 --rope half --rope-theta 100 \
    --query x.npy --out o1.npy
run multihead mha --embed-dim 4 --heads 2 --kv-heads 1 --rope half --rope-base 100 --query x.npy --out o2.npy
cmp o1.npy o2.npy && echo "same"
multihead train --embed-dim 12 --num-heads 5x 2>&1 | head -n 1

# element types by their other names
for type in float32 fp32 FP32; do
    run multihead attend $qkv --dtype $type --out o1.npy
    multihead attend $qkv --dtype f32 --out o2.npy && cmp o1.npy o2.npy
done
for type in float16 fp16 half; do
    run multihead attend $qkv --dtype $type --out o1.npy
    multihead attend $qkv --dtype f16 --out o2.npy && cmp o1.npy o2.npy
done
run multihead attend $qkv --dtype bfloat16 --out o1.npy
multihead attend $qkv --dtype bf16 --out o2.npy && cmp o1.npy o2.npy
run multihead attend $qkv --dtype float64 --out o1.npy

# causal without an alignment, where both are the same
make_npy square.npy f32 3x4 0 1 2 3 4 5 6
square="--q square.npy --k square.npy --v square.npy"
run multihead attend $square --causal --out o1.npy
run multihead attend $square --causal=bottom_right --out o2.npy
cmp o1.npy o2.npy && echo "same"
run multihead attend $square --out o3.npy --causal
cmp o1.npy o3.npy && echo "same"
run multihead attend $qkv --causal --out o.npy
run multihead attend $qkv --causal true --out o.npy
make_npy longer.npy f32 5x1x4 1 2 3
run multihead mha --embed-dim 4 --heads 2 --query x.npy --key longer.npy --causal --out o.npy
run make_npy --show o.npy

# control characters in names
red=$(printf '\033[31mred')
odd=$(printf 'a\nb\177\302\233\377')
for name in "$red" "$odd" "$(printf 'c\303\264t\303\251.npy')"; do
    multihead attend --q "$name" --k k.npy --v v.npy --out o.npy 2>&1
    multihead attend $qkv --out o.npy "$name" 2>&1
    multihead attend $qkv --out o.npy --"$name" 2>&1
    multihead "$name" 2>&1
done

run multihead --verison
run multihead -v
run multihead attend $qkv --out=

# outputs: the name of another format, and one file by two names
for name in o.csv o.TXT o.npz o.pt o.pkl o.json o.safetensors; do
    run multihead attend $qkv --out $name
done
run multihead mha --embed-dim 4 --heads 2 --query x.npy --weights w.csv
run multihead attend $qkv --out o.data
ln -s o.npy link.npy
ln -s new.npy dangling.npy
ln -s dangling.npy "$PWD/chain.npy"
mkdir folder
ln -s ../new.npy folder/up.npy
ln -s "$PWD" here
ln o.npy hard.npy
run multihead attend $qkv --out o.npy --weights ./o.npy
run multihead attend $qkv --out o.npy --weights link.npy
run multihead attend $qkv --out o.npy --weights hard.npy
run multihead attend $qkv --out new.npy --weights dangling.npy
run multihead attend $qkv --out dangling.npy --weights chain.npy
run multihead attend $qkv --out folder/up.npy --lse chain.npy
run multihead attend $qkv --out here/new.npy --weights new.npy
run make_npy --show o.npy
ls new.npy 2>/dev/null || echo 'new.npy is not there'
run multihead attend $qkv --out dangling.npy --weights link.npy --lse folder/new.npy
