# SPDX-License-Identifier: MIT
# Every way in which `multihead mha` can go wrong: the message, the exit code, and that what was
# there before is left alone.
make_npy x.npy f32 3x2x4 1 2 3 4 5
make_npy o.npy f32 1 42
remember o.npy
module="--embed-dim 4 --heads 2"

# usage
run multihead mha
run multihead mha --embed-dim 4 --query x.npy --out o.npy
run multihead mha --heads 2 --query x.npy --out o.npy
run multihead mha $module --out o.npy
run multihead mha --embed-dim 4 --heads 3 --query x.npy --out o.npy
run multihead mha --embed-dim 0 --heads 3 --query x.npy --out o.npy
run multihead mha --embed-dim 4x --heads 3 --query x.npy --out o.npy
run multihead mha --preset gpt4 --trace
run multihead mha --preset gpt3 --heads 2 --trace
run multihead mha $module --query x.npy --random 2x3 --out o.npy
run multihead mha $module --key x.npy --out o.npy
run multihead mha $module --random 3 --out o.npy
run multihead mha $module --random 3:5 --out o.npy
run multihead mha $module --random 3,5,4 --out o.npy
run multihead mha $module --random 0x5 --out o.npy
run multihead mha $module --random 3x --out o.npy
run multihead mha $module --random 3x5x7 --out o.npy
run multihead mha $module --random 99999999999999999999999999999999999999x5 --out o.npy
run multihead mha $module --query x.npy --out o.npy --qkv mixed
run multihead mha $module --query x.npy --out o.npy --causal left
run multihead mha $module --query x.npy --out o.npy --per-head
run multihead mha $module --query x.npy --out o.npy --values
run multihead mha $module --query x.npy --out o.npy --json
run multihead mha $module --query x.npy --out o.npy --weights o.npy
run multihead mha $module --query x.npy --out o.safetensors
run multihead mha $module --query x.npy --out - --trace
run multihead mha $module --query x.npy --out o.npy extra
run multihead mha $module --kdim 3 --query x.npy --out o.npy
run multihead mha $module --kdim 3 --qkv interleaved --random 2x3 --out o.npy
run multihead mha $module --kv-heads 3 --query x.npy --out o.npy
run multihead mha $module --kv-heads 1 --qkv interleaved --query x.npy --out o.npy
run multihead mha --preset bert-base --kv-heads 2 --trace
run multihead mha $module --rope sideways --query x.npy --out o.npy
run multihead mha $module --rope-base 100 --query x.npy --out o.npy
run multihead mha $module --rope half --rope-base 0.5 --query x.npy --out o.npy
run multihead mha --embed-dim 3 --heads 1 --rope half --random 1x2 --out o.npy
untouched o.npy

# parameters
printf 'hello' >text.safetensors
id='1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1'
make_npy foreign.safetensors weight f32 4x4 1
make_npy missing.safetensors in_proj_weight f32 12x4 1 + in_proj_bias f32 12 0 + out_proj.weight f32 4x4 $id
make_npy bias.safetensors in_proj_weight f32 12x4 1 + out_proj.weight f32 4x4 $id + out_proj.bias f32 4 0
make_npy surplus.safetensors in_proj_weight f32 12x4 1 + out_proj.weight f32 4x4 $id + quux f32 1 1
make_npy shape.safetensors in_proj_weight f32 11x4 1 + out_proj.weight f32 4x4 $id
make_npy empty.safetensors in_proj_weight f32 0x40000 0 + out_proj.weight f32 40000x0 0
make_npy good.safetensors in_proj_weight f32 12x4 1 + out_proj.weight f32 4x4 $id
make_npy order.safetensors qkv_layer.weight f32 12x4 1 + linear_layer.weight f32 4x4 $id
for model in nowhere text foreign missing bias surplus shape empty; do
    run multihead mha -m $model.safetensors --heads 2 --query x.npy --out o.npy
done
run multihead mha -m good.safetensors --heads 3 --query x.npy --out o.npy
run multihead mha -m good.safetensors --heads 2 --embed-dim 8 --query x.npy --out o.npy
run multihead mha -m good.safetensors --heads 2 --kv-heads 1 --query x.npy --out o.npy
make_npy learned.safetensors in_proj_weight f32 12x4 1 + bias_k f32 1x1x4 1 + bias_v f32 1x1x4 1 + \
    out_proj.weight f32 4x4 $id
run multihead mha -m learned.safetensors --heads 2 --alibi --query x.npy --out o.npy
run multihead mha -m order.safetensors --heads 2 --query x.npy --causal top-left --trace --no-times --isa scalar
untouched o.npy

# types and shapes
make_npy int.npy i32 3x2x4 1
make_npy row.npy f32 4 1
make_npy wide.npy f32 3x2x5 1
make_npy batch.npy f32 3x3x4 1
make_npy flat.npy f32 3x4 1
make_npy long.npy f32 5x2x4 1
run multihead mha $module --query nowhere.npy --out o.npy
run multihead mha $module --query int.npy --out o.npy
run multihead mha $module --query row.npy --out o.npy
run multihead mha $module --query wide.npy --out o.npy
run multihead mha $module --query x.npy --key batch.npy --out o.npy
run multihead mha $module --query x.npy --key flat.npy --out o.npy
run multihead mha $module --query x.npy --key long.npy --value x.npy --out o.npy
make_npy padding.npy bool 3x2 1
make_npy integers.npy i64 2x3 1
make_npy mask.npy bool 2x3 1
make_npy heads.npy bool 3x3x3 1
run multihead mha $module --query x.npy --key-padding-mask padding.npy --out o.npy
run multihead mha $module --query x.npy --key-padding-mask integers.npy --out o.npy
run multihead mha $module --query x.npy --key-padding-mask nowhere.npy --out o.npy
run multihead mha $module --query x.npy --attn-mask mask.npy --out o.npy
run multihead mha $module --query x.npy --attn-mask heads.npy --out o.npy
run multihead mha $module --query flat.npy --key-padding-mask padding.npy --out o.npy

# nothing to attend to, nobody who attends
make_npy none.npy f32 0x2x4 1
run multihead mha $module --query x.npy --key none.npy --out empty.npy --trace --no-times --isa scalar
run make_npy --show empty.npy
run multihead mha $module --query none.npy --key x.npy --out empty.npy --trace --no-times --values --isa scalar
run make_npy --show empty.npy

# more memory than there can be
run multihead mha $module --random 1073741824x1073741824 --out o.npy

# outputs that cannot be written
run multihead mha $module --query x.npy --out nowhere/o.npy
run multihead mha $module --query x.npy --out new.npy --weights nowhere/w.npy
run multihead mha $module --query x.npy --out /dev/full
untouched o.npy
ls -a | sort
