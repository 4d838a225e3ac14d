#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_models.sh BUILD
# Published models, which are downloaded once (tools/fetch_models.py): what is computed with them must be what their
# authors' packages compute. One that cannot be downloaded is skipped by name.
set -eu
build=${1:?usage: check_models.sh BUILD}
build=$(cd "$build" && pwd)
cd "$(dirname "$0")/.."
fail() { echo "check_models: $*" >&2; exit 1; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# fetch NAME: its directory is then $model. False if it cannot be had; fetch_models.py has said so.
fetch() {
    status=0
    model=$(python3 tools/fetch_models.py "$1") || status=$?
    [ $status = 0 ] || [ $status = 3 ] || fail "$1 is not the expected one"
    return $status
}

# run_test TEST VARIABLE: the test of a model, whose directory is in the variable
run_test() {
    env "$2=$model" "$build/tests/$1" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "$1 failed"; }
    ! grep ': skipped,' "$tmp/log" || fail "$1 tested nothing"
}

embed() { "$build/multihead" embed -q -m "$model" "$@" "A man is eating food." "Someone is having a meal."; }

check_minilm() {
    # the first values of the first sentence, to three decimals
    embed >"$tmp/lines"
    awk -v expected="0.033 0.004 -0.006 0.048 -0.139 -0.034 0.101 -0.054" '
        NR == 1 {
            n = split(expected, e, " ")
            for (i = 1; i <= n; i++)
                if ($(i + 1) - e[i] > 0.00056 || e[i] - $(i + 1) > 0.00056) bad = 1
        }
        END { exit bad || NR != 2 }' "$tmp/lines" || { cat "$tmp/lines"; fail "expected other values"; }
    embed --similarity --json >"$tmp/cosines"
    cosine=$(sed -n '1s/.*"similarity": \[[^,]*, \([0-9.]*\)\].*/\1/p' "$tmp/cosines")
    awk -v found="$cosine" 'BEGIN { exit !(found >= 0.6885 && found <= 0.6895) }' ||
        fail "cosine: found '$cosine', expected 0.689"
    run_test test_minilm MH_MINILM
    run_test test_batch_invariance MH_MINILM
    echo "check_models: all-MiniLM-L6-v2: cosine $cosine, embeddings of 21 texts within 1e-6, the same in any batch"
}

check_nano_gpt() {
    run_test test_nano_gpt MH_NANO_GPT
    echo "check_models: nano-gpt: $(sed -n 's/^lm_head/logits/p' "$tmp/log"), $(grep sorted "$tmp/log")"
}

check_ruaccent() {
    run_test test_ruaccent MH_RUACCENT
    echo "check_models: ruaccent-predictor, an nn.Transformer: the package's stresses"
}

generate() { "$build/multihead" generate -q -m "$model" "$@"; }

check_stories15m() {
    run_test test_stories15m MH_STORIES15M
    ids=$(generate -n 14 --json "" | sed 's/.*"ids": \[\([^]]*\)].*/\1/')
    [ "$ids" = "9038, 2501, 263, 931, 29892, 727, 471, 263, 2217, 7826, 4257, 365, 2354, 29889" ] ||
        fail "stories15M: generate found ids $ids"
    story=$(generate -n 14 "")
    [ "$story" = "Once upon a time, there was a little girl named Lily." ] ||
        fail "stories15M: generate found '$story'"
    printf 'The dog saw\nA cat\nOnce\n' >"$tmp/prompts"
    generate -n 40 --temperature 1 --seed 5 --threads 1 --batch 1 --input "$tmp/prompts" >"$tmp/alone"
    generate -n 40 --temperature 1 --seed 5 --threads 2 --input "$tmp/prompts" | diff "$tmp/alone" - ||
        fail "stories15M: samples depend on threads or batch"
    echo "check_models: stories15M, a Llama: $(sed -n 's/^story: //p' "$tmp/log")"
}

# The tokens and times of words are those of OpenAI's own program.
check_whisper() {
    "$build/multihead" transcribe -q -m "$model" "$model/beckett.wav" | tr '\n' ' ' >"$tmp/text"
    [ "$(cat "$tmp/text")" = "Ever tried, ever failed. No matter, try again. Fail again. Fail better. " ] ||
        fail "whisper tiny.en: found '$(cat "$tmp/text")'"
    "$build/multihead" transcribe -q -m "$model" --json --word-times --threads 1 "$model/beckett.wav" |
        sed 's/.*"segments"/"segments"/; s/"temperature"[^[]*"words"/"words"/g; s/, "probability": [0-9.e-]*//g' >"$tmp/words"
    diff tests/goldens/beckett.json "$tmp/words" || fail "whisper tiny.en: other tokens or times of words"
    python3 tests/models/check_recordings.py "$build/multihead" "$model" tests/goldens/recordings.json >"$tmp/recordings" ||
        fail "whisper tiny.en: other transcripts"
    echo "check_models: whisper tiny.en: $(cat "$tmp/text"); $(cat "$tmp/recordings")"
}

