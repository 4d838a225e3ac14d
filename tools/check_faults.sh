#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_faults.sh BUILD
# Runs `multihead attend`, `mha`, `view` (attention and the curve of a run), `translate`, `score`, `train`
# and `serve` again and again; in run N the Nth allocation (thread start, file call) fails, once alone and
# once with all that follow; of the thousands of allocations of a model only some. Every run must end
# with an exit code and a message, not by a signal; every output file is afterwards either the old one
# or the complete new one; and no temporary file is left.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: check_faults.sh BUILD}
build=$(cd "$build" && pwd)
multihead=$build/multihead
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc -shared -fPIC -D_GNU_SOURCE -O1 -o "$tmp/fail.so" tests/faults/fail_calls.c -ldl

# ---- inputs: 2 heads, 33 queries and keys, width 8 --------------------------------------
count=$((2 * 33 * 8))
floats() # COUNT float32 numbers, 1, -0.5, 0.25 in turn
{
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print i % 3 }' |
        while read -r i; do
            case $i in
            0) printf '\000\000\200\077' ;;
            1) printf '\000\000\000\277' ;;
            2) printf '\000\000\200\076' ;;
            esac
        done
}
floats $count >"$tmp/data"
header="{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 33, 8), }"
{ printf '\223NUMPY\001\000\166\000%-117s\n' "$header"; cat "$tmp/data"; } >"$tmp/k.npy"
json='{"q":{"dtype":"F32","shape":[1,2,33,8],"data_offsets":[0,'$((4 * count))']}}'
{
    printf "\\$(printf %03o ${#json})\\0\\0\\0\\0\\0\\0\\0%s" "$json"
    cat "$tmp/data"
} >"$tmp/q.safetensors"

attend() # FOLDER
{
    "$multihead" attend --q "$tmp/q.safetensors:q" --k "$tmp/k.npy" --v "$tmp/k.npy" --threads 3 \
        --causal top-left --out "$1/o.npy" --weights "$1/w.npy" --lse "$1/l.npy"
}
piped() # FOLDER; an array that is not mapped
{
    "$multihead" attend --q "$tmp/q.safetensors:q" --k - --v "$tmp/k.npy" --threads 3 \
        --out "$1/o.npy" <"$tmp/k.npy"
}
view() # FOLDER; the tokens are the words of a sentence with a character beyond ASCII
{
    "$multihead" view --weights "$tmp/weights/w.npy" --tokens "$tmp/tokens" --threads 3 -q \
        -o "$1/page.html" --trace-out "$1/trace.safetensors"
}
curve() # FOLDER
{
    "$multihead" view "$tmp/run" --threads 3 -o "$1/curve.svg" >/dev/null
}
mha() # FOLDER; every step of the trace has memory of its own
{
    "$multihead" mha --embed-dim 8 --heads 2 --kdim 4 --random 3x5 --causal top-left --threads 3 \
        --trace --values --out "$1/o.npy" --weights "$1/w.npy" >/dev/null
}
translate() # FOLDER
{
    "$multihead" translate -m "$tmp/model" --threads 2 --show-attention --attention "$1/page.html" \
        --trace-out "$1/trace.safetensors" "le chat" >/dev/null
}
mkdir "$tmp/weights" "$tmp/model" "$tmp/run"
"$build/tests/cli/make_model" "$tmp/model" 5
awk 'BEGIN { for (u = 1; u < 4; u++) {
    printf "{\"update\": %d, \"epoch\": %d, \"loss\": %d}\n", u, u, 9 - u
    printf "{\"update\": %d, \"epoch\": %d, \"valid_loss\": 5, \"bleu\": %d}\n", u, u, u
} }' >"$tmp/run/log.jsonl"
attend "$tmp/weights"
awk 'BEGIN { for (i = 0; i < 33; i++) printf "\303\251t\303\251%d ", i; print "" }' >"$tmp/tokens"

# ---- one run after the other --------------------------------------------------------------
complain()
{
    echo "faults: $subject: $kind call $n fails${always:+ (and all that follow)}: $*" >&2
    sed 's/^/    /' "$tmp/messages" >&2
    exit 1
}
check_run() # of kind $kind, call $n; $codes are the exit codes that are right
{
    for file in $expected; do echo old >"$tmp/out/$file"; done
    rm -f "$tmp/failed"
    code=0
    (
        export LD_PRELOAD="$tmp/fail.so" MH_FAIL_KIND="$kind" MH_FAIL_AT="$n" \
            MH_FAIL_LOG="$tmp/failed" ${always:+MH_FAIL_ALWAYS=1}
        "$subject" "$tmp/out" >"$tmp/messages" 2>&1
    ) || code=$?
    case " $codes " in
    *" $code "*) ;;
    *) complain "exit code $code, expected one of: $codes" ;;
    esac
    [ $code -eq 0 ] || [ -s "$tmp/messages" ] || complain "exit code $code without a message"
    [ "$(cd "$tmp/out" && echo * .[!.]*)" = "$expected .[!.]*" ] || complain "files: $(ls -A "$tmp/out")"
    for file in $expected; do
        cmp -s "$tmp/out/$file" "$tmp/good/$file" || {
            [ $code -ne 0 ] || complain "exit code 0, but $file is not the result"
            [ "$(cat "$tmp/out/$file")" = old ] || complain "$file is torn"
        }
    done
}

