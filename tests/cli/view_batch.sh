# SPDX-License-Identifier: MIT
# `multihead view` of several sequences: (batch, heads, T, S) as `multihead mha --per-head` writes it,
# (layers, batch, heads, T, S) as torch.stack(outputs.attentions) has it; tokens on the command line.
make_npy two.npy f32 2x1x2x2 1 0 0.5 0.5 0.25 0.75 0 1
make_npy stack.npy f32 3x2x1x2x2 1 0 0 1 0.5 0.5 0.25 0.75
make_npy one.npy f32 3x1x2x2x2 1 0 0.5 0.5
make_npy none.npy f32 3x0x1x2x2 1
make_npy query.npy f32 1x2 0.5
make_npy odd.npy f32 2x1x1x2 0.5 0.5 0.2 0.2
make_npy t.safetensors encoder.self f32 1x1x1x2x2 0.5

# a batch
run multihead view --weights two.npy --tokens "The cat"
run multihead view --weights two.npy --sequence 1
run multihead view --weights two.npy --axes batch,heads --sequence 2
run multihead view --weights two.npy --layer 1
run multihead view --weights two.npy --axes layers,heads
run multihead view --weights two.npy --axes layers,heads --sequence 1
run multihead view --weights two.npy --axes heads
run multihead view --weights odd.npy -o /dev/null

# The page says so, and a trace keeps it.
multihead view --weights two.npy --tokens "The cat" -o page.html --trace-out trace.safetensors
grep -o '"shape":[^]]*.,[^}]*"sequences":true' page.html
multihead view --trace trace.safetensors -o - | cmp - page.html
run multihead view --trace trace.safetensors --sequence 1
run multihead view --trace trace.safetensors --axes layers,heads
multihead view --weights two.npy --axes layers,heads -o - | grep -c '"sequences":'

multihead mha --embed-dim 4 --heads 2 --random 3x2 --per-head --weights - |
    multihead view --weights - --tokens "a b" --head 0 | head -n 1

# layers of a batch
run multihead view --weights stack.npy
run multihead view --weights stack.npy --sequence 1 --tokens "[CLS] cat"
run multihead view --weights stack.npy --sequence 0 --layer 1
run multihead view --weights stack.npy --sequence 2
run multihead view --weights stack.npy --sequence 1 --axes layers,heads
run multihead view --weights one.npy --head 1 --layer 0
run multihead view --weights none.npy
multihead view --weights stack.npy --sequence 1 --trace-out stack.safetensors
run multihead view --trace stack.safetensors --sequence 1
run multihead view --trace stack.safetensors --layer 0
run multihead view --trace t.safetensors

# tokens: a file if there is one, else the words
run multihead view --weights two.npy --tokens "  The  cat sat "
run multihead view --weights two.npy --tokens tokens.txt
printf 'The\n' >tokens.txt
run multihead view --weights two.npy --tokens tokens.txt
run multihead view --weights query.npy --tokens "a b" --key-tokens "c d"
run multihead view --weights query.npy --tokens Where --key-tokens "$(printf 'a\nb')"

run multihead view page.html
run multihead view missing.html
