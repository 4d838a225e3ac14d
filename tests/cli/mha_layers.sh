# SPDX-License-Identifier: MIT
# `multihead mha --layer`: one attention layer of a whole model, against the same layer in its own model's forward pass
# (tests/goldens/make_layers.py), and what is said if there is no such layer.
goldens=$(dirname "$script")/../goldens
tensors=$goldens/layers/expected.safetensors
layer() { # MODEL LAYER STACK OPTION...
    case=$1:$2:$3
    model=$1 number=$2 stack=$3
    shift 3
    [ "$stack" != cross ] || set -- "$@" --key "$tensors:$case:memory"
    echo "$case"
    multihead mha -m "$goldens/$model" --layer "$number" ${stack:+--stack $stack} --query "$tensors:$case:x" \
        --out y.npy "$@" && make_npy --close y.npy "$tensors" "$case:y" 1e-6
}
layer models/bert 0 ""
layer models/roberta-mlm 0 ""
layer models/distilbert-mlm 1 ""
layer models/gpt2 1 ""
for model in llama llama-scaled mistral qwen2 qwen3 gemma2 gemma3 gpt_neox; do
    layer models/$model 1 ""
done
layer models/gemma2 0 ""
layer models/gemma3 0 ""
for stack in encoder decoder cross; do
    layer models/bart 1 $stack
    layer models/marian 1 $stack
    layer models/t5 1 $stack
    layer layers/whisper 0 $stack
    layer layers/whisper-openai 0 $stack
done
layer layers/vit 1 ""
layer layers/vit-old 1 ""
layer layers/clip 1 vision
layer layers/clip 1 text
layer layers/timm 0 "" --heads 4
layer layers/timm 0 "" --heads 2 # another one

# nn.Transformer's names, with which --prefix works too
mkdir translator && make_model translator 1
echo '{"nhead": 2}' >translator/config.json
multihead mha -m translator --layer 0 --stack cross --random 1x4 --out a.npy
multihead mha -m translator --prefix decoder.layers.0.multihead_attn. --random 1x4 --out b.npy
cmp a.npy b.npy && echo "same"

# step by step
cp -r "$goldens/models/gpt2" "$goldens/models/llama" "$goldens/models/t5" "$goldens/layers/clip" "$goldens/layers/timm" .
run multihead mha -m gpt2 --layer 0 --random 1x3 --trace --no-times
multihead mha -m llama --layer 0 --random 1x3 --trace --no-times | grep -c rotate
cp -r "$goldens/models/gemma2" .
run multihead mha -m gemma2 --layer 0 --random 1x3 --trace

# what is not there
x="--random 1x3"
run multihead mha -m gpt2 --layer 2 $x
run multihead mha -m gpt2 --layer 0 --stack encoder $x
run multihead mha -m t5 --layer 0 $x
run multihead mha -m clip --layer 0 --stack decoder $x
run multihead mha -m clip --layer 9 --stack text $x
run multihead mha -m timm --layer 0 $x
run multihead mha -m timm --layer 0 --heads 5 $x
make_npy other.safetensors weight f32 4x4 1
run multihead mha -m other.safetensors --layer 0 $x
make_npy part.safetensors h.0.attn.c_attn.weight f32 4x12 1
run multihead mha -m part.safetensors --layer 0 --heads 2 $x
make_npy wrong.safetensors h.0.attn.c_attn.weight f32 4x12 1 + h.0.attn.c_proj.weight f32 6x4 1
run multihead mha -m wrong.safetensors --layer 0 --heads 2 $x
make_npy bias.safetensors h.0.attn.c_attn.weight f32 4x12 1 + h.0.attn.c_attn.bias f32 4 1 + \
    h.0.attn.c_proj.weight f32 4x4 1
run multihead mha -m bias.safetensors --layer 0 --heads 2 $x
make_npy mask.npy f32 3x3 0
run multihead mha -m t5 --layer 0 --stack encoder --attn-mask mask.npy $x
sed 's/"rope_type": "default"/"rope_type": "longrope"/' llama/config.json >c && mv c llama/config.json
run multihead mha -m llama --layer 0 $x

# options that do not go together
run multihead mha --layer 0 --embed-dim 4 --heads 2 $x
run multihead mha -m gpt2 --stack encoder $x
run multihead mha -m gpt2 --layer 0 --prefix h. $x
run multihead mha -m gpt2 --layer 0 --rope half $x
run multihead mha -m gpt2 --layer x $x
run multihead mha -m gpt2 --layer 0 --stack middle $x