check_kind() # calls of kind $kind, one in $step
{
    case $kind in
    memory) codes='0 1 4' ;;
    thread) codes='0 1' ;;
    file) codes='0 1 3' ;;
    esac
    for always in '' 1; do
        n=1
        while check_run; [ -e "$tmp/failed" ]; do n=$((n + step)) total=$((total + 1)); done
        [ $n -gt 1 ] || complain "no such call was seen"
    done
}

total=0
for subject in attend piped mha view curve translate; do
    rm -rf "$tmp/out" "$tmp/good"
    mkdir "$tmp/out" "$tmp/good"
    "$subject" "$tmp/good"
    expected=$(cd "$tmp/good" && echo *)
    for kind in memory thread file; do
        step=1
        [ $subject$kind != translatememory ] || step=11
        check_kind
    done
done

# ---- score: no files to tear, but memory -----------------------------------------------------
printf 'The cat sat on the mat.\nIt is 3.5 degrees, is it not?\n' >"$tmp/text"
kind=memory
for always in '' 1; do
    n=0
    while n=$((n + 1)); do
        rm -f "$tmp/failed"
        code=0
        (
            export LD_PRELOAD="$tmp/fail.so" MH_FAIL_KIND="$kind" MH_FAIL_AT="$n" \
                MH_FAIL_LOG="$tmp/failed" ${always:+MH_FAIL_ALWAYS=1}
            "$multihead" score --metric all --ref "$tmp/text" "$tmp/text" >/dev/null 2>"$tmp/messages"
        ) || code=$?
        [ -e "$tmp/failed" ] || break
        case $code in
        0) ;;
        4) [ -s "$tmp/messages" ] || complain "score: exit code $code without a message" ;;
        *) complain "score: exit code $code, expected 0 or 4" ;;
        esac
    done
    total=$((total + n - 1))
done

# ---- train: whatever fails, the same command then goes on to the same model -------------------
awk 'BEGIN { for (i = 0; i < 40; i++) printf "w%d x%d\tx%d w%d\n", i, i % 7, i % 7, i }' >"$tmp/pairs"
train() # FOLDER
{
    "$multihead" train -q --data "$tmp/pairs" --preset tiny --d-model 16 --heads 2 --ff 16 --merges 9 \
        --batch-tokens 300 --save-freq 2u --average 2 --after 5u --threads 2 -o "$1" >/dev/null
}
train "$tmp/trained"
check_training() # of kind $kind, call $n
{
    rm -rf "$tmp/failed" "$tmp/training"
    code=0
    (
        export LD_PRELOAD="$tmp/fail.so" MH_FAIL_KIND="$kind" MH_FAIL_AT="$n" MH_FAIL_LOG="$tmp/failed"
        train "$tmp/training" 2>"$tmp/messages"
    ) || code=$?
    case $code in
    0) ;;
    1 | 3 | 4) [ -s "$tmp/messages" ] || complain "exit code $code without a message" ;;
    *) complain "exit code $code, expected 0, 1, 3 or 4" ;;
    esac
    train "$tmp/training" 2>"$tmp/messages" || complain "the run does not go on"
    for file in model.safetensors checkpoint.safetensors; do
        cmp -s "$tmp/training/$file" "$tmp/trained/$file" || complain "$file is another one"
    done
}
subject=train always=
for kind in file thread memory; do
    n=0
    while n=$((n + 1 + n / 16)); check_training; [ -e "$tmp/failed" ]; do total=$((total + 1)); done
done

# ---- serve: it starts and then answers whatever happens, or says why not ---------------------------
subject=serve
serve_once() # the server's exit code; a client's answers are in $tmp/codes
{
    : >"$tmp/address"
    (
        export LD_PRELOAD="$tmp/fail.so" MH_FAIL_KIND="$kind" MH_FAIL_AT="$n" \
            MH_FAIL_LOG="$tmp/failed" ${always:+MH_FAIL_ALWAYS=1}
        exec "$multihead" serve -m "$tmp/model" --port 0 --threads 2
    ) >"$tmp/address" 2>"$tmp/messages" &
    server=$!
    while [ ! -s "$tmp/address" ] && kill -0 $server 2>/dev/null; do sleep 0.02; done
    : >"$tmp/codes"
    if [ -s "$tmp/address" ]; then
        "$build/tests/cli/serve_client" "$(cat "$tmp/address")" once >"$tmp/codes" ||
            complain "it does not answer"
        kill $server
    fi
    wait $server
}
for kind in memory thread file; do
    step=1
    [ $kind != memory ] || step=11
    for always in '' 1; do
        n=1
        while :; do
            rm -f "$tmp/failed"
            code=0
            serve_once || code=$?
            [ -e "$tmp/failed" ] || break
            case $code in
            0) [ -s "$tmp/codes" ] || complain "it ended before it was told to" ;;
            1 | 3 | 4) [ -s "$tmp/messages" ] || complain "exit code $code without a message" ;;
            *) complain "exit code $code, expected 0, 1, 3 or 4" ;;
            esac
            n=$((n + step)) total=$((total + 1))
        done
        [ "$(cat "$tmp/codes")" = "200 200" ] || complain "without a fault: $(cat "$tmp/codes")"
    done
done
echo "faults: $total failed calls, all reported"
