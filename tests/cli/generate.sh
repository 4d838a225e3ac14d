# SPDX-License-Identifier: MIT
# multihead generate on a small causal model with random weights, to which a vocabulary is given.
goldens=$(dirname "$script")/../goldens/models
vocabulary() { # DIRECTORY: letters, a space, and the end of text: 99 tokens
    awk 'BEGIN {
        printf "{"
        for (i = 0; i < 94; i++) {
            c = sprintf("%c", 33 + i)
            printf "\"%s%s\": %d, ", c == "\"" || c == "\\" ? "\\" : "", c, i
        }
        printf "\"\304\240\": 94, \"\303\203\": 95, \"\302\251\": 96, \"\304\212\": 97, "
        printf "\"<|endoftext|>\": 98}"
    }' >"$1/vocab.json"
    echo '#version: 0.2' >"$1/merges.txt"
}
cp -r "$goldens/gpt2" tiny
vocabulary tiny
scalar="--isa scalar --threads 1"
run multihead generate -m tiny $scalar -n 8 "The cat"
run multihead generate -m tiny $scalar -n 8 --echo "The cat" "A"
run multihead generate -m tiny $scalar --max-new-tokens 8 --beam 3 "The cat"
run multihead generate -m tiny $scalar -n 12 --temperature 1.5 --seed 7 "The cat"
run multihead generate -m tiny $scalar -n 12 --temperature 1.5 --top-k 20 --top-p 0.9 --min-p 0.01 \
    --repetition-penalty 1.1 --seed 7 "The cat"

# The same seed, the same text: whatever the batch, the threads, and how the texts are given
printf 'The cat\nA\n\nsat on the mat\nZ\n' >lines
multihead generate -m tiny $scalar -n 9 --temperature 3 --seed 3 --input lines >expected
for batch in 1 2 16; do
    multihead generate -m tiny --isa scalar --threads 3 -n 9 --temperature 3 --seed 3 \
        --batch $batch <lines | cmp - expected && echo "batch $batch"
done
multihead generate -m tiny $scalar -n 9 --temperature 3 --seed 4 --input lines | cmp -s - expected ||
    echo "another seed, another text"

# Lines that end as on Windows
printf 'The cat\r\nA\r\n' >windows
multihead generate -m tiny $scalar -n 1 --json --input windows | grep -o '"prompt": "[^"]*"'

# Where it ends
text=$(multihead generate -m tiny $scalar -n 8 "The cat")
run multihead generate -m tiny $scalar -n 8 --stop "$(printf %s "$text" | cut -c 4-5)" "The cat"
multihead generate -m tiny $scalar "The cat" | wc -c
long=$(printf '%038d' 0)
multihead generate -m tiny $scalar --json "$long" | sed 's/.*"ids"/"ids"/; s/\[[^]]*]/[...]/g'
run multihead generate -m tiny $scalar "$long" "${long}000"

# JSON
run multihead generate -m tiny $scalar -n 2 --json --top-logprobs 2 "The \"cat\"" |
    sed 's/\([0-9][.][0-9]\{4\}\)[0-9]*/\1/g'
multihead generate -m tiny $scalar --json "The" | check_json prompt text ids logprobs finish
printf 'A\n%s\nZ\n' "${long}00" >full # the second prompt leaves no room for a token
for format in "--json" "--json --batch 1" "--json --beam 2" "--echo" "--echo --batch 1" "--echo --beam 2"; do
    echo "$format"
    multihead generate -m tiny $scalar -n 2 $format --input full 2>&1 |
        sed 's/, "ids".*"finish"/, "finish"/'
done

# An object is there as soon as its text is done, and not lost if the others are stopped
awk 'BEGIN { for (i = 0; i < 100000; i++) print "The cat" }' >many
multihead generate -m tiny $scalar -n 9 --json --input many >objects 2>/dev/null &
process=$!
while kill -0 $process 2>/dev/null && [ ! -s objects ]; do sleep 0.05; done
kill $process && echo "an object before the last"
wait $process
head -n 1 objects | check_json prompt text ids logprobs finish

# Rules and defaults of the model
cp -r tiny rules
echo '{"eos_token_id": 98, "do_sample": true, "temperature": 1.5, "top_k": 99, "max_length": 12}' \
    >rules/generation_config.json