# Translations, greedy and with a beam of 4, and the scores of the latter, are those of transformers.
check_opus_mt() {
    run_test test_opus_mt MH_OPUS_MT
    logits=$(grep within "$tmp/log")
    golden=tests/goldens/opus_mt_cases.tsv
    cut -f1 "$golden" >"$tmp/source"
    "$build/multihead" translate -q -m "$model" --dtype f32 --beam 1 --input "$tmp/source" >"$tmp/greedy"
    cut -f2 "$golden" | diff - "$tmp/greedy" || fail "opus-mt-fr-en: greedy translations differ"
    "$build/multihead" translate -q -m "$model" --dtype f32 --scores --input "$tmp/source" >"$tmp/beam"
    cut -f3 "$golden" >"$tmp/expected"
    cut -f2 "$tmp/beam" | diff "$tmp/expected" - || fail "opus-mt-fr-en: translations differ"
    paste "$golden" "$tmp/beam" | awk -F'\t' '{ d = $4 - $5; if (d > 0.00011 || d < -0.00011) bad = 1 } END { exit bad }' ||
        fail "opus-mt-fr-en: scores differ"
    answer=$("$build/multihead" translate -q -m "$model" "Où est la gare ?")
    [ "$answer" = "Where's the station?" ] || fail "opus-mt-fr-en: found '$answer'"
    echo "check_models: opus-mt-fr-en: $answer $(wc -l <"$golden") translations and $logits of transformers'"
}

# most_anonymous OPTION...: the most anonymous memory of `generate` with them is then $most, in kB
most_anonymous() {
    "$build/multihead" generate -q -m "$model" -n 8 "$@" >/dev/null &
    most=0
    while now=$(awk '/^RssAnon:/ { print $2 }' /proc/$!/status 2>/dev/null) && [ -n "$now" ]; do
        [ "$now" -le "$most" ] || most=$now
        sleep 0.02
    done
    wait $! || fail "generate $* failed"
}

# In bf16: the weights and little else, and for a prompt its keys and values, f32 in 30 layers of 3 heads of 64. What
# loading takes for a moment is more than what a short prompt does, hence two prompts of which both take more.
check_smollm2_memory() {
    awk 'BEGIN { for (i = 0; i < 1000; i++) printf "%sa", i ? " " : ""; print "" }' >"$tmp/long" # a token each
    tr '\n' ' ' <"$tmp/long" | cat - "$tmp/long" >"$tmp/longer"
    most_anonymous --dtype bf16 "Gravity is"
    short=$most
    most_anonymous --dtype bf16 --input "$tmp/long"
    long=$most
    most_anonymous --dtype bf16 --input "$tmp/longer"
    added=$((most - long)) cache=$((1000 * 2 * 30 * 3 * 64 * 4 / 1024))
    [ $short -lt 400000 ] || fail "SmolLM2: found $short kB of anonymous memory, expected less than 400000"
    [ $long -gt $short ] || fail "SmolLM2: 1000 tokens take no more memory than two"
    [ $added -lt $((cache * 13 / 10)) ] ||
        fail "SmolLM2: 1000 tokens add $added kB, expected less than 1.3 times their cache of $cache"
    memory="$((short / 1000)) MB in bf16, and $((added / 1000)) for 1000 tokens more, whose cache is $((cache / 1000))"
}

check_smollm2() {
    run_test test_smollm2 MH_SMOLLM2
    answer=$(generate --chat "What is the capital of France?")
    [ "$answer" = "The capital of France is Paris." ] || fail "SmolLM2: generate --chat found '$answer'"
    echo "check_models: SmolLM2-135M-Instruct, GGUF: $(grep 'error of a logit' "$tmp/log"), the greedy answer of transformers: $answer"
    check_smollm2_memory
    echo "check_models: SmolLM2-135M-Instruct: anonymous memory of $memory"
}

if fetch minilm; then check_minilm; fi
if fetch nano-gpt; then check_nano_gpt; fi
if fetch ruaccent; then check_ruaccent; fi
if fetch whisper-tiny.en; then check_whisper; fi
if fetch stories15m; then check_stories15m; fi
if fetch opus-mt-fr-en; then check_opus_mt; fi
if fetch smollm2; then check_smollm2; fi
