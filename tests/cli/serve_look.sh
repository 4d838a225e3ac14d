# SPDX-License-Identifier: MIT
# `multihead serve` with models that do not translate: small ones with random weights, to which
# vocabularies are given, and the language model that ships.
goldens=$(dirname "$script")/../goldens/models
for model in bert bert-mlm bert-classifier; do
    cp -r "$goldens/$model" $model
    {
        printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the cat sat on mat play '##ing' .
        i=13
        while [ $i -lt 99 ]; do
            echo "word$i"
            i=$((i + 1))
        done
    } >$model/vocab.txt
done

# serve MODEL: starts a server; $server is its process, $address where it is.
serve() {
    echo "-- $1"
    : >address
    multihead serve -m "$1" --isa scalar --threads 2 --port 0 >address 2>errors &
    server=$!
    for i in $(seq 600); do
        [ -s address ] && break
        sleep 0.1
    done
    address=$(cat address)
}
post() { # BODY: the answer, with fewer digits
    printf '%s\n' "$1"
    serve_client "$address" post /look "$1" |
        sed -E 's/(0\.[0-9]{4})[0-9]*/\1/g; s/("embedding":\[[^,]*),[^]]*/\1, .../'
}
stop() {
    kill $server
    wait $server
    echo "exit $?"
    cat errors
}

serve bert-mlm
post '{"text": "The cat ___ on the [MASK]."}'
post '{"text": "The cat [MASK] on the <mask>.", "disabled_heads": ["0:1", "1"]}'
post '{"text": "The cat sat."}'
post '{"text": ""}'
post '{"text": " \n"}'
post '{"text": "The", "disabled_heads": ["2:0"]}'
post '{"text": "The", "disabled_heads": ["0:0", "enc.0.0"]}'
post '{"text": "The", "disabled_heads": ["0:99999999999999999999"]}'
post '{"text": "The", "disabled_heads": [1]}'
post '{"text": 1}'
post '{"text": "'"$(printf 'cat %.0s' $(seq 300))"'"}' | tail -n 1
serve_client "$address" post /translate '{"text": "The"}'
stop

serve bert-classifier
post '{"text": "The cat sat."}'
post '{"text": "The cat sat.", "disabled_heads": ["0"]}'
stop

serve bert
post '{"text": "The cat sat."}'
post '{"text": "The cat sat.", "disabled_heads": ["0:2"]}'
stop

serve en-lm
post '{"text": "The cat sat on the"}'
post '{"text": "The cat sat on the", "disabled_heads": ["0", "3:1"]}'
post '{"text": "'"$(printf 'cat %.0s' $(seq 300))"'"}' | tail -n 1
stop

# Pictures, of files in base64. A small file may describe a large picture.
cp -r "$goldens/vit" "$goldens/clip" .
picture=$(base64 <"$goldens/../pictures/small.ppm" | tr -d '\n')
posts() { post "$1" | sed "s|$picture|PICTURE|"; } # short
serve vit
posts '{"picture": "'"$picture"'"}'
posts '{"name": "a", "picture": "'"$picture"'", "disabled_heads": ["0"]}'
posts '{"text": "cat"}'
posts '{"picture": "abc"}'
posts '{"picture": "===="}'
posts '{"picture": "abc*"}'
posts '{"picture": "aGVsbG9="}'
posts '{"picture": "aGVsbG8="}'
posts '{"picture": ""}'
posts '{"picture": "", "error_status": 200}'
posts '{"picture": "'"$(printf 'P5 3000 3000 255\n' | base64)"'"}'
posts '{"picture": "'"$(printf 'P5 1 9 255\n123456789' | base64)"'"}'
serve_client "$address" post /look '{"picture": "'"$(head -c 90000 /dev/zero | base64 | tr -d '\n')"'"}'
stop
serve clip
posts '{"picture": "'"$picture"'"}'
stop

# What is not served.
for model in whisper t5-encoder; do
    run multihead serve -m "$goldens/$model" --port 0 2>&1 | sed "s|$goldens|GOLDENS|"
done
