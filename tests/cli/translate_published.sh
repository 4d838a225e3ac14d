# SPDX-License-Identifier: MIT
# `multihead translate` and `serve` with published encoder-decoders: small ones, with random weights.
goldens=$(dirname "$script")/../goldens/translations
scalar="--isa scalar --threads 1"
bars() { run "$@" | tr '\t' '|' | sed "s|$goldens|GOLDENS|"; }
for model in marian bart t5; do
    bars multihead translate -m "$goldens/$model" $scalar --scores --beam 3 --n-best 2 "w41 w7" ""
    bars multihead translate -m "$goldens/$model" $scalar --alignment hard --max-length-factor 0 "w41 w7 w12"
    bars multihead translate -m "$goldens/$model" $scalar --target "w9 w10" "w41 w7"
    bars multihead translate -m "$goldens/$model" $scalar --disable-head cross.1.3 --scores "w41 w7"
    multihead translate -m "$goldens/$model" $scalar --trace-out trace.safetensors --target "w9" "w41 w7" >/dev/null &&
        bars multihead view --trace trace.safetensors --layer 0 --head 1 --width 40
done
for model in marian bart t5; do # of each token of the target, the likeliest instead
    bars multihead translate -m "$goldens/$model" $scalar --json --top-logprobs 2 --target "w9" "w41 w7"
done
run multihead translate -m "$goldens/marian" --top-logprobs 2 --json "w41" 2>&1 | sed "s|$goldens|GOLDENS|"
run multihead translate -m "$goldens/marian" --top-logprobs 0 --target w9 --json "w41" 2>&1 | sed "s|$goldens|GOLDENS|"
multihead translate -m "$goldens/marian" --json --target "w9" --alignment soft "w41" | check_json
bars multihead translate -m "$goldens/marian" $scalar --disable-head dec.2.0 "w41"
bars multihead translate -m "$goldens/../models/bert" $scalar "w41"
bars multihead serve -m "$goldens/../models/bert" $scalar
bars multihead translate -m "$goldens/../gguf/llama.gguf" $scalar "w41"
long=$(printf 'w9 %.0s' $(seq 600))
run multihead translate -m "$goldens/marian" $scalar --target "$long" "w41" | sed "s|$goldens|GOLDENS|; s/\(w9 \)*w9 /w9 /"
run multihead translate -m "$goldens/marian" $scalar --target "w9" "$long" | sed "s|$goldens|GOLDENS|; s/\(w9 \)*w9 /w9 /"
bars multihead info -m "$goldens/marian" --isa scalar
