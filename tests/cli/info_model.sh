# SPDX-License-Identifier: MIT
# multihead info -m on small models with random weights. Bytes in memory depend on the level.
goldens=$(dirname "$script")/../goldens/models
show() { multihead info -m "$@" | sed 's/^\(memory, .*  *\)[0-9]* bytes/\1N bytes/'; }

show "$goldens/bert"
show "$goldens/bert-classifier"
show "$goldens/roberta-mlm"
show "$goldens/gpt2"
show "$goldens/marian"
show "$goldens/t5" | grep longest
show "$goldens/llama-scaled" | grep -E 'family|can|longest|rotary|window|sliding'
show "$goldens/gemma3" | grep -E 'family|can|longest|rotary|window|sliding'
multihead info --json -m "$goldens/bert-classifier" |
    check_json family architecture can layers d_model heads kv_heads head_dim dim_feedforward \
        vocabulary max_length parameters file_bytes memory_bytes_f32 memory_bytes_bf16 causal \
        pooling normalize labels label_names

# With a tokenizer
cp -r "$goldens/bert" tiny
{
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'
    i=5
    while [ $i -lt 99 ]; do
        echo "word$i"
        i=$((i + 1))
    done
} >tiny/vocab.txt
show tiny | tail -n 5
multihead info --json -m tiny | check_json tokenizer_size special_tokens

# What generation_config.json asks for
cp -r "$goldens/marian" defaults
echo '{"decoder_start_token_id": 98, "eos_token_id": 0, "num_beams": 4, "length_penalty": 0.6, "max_length": 30}' \
    >defaults/generation_config.json
show defaults | tail -n 4

run multihead info -m none/model
run multihead info -m tiny --preset gpt2-small
run multihead info -m tiny --measure
sed 's/"model_type": "bert"/"model_type": "mamba"/' "$goldens/bert/config.json" >tiny/config.json
run multihead info -m tiny
sed 's/"hidden_size": 32/"hidden_size": 64/' "$goldens/bert/config.json" >tiny/config.json
run multihead info -m tiny

# What the engine refuses is the config's: its file is named
damage() { # EXPRESSION: of sed, on the config of a llama
    sed "$1" "$goldens/llama/config.json" >damaged/config.json
    run multihead info -m damaged
}
mkdir damaged
cp "$goldens/llama/model.safetensors" damaged
damage 's/"rms_norm_eps": 1e-06/"rms_norm_eps": -1/'
damage 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
damage 's/"head_dim": 8/"head_dim": 7/'
damage 's/"head_dim": 8/"head_dim": 2000/'