multihead generate -m tiny $scalar -n 8 "The cat" >tiny.txt
multihead generate -m rules $scalar -n 8 "The cat" | cmp - tiny.txt && echo "sampling is not the default"
run multihead generate -m rules $scalar --model-defaults "The cat"
run multihead generate -m rules $scalar --model-defaults --temperature 0 -n 8 "The cat"
run multihead info -m rules --isa scalar
defaults() { # MEMBERS OPTION...
    echo "{\"eos_token_id\": 98, $1}" >rules/generation_config.json
    shift
    run multihead generate -m rules $scalar -n 4 --model-defaults "$@" "The cat"
}
defaults '"do_sample": true' --beam 2
defaults '"num_beams": 4' --temperature 1.5 --seed 7
defaults '"do_sample": true, "num_beams": 4'
defaults '"do_sample": true, "num_beams": 4' --beam 1
defaults '"do_sample": true, "num_beams": 4' --temperature 0
defaults '"do_sample": true, "temperature": -3'
defaults '"do_sample": true, "temperature": -3' --temperature 1
defaults '"top_p": 1.5'
defaults '"num_beams": 1' --top-k 3
defaults '"num_beams": 5000'
defaults '"no_repeat_ngram_size": 3, "stop_strings": ["a"], "typical_p": 1.0, "sequence_bias": null, "early_stopping": true'
run multihead info -q -m rules --isa scalar | tail -n 1
echo '{"eos_token_id": 98}' >rules/generation_config.json

