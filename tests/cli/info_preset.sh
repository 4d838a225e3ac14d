# SPDX-License-Identifier: MIT
# `multihead info --preset`: sizes of well-known models; totals are the published ones.
run multihead info --presets
run multihead info --preset gpt2-small
run multihead info --preset bert-base
run multihead info --preset gpt3
run multihead info --preset llama3-8b
run multihead info --preset ViT-B/16
run multihead info --preset openai/whisper-tiny
run multihead info --preset gpt2 --json
run multihead info --preset whisper-tiny --json
multihead info --presets --json | check_json | sort | uniq -c | sed 's/^ *//'
for name in gpt-3-175b gpt2_xl google/vit-large-patch16-224 whisper-large-v2; do
    echo "$name: $(multihead info --preset $name | head -n 1)"
done
run multihead info --preset whisper-tinny
run multihead info --preset quux
run multihead info --preset
run multihead info --presets --preset gpt2
run multihead info --preset gpt2 --measure
