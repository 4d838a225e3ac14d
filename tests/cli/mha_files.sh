# SPDX-License-Identifier: MIT
# `multihead mha -m`: directories as Hugging Face has them, the number of heads from config.json, and
# what is said if there is no attention layer. And the spellings of presets.
id='1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1'
layer() { # PREFIX
    echo "$1q_proj.weight f32 4x4 $id + $1k_proj.weight f32 2x4 1 + $1v_proj.weight f32 2x4 2 +"
    echo "$1o_proj.weight f32 4x4 $id"
}
make_npy x.npy f32 3x1x4 1 2 3 4 5
mha="multihead mha --query x.npy"

# a directory
mkdir llama
make_npy llama/model.safetensors $(layer model.layers.0.self_attn.) + $(layer model.layers.1.self_attn.) + norm f32 4 1
echo '{"hidden_size": 4, "num_attention_heads": 4, "num_key_value_heads": 2}' >llama/config.json
run $mha -m llama --prefix model.layers.1.self_attn.
run $mha -m llama/ --prefix model.layers.1.self_attn. --out o1.npy
run $mha -m llama/model.safetensors --prefix model.layers.1.self_attn. --heads 4 --kv-heads 2 --out o2.npy
cmp o1.npy o2.npy && echo "same"
(cd llama && multihead mha -m model.safetensors --query ../x.npy --prefix model.layers.0.self_attn.)
(cd llama && multihead mha -m . --query ../x.npy --prefix model.layers.0.self_attn.)
run $mha -m llama --prefix model.layers.1.self_attn. --heads 2 --per-head

# a model by its name
mkdir installed
cp -r llama installed/tiny-llama
export MULTIHEAD_MODELS=installed
run $mha -m tiny-llama --prefix model.layers.1.self_attn. --out o3.npy
cmp o1.npy o3.npy && echo "same"
run $mha -m tiny-lama --prefix model.layers.1.self_attn. 2>&1 | sed '/models found/d; s/ in .*//'
unset MULTIHEAD_MODELS

# the names that configs have for heads
mkdir names
make_npy names/model.safetensors in_proj_weight f32 12x4 1 + out_proj.weight f32 4x4 $id
for config in '"num_attention_heads": 2' '"n_head": 2' '"num_heads": 2' '"n_heads": 2' '"nhead": 2' \
    '"encoder_attention_heads": 2, "decoder_attention_heads": 4' '"text_config": {"num_attention_heads": 2}' \
    '"num_attention_heads": null, "n_head": 2'; do
    echo "{$config}" >names/config.json
    echo "$config"
    $mha -m names --trace --no-times | grep 'H ='
done
# and those that are wrong
for config in '"num_attention_heads": 3' '"num_attention_heads": 0' '"n_head": "two"' '"n_head": 2.5' \
    '"hidden_size": 4' '"n_head": 2, "num_key_value_heads": -1' '"n_head": 2, "num_key_value_heads": 1' '"n_head"'; do
    echo "{$config}" >names/config.json
    echo "$config"
    run $mha -m names
done
echo '[2]' >names/config.json
run $mha -m names
rm names/config.json
run $mha -m names
run $mha -m names/model.safetensors

# several files with an index
mkdir shards
cp llama/config.json shards
make_npy shards/model-1.safetensors $(layer l.0.)
make_npy shards/model-2.safetensors $(layer l.1.)
make_npy shards/model-3.safetensors $(layer l.2. | sed 's/k_proj/unused/')
make_npy shards/model-4.safetensors $(layer l.2. | sed 's/q_proj/unused/')
map() { # LAYER and the numbers of the files with its q, k, v, o
    layer=$1
    shift
    for name in q k v o; do
        printf '"l.%s.%s_proj.weight": "model-%s.safetensors"' "$layer" $name "$1"
        [ $name = o ] || printf ', '
        shift
    done
}
echo "{\"weight_map\": {$(map 0 1 1 1 1), $(map 1 2 2 2 2), $(map 2 3 4 3 4)}}" >shards/model.safetensors.index.json
run $mha -m shards --prefix l.1.
run $mha -m shards --prefix l.2.
run $mha -m shards
echo "{\"weight_map\": {$(map 1 1 1 2 2)}}" >shards/model.safetensors.index.json
run $mha -m shards --prefix l.1.
echo "{\"weight_map\": {$(map 1 5 5 5 5)}}" >shards/model.safetensors.index.json
run $mha -m shards --prefix l.1.
echo '{"weight_map": {"l.0.q_proj.weight": "../llama/model.safetensors"}}' >shards/model.safetensors.index.json
run $mha -m shards --prefix l.0.
echo '{"weight_map": {}}' >shards/model.safetensors.index.json
run $mha -m shards --prefix l.0.

# directories without it
mkdir pickle empty
echo pickle >pickle/pytorch_model.bin
run $mha -m pickle --heads 2
run $mha -m empty --heads 2
run $mha -m nowhere.safetensors --heads 2
run $mha -m nowhere.safetensors

# no attention layer by these names: what there is
run $mha -m llama
run $mha -m llama --prefix model.layers.7.self_attn.
make_npy bert.safetensors embeddings.weight f32 1 1 + encoder.0.attention.self.query.weight f32 4x4 1 + \
    encoder.0.attention.self.key.weight f32 4x4 1 + encoder.0.attention.output.dense.weight f32 4x4 1
run $mha -m bert.safetensors --heads 2
make_npy other.safetensors a f32 1 1 + b f32 1 1 + c f32 1 1
run $mha -m other.safetensors --heads 2 --prefix d.
run $mha -m other.safetensors --heads 2
names=$(for i in 1 2 3 4 5 6 7 8 9 10 11; do echo "l.$i.in_proj_weight f32 1 1 +"; done)
make_npy many.safetensors $names z f32 1 1
run $mha -m many.safetensors --heads 2

# presets, however they are spelt
for name in BERT-Base bert_base bert-base-uncased google-bert/bert-base-uncased bertbase BERT-Large gpt2 GPT-2 \
    gpt2-small vit-b/16 ViT-B-16 google/vit-base-patch16-224 Whisper-Tiny openai/whisper-tiny \
    transformer; do
    echo "$name: $(multihead mha --preset $name --random 1x1 | head -n 1)"
done
run multihead mha --preset bert-bse
run multihead mha --preset gpt4
run multihead mha --preset llama