# Conversations
run multihead generate -m tiny $scalar --chat "Hi"
run multihead generate -m tiny $scalar -n 4 --chat --template zephyr "Hi"
run multihead generate -m tiny $scalar -n 1 --chat --template mistral --echo "A" "B"
cat >rules/chat_template.jinja <<'TEMPLATE'
{%- for message in messages %}
    {%- if loop.first and messages[0]['role'] != 'system' %}
        {{- '<|im_start|>system\nBe nice<|im_end|>\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
TEMPLATE
run multihead generate -m rules $scalar --chat "Hi"
echo '{{ messages }}' >rules/chat_template.jinja
run multihead generate -m rules $scalar --chat "Hi"
run multihead generate -m tiny $scalar --system "Be nice" "Hi"
run multihead generate -m tiny $scalar --chat --template alpaca "Hi"

# On a terminal: what is typed is continued; messages are a conversation, whose second prompt has
# the first message and its answer.
typed() { # TEXT COMMAND: what a terminal shows, without what was typed
    printf "$1\\n\\004" | script -qec "stty -echo; sleep 1; $2" /dev/null | tr -d '\r\004\b' |
        sed 's/\^D//g; s/> //g' | grep -v -x -e "$1" -e A -e B -e '' | sed 's/^[^a-z]*multihead/multihead/'
}
typed "The cat" "multihead generate -m tiny $scalar -n 8"
typed 'A\nB' "multihead generate -m tiny $scalar -n 1 --chat --template mistral"
first=$(multihead generate -m tiny $scalar -n 1 --chat --template mistral "A")
end='<|endoftext|>'
echo "$first"
multihead generate -m tiny $scalar -n 1 "$end [INST] A [/INST] $first$end [INST] B [/INST]"

# What is not a message, is too long, or fills the context does not end the session; Ctrl-C ends an
# answer, and the session where there is none. The shell that script starts is often dash, which Ctrl-C
# would end before it says the exit code.
session() { # KEYS COMMAND: without the answers; a - waits
    for key in - $1; do
        [ "$key" = - ] && sleep 1.5 || printf "$key"
    done | script -qec "trap : INT; stty -echo; $2; echo exit \$?" /dev/null | tr -d '\r\004\b' |
        sed 's/\^[CD]//g; s/^\(> \)*//; s/^[^a-z]*\(multihead gen\)/\1/' | grep -e '^multihead' -e '^exit'
}
chat="multihead generate -m tiny $scalar --chat --template mistral"
session 'A\n \377\n B\n \004' "$chat -n 1"
session 'A\n B\n \004' "$chat -n 4"
session "A\\n ${long}0\\n B\\n \\004" "$chat -n 1"
session "A\\n ${long}000\\n \\004" "multihead generate -m tiny $scalar"
printf '\004' | script -qec "stty -echo; sleep 1; $chat" /dev/null | tr -d '\r\004\b' | tail -c 1 | od -An -c
mkdir endless
sed 's/"max_position_embeddings": 40/"max_position_embeddings": 1000000/; s/"eos_token_id": 2/"eos_token_id": 98/' \
    "$goldens/llama/config.json" >endless/config.json
cp "$goldens/llama/model.safetensors" tiny/vocab.json tiny/merges.txt endless
session 'A\n - \003 - B\n - \003 - \004' "multihead generate -m endless $scalar -n 1000000 --chat --template mistral"
session 'A\n - \003 - \003' "multihead generate -m endless $scalar -n 1000000"

# The context's end is told
run multihead generate -m tiny $scalar "$long"
run multihead generate -m tiny $scalar "${long}00"
run multihead generate -m tiny $scalar "$long" A "${long}00"
run multihead generate -m tiny $scalar -n 2 "$long"

# Attention
run multihead generate -m tiny $scalar -n 3 --show-attention --head 1 "The"
run multihead generate -m tiny $scalar -n 3 --attention page.html --trace-out t.safetensors "The"
grep -c '<!doctype html>' page.html
grep -o '"title":"[^"]*","model":"[^"]*"' page.html
multihead view --trace t.safetensors | head -n 2
multihead generate -m tiny $scalar -n 8 --disable-head 0 --disable-head 1:3 "The cat" |
    cmp -s - tiny.txt || echo "heads that are off change the text"

# A prompt of 100,000 tokens
awk 'BEGIN { for (i = 0; i < 50000; i++) printf "ab"; print "" }' >long
run multihead generate -m tiny $scalar --input long
run multihead generate -m tiny $scalar --chat --template chatml --beam 2 --input long

# What is refused
multihead generate -n 1 "The" 2>&1 >/dev/null # the model that ships
multihead generate -q -n 1 "The" 2>&1 >/dev/null
run multihead generate -m tiny -n 0 "The"
run multihead generate -m tiny --temperature -1 "The"
run multihead generate -m tiny --temperature nan "The"
run multihead generate -m tiny --temperature 1 --top-p 0 "The"
run multihead generate -m tiny --temperature 1 --top-p 1.5 "The"
run multihead generate -m tiny --temperature 1 --min-p 2 "The"
run multihead generate -m tiny $scalar -n 4 --temp 1.5 --top-k 0 --seed 7 "The cat"
run multihead generate -m tiny $scalar -n 4 --top-k 0 "The cat"
run multihead generate -m tiny $scalar --max-length 5 "The"
run multihead generate -m tiny --do-sample "The"
run multihead generate -m tiny -p "The"
run multihead generate -m tiny --attention none/page.html "The"
run multihead generate -m tiny --trace-out /dev "The"
run multihead generate -m tiny --top-k 5 "The"
run multihead generate -m tiny --repetition-penalty 0 "The"
run multihead generate -m tiny --beam 2 --temperature 1 "The"
run multihead generate -m tiny --stop "" "The"
run multihead generate -m tiny --top-logprobs 2 "The"
run multihead generate -m tiny --json --echo "The"
run multihead generate -m tiny --layer 0 "The"
run multihead generate -m tiny --show-attention --layer 9 "The"
run multihead generate -m tiny --attention page.html "The" "cat"
run multihead generate -m tiny --disable-head 7:0 "The"
run multihead generate -m "$goldens/gpt2" "The" 2>&1 | sed "s|$goldens|GOLDENS|"
cp -r "$goldens/bert-mlm" encoder
cp tiny/vocab.json tiny/merges.txt encoder
run multihead generate -m encoder "The"
multihead generate -m tiny "$(printf 'a\377b')"
run multihead generate -m "$goldens/../../../models/fr-en" "The" 2>&1 | sed "s|$goldens|GOLDENS|"
run multihead generate -m . "The"
printf 'tjgg\003\000\000\000%0100d' 0 >old.gguf
run multihead generate -m old.gguf "The"
awk 'BEGIN { for (i = 0; i < 300; i++) printf "{%% if true %%}"; for (; i > 0; i--) printf "{%% endif %%}" }' \
    >rules/chat_template.jinja
run multihead generate -m rules --chat "Hi"
echo '{{ raise_exception("no way") }}' >rules/chat_template.jinja
run multihead generate -m rules --chat "Hi"
: >rules/chat_template.jinja
run multihead generate -m rules $scalar -n 2 --chat "Hi"
echo 'Hello' >rules/chat_template.jinja
run multihead generate -m rules $scalar -n 2 --chat "Hi"
multihead generate -m tiny -n 30 "The" >/dev/full
echo "exit $?"
