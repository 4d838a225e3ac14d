# SPDX-License-Identifier: MIT
# `multihead view`: heatmaps as text, the page and traces as files, the curve of a run, and what it
# says when inputs do not fit. What the page does is tested in a browser (tests/web/).
make_npy w.npy f32 2x3x3 1 0 0 0.5 0.5 0 0.25 0.25 0.5 0.9 0.05 0.05 0 1 0 0 0 1
make_npy wide.npy f32 1x2x2x4 0.7 0.1 0.1 0.1 0.25
make_npy long.npy f32 100x100 0.01
make_npy nan.npy f32 1x1x2 0.5 nan
make_npy odd.npy f32 1x2x2 0.5 0.5 0.2 0.2
make_npy int.npy i32 1x2x2 1
make_npy many.npy f32 1x1x1x1x2x2 0.5
make_npy t.safetensors a f32 1x1x2 0.5 + b f32 1x1x1x2 0.5
printf 'the\ncat\nsat\n' >tokens.txt
printf 'le chat noir dort\n' >keys.txt
printf 'un\0deux' >zero.txt

run multihead view --weights w.npy --tokens tokens.txt
run multihead view --weights w.npy --tokens tokens.txt --head 1 --width 20
run multihead view --weights wide.npy --key-tokens keys.txt
run multihead view --weights long.npy --width 30 --layer 0
multihead view --weights w.npy --head 0 --color always | od -An -c | head -n 12
NO_COLOR=1 COLORTERM=truecolor multihead view --weights w.npy --head 0 | head -n 4

run multihead view --weights w.npy --tokens tokens.txt -o page.html --trace-out trace.safetensors
grep -c "$(printf '<script')" page.html
run multihead view --trace trace.safetensors --text --kind attention --head 0
run multihead view --weights t.safetensors:b

multihead view --weights w.npy --tokens tokens.txt --trace-out - | cmp - trace.safetensors
multihead view --trace - -o - <trace.safetensors | cmp - page.html
multihead view --weights - --tokens tokens.txt -o - <w.npy | cmp - page.html

remember page.html
run multihead view --weights w.npy -o - --text
run multihead view --weights w.npy -o page.html --trace-out ./page.html
multihead view --weights w.npy --tokens - --key-tokens - <tokens.txt 2>&1
run multihead view
run multihead view --weights w.npy --trace trace.safetensors
run multihead view --trace trace.safetensors --tokens tokens.txt
run multihead view --weights none.npy -o page.html
run multihead view --weights t.safetensors
run multihead view --weights w.npy --tokens keys.txt -o page.html
run multihead view --weights wide.npy --tokens keys.txt
run multihead view --weights wide.npy --tokens zero.txt --key-tokens keys.txt
run multihead view --weights w.npy --tokens none.txt
run multihead view --weights nan.npy -o page.html
run multihead view --weights odd.npy -o /dev/null
run multihead view --weights int.npy
run multihead view --weights many.npy
run multihead view --trace w.npy
run multihead view --weights w.npy --layer 1
run multihead view --weights w.npy --head 2 -o page.html
run multihead view --weights w.npy --kind cross
run multihead view --weights w.npy --kind any
run multihead view --weights w.npy -o page.svg
run multihead view --weights w.npy -o trace.safetensors
run multihead view --weights w.npy --bits 12
run multihead view --weights w.npy --width 5
run multihead view --weights w.npy --bits 8
run multihead view --weights w.npy --title t
run multihead view --weights w.npy --width 40 -o page.html
run multihead view --weights w.npy --color never --trace-out t.safetensors
run multihead view --weights w.npy -o none/page.html
untouched page.html

# a run: two epochs of 300 updates, and a line that is not complete yet
mkdir run empty
awk 'BEGIN {
    for (u = 20; u <= 600; u += 20) {
        printf "{\"update\": %d, \"epoch\": %.4f, \"loss\": %.3f}\n", u, u / 300, 1 + 1600 / (u + 180)
        if (u % 300 == 0)
            printf "{\"update\": %d, \"epoch\": %d, \"valid_loss\": %.2f, \"bleu\": %.1f}\n", u, u / 300,
                4.5 - u / 300, u / 50
    }
    printf "{\"update\": 620, "
}' >run/log.jsonl
run multihead view run --width 60
grep -o '>best BLEU.*<' run/loss.svg
run multihead view run/ -o curve.svg --width 20
cmp run/loss.svg curve.svg
multihead view run -o - | cmp - curve.svg
remember curve.svg
echo '{"update": 5, "epoch": 3, "loss": 1}' >empty/log.jsonl
sed 2q run/log.jsonl >>empty/log.jsonl
run multihead view empty -o curve.svg
: >empty/log.jsonl
run multihead view empty -o curve.svg
run multihead view none -o curve.svg
run multihead view w.npy
run multihead view run -o none/curve.svg --width 20
run multihead view run empty
run multihead view run --weights w.npy
run multihead view run --layer 0
run multihead view run --color always
untouched curve.svg
