# SPDX-License-Identifier: MIT
# Models with checksums: one flipped bit is refused by name, --no-verify loads it as it is, and models
# without checksums load as before.
flip() { # FILE BYTE: its lowest bit
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
mkdir model
make_model model 5
file=model/model.safetensors
cp $file saved
size=$(wc -c <$file)
run multihead translate -m model --isa scalar --threads 1 "le chat"

# the data
flip $file $((size - 1))
run multihead translate -m model "le chat"
run multihead serve -m model --port 0
run multihead translate -m model --isa scalar --threads 1 --no-verify "le chat"
run multihead mha --model $file --prefix decoder.layers.0.self_attn. --heads 2 --random 1x2 --out o.npy
flip $file $((size - 1))
cmp $file saved && run multihead translate -m model --isa scalar --threads 1 "le chat"

# the header: a digit of a shape, and the checksum itself
flip $file $(($(grep -obaF '"shape":[' $file | head -1 | cut -d: -f1) + 9))
run multihead translate -m model "le chat"
cp saved $file
flip $file $(($(grep -obaF 'multihead-xxh64:' $file | head -1 | cut -d: -f1) + 20))
run multihead translate -m model "le chat"

# one layer alone
make_npy layer.safetensors in_proj_weight f32 12x4 1 2 3 + in_proj_bias f32 12 0 + \
    out_proj.weight f32 4x4 1 + out_proj.bias f32 4 0
run multihead mha --model layer.safetensors --heads 2 --random 1x2 --out o.npy
run multihead mha --heads 2 --embed-dim 4 --random 1x2 --no-verify --out o.npy
