# SPDX-License-Identifier: MIT
# `multihead train --init` with published models: tiny ones, to which words are given.
goldens=$(dirname "$script")/../goldens/models

# model NAME FIRST LAST PAD: a copy of a golden model with words. Each text begins with <s>, id FIRST,
# and ends with </s>, id LAST, of a classifier; that of a language model has no end.
model() {
    cp -r "$goldens/$1" "$1"
    rm "$1/expected.safetensors"
    end= template='{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}'
    case $1 in *classifier) end=', {"SpecialToken": {"id": "</s>", "type_id": 0}}' ;; esac
    special() { printf '{"id": %s, "content": "%s", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}' "$2" "$1"; }
    pair="$template$end"
    {
        printf '{"version": "1.0", "added_tokens": [%s' "$(special '<s>' "$2")"
        printf ', %s' "$(special '</s>' "$3")" "$(special '<pad>' "$4")"
        printf '], "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}'
        printf ', "post_processor": {"type": "TemplateProcessing", "single": [%s], "pair": [%s, {"Sequence": {"id": "B", "type_id": 1}}]' "$pair" "$pair"
        printf ', "special_tokens": {"<s>": {"id": "<s>", "ids": [%s], "tokens": ["<s>"]}' "$2"
        printf ', "</s>": {"id": "</s>", "ids": [%s], "tokens": ["</s>"]}}}' "$3"
        printf ', "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}'
        printf ', "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<s>": %s, "</s>": %s, "<pad>": %s, "<unk>": 3' "$2" "$3" "$4"
        i=4
        for word in the cat dog sat ran on in mat park red blue number one two three; do
            printf ', "▁%s": %s' $word $i
            i=$((i + 1))
        done
        while [ $i -lt 98 ]; do
            printf ', "▁word%s": %s' $i $i
            i=$((i + 1))
        done
        printf '}}}\n'
    } >"$1/tokenizer.json"
}

for i in 1 2 3 4 5 6 7 8 9 10; do
    printf 'the cat sat on the mat\n\nthe dog ran in the park\n\nthe red cat ran in the blue park\n\n'
done >text.txt
options="--data text.txt --isa scalar --dtype f32 --context 8 --batch-tokens 64"

# The card has the model's own sizes and its origin. Samples are text, not pieces of it.
model llama 1 2 0
multihead train -q --task lm --init llama $options --after 2u -o tuned-llama
sed -n '/^## Model/,/^## Training/p; s/^.*\(The weights started.*\)/\1/p' tuned-llama/README.md
grep -c '"sample": "[a-z0-9 ]*",' tuned-llama/log.jsonl

# Every family: an update of almost no size leaves the weights under their names.
for name in gpt2-untied mistral qwen2 qwen3 gemma2 gemma3 gpt_neox; do
    model $name 1 2 0
    sed -i 's/"\(bos\|eos\)_token_id": 98/"\1_token_id": 2/' $name/config.json
    multihead train -q --task lm --init $name $options --after 1u --lr 1e-30 --clip 0 --weight-decay 0 -o kept-$name
    multihead generate -m $name --isa scalar --dtype f32 --json -n 6 "the cat sat" >$name.txt
    multihead generate -m kept-$name --isa scalar --dtype f32 --json -n 6 "the cat sat" | diff - $name.txt && echo "$name: the same"
    multihead train --task lm --init $name $options --lr 0.01 --after 30u -o tuned-$name 2>&1 | grep -c "is a model with loss"
done
grep -h '_eps\|theta' kept-qwen3/config.json kept-gpt_neox/config.json # with few digits
run multihead train -q --task lm --init llama $options --context 80 -o refused
run multihead train -q --task lm -o refused

awk '{ print ($2 == "cat" ? "cat" : $2 == "dog" ? "dog" : "other") "\t" $0 }' text.txt | grep the >labels.tsv
for name in bert-classifier roberta-classifier xlm-roberta-mlm distilbert-mlm; do
    model $name 0 2 1
    multihead train --task classification --init $name --data labels.tsv --valid labels.tsv --isa scalar --dtype f32 --lr 0.01 --after 8e -o tuned-$name 2>&1 |
        sed -n 's/.*is a model with accuracy/accuracy/p'
    multihead info -m tuned-$name | sed -n '1,2p'
done

# A classifier with the labels of the data keeps its head, under its names.
for label in contradiction neutral entailment; do printf '%s\tthe cat sat\n%s\tthe dog ran\n' $label $label; done >labels3.tsv
multihead train -q --task classification --init roberta-classifier --data labels3.tsv --isa scalar --dtype f32 --after 1u --lr 1e-30 --clip 0 -o kept-roberta
for m in roberta-classifier kept-roberta; do multihead classify -m $m --isa scalar --dtype f32 --json "the red cat" >$m.txt; done
cmp roberta-classifier.txt kept-roberta.txt && echo "roberta-classifier: the same"
for m in roberta-classifier kept-roberta; do head -c 4000 $m/model.safetensors | tr ',{' '\n\n' | sed -n 's/^\("[a-zA-Z][^"]*\.\(weight\|bias\)"\):$/\1/p' | sort >$m.names; done
cmp roberta-classifier.names kept-roberta.names && grep -c . kept-roberta.names

# What is not started from, and which task does.
run multihead train -q --init llama --data labels.tsv -o refused
run multihead train -q --task classification --init llama --data labels.tsv -o refused
run multihead train -q --task lm --init bert-classifier --data text.txt -o refused
cp -r "$goldens/marian" "$goldens/t5" .
run multihead train -q --init marian --data labels.tsv -o refused
run multihead train -q --task lm --init t5 --data text.txt -o refused
run multihead train -q --task lm --init fr-en --data text.txt -o refused | sed "s|/.*/models/||"
mkdir untyped
echo '{"hidden_size": 32}' >untyped/config.json
run multihead train -q --task lm --init untyped --data text.txt -o refused
rm untyped/config.json
run multihead train -q --init untyped --data labels.tsv -o refused
echo GGUF >model.gguf
run multihead train -q --task lm --init model.gguf --data text.txt -o refused
ls -d refused 2>&1
