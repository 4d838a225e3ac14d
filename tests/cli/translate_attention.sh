# SPDX-License-Identifier: MIT
# `multihead translate` with what attention did: heatmaps, a page, a trace.
mkdir model
make_model model 5
scalar="--isa scalar --threads 1"
run multihead translate -m model $scalar --show-attention --max-length-factor 0 --head 1 "le chat"
run multihead translate -m model $scalar --show-attention --kind encoder --layer 0 "le tapis" "the mat"
run multihead translate -m model $scalar --show-attention --kind decoder --head 0 \
    --disable-head dec.1.0 "x"
run multihead translate -m model/ $scalar --attention page.html --trace-out t.safetensors "le chat"
grep -c '<!doctype html>' page.html
grep -o '"title":"[^"]*","model":"[^"]*"' page.html
run multihead view --trace t.safetensors --kind cross --layer 1 --head 1
run multihead view --trace t.safetensors -o again.html
cmp page.html again.html && echo "the trace makes the same page"

# Heatmaps are the same for any number of threads, and go where translations go.
multihead translate -m model $scalar --show-attention "le chat" "beau" >expected.txt
multihead translate -m model --isa scalar --threads 3 --show-attention "le chat" "beau" |
    cmp - expected.txt && echo "three threads"
printf 'le chat\nbeau\n' | multihead translate -m model $scalar --show-attention -o out.txt &&
    cmp out.txt expected.txt && echo "to a file"

multihead translate -m model/ $scalar --attention - -o out.txt "le chat" | cmp - page.html
multihead translate -m model/ $scalar --trace-out - -o out.txt "le chat" | cmp - t.safetensors
run multihead translate -m model --attention - x
run multihead translate -m model --attention p.html --trace-out ./p.html x

run multihead translate -m model --show-attention --json x
run multihead translate -m model --attention p.html x y
run multihead translate -m model --attention p.png x
run multihead translate -m model --trace-out t.safetensors </dev/null
run multihead translate -m model --show-attention --layer 2 x
run multihead translate -m model --show-attention --head 4 x
run multihead translate -m model --show-attention --kind attention x
run multihead translate -m model $scalar --beam 1 --attention nowhere/p.html "le chat"
long="qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"
multihead translate -m model --show-attention $long 2>&1 >/dev/null
run multihead translate -m model --layer 1 le chat
run multihead translate -m model $scalar --show-attention --max-length-factor 0 --width 20 "chat"
run multihead translate -m model --width 40 chat

# names of heads as 'look' has them
translate="multihead translate -m model --dtype f32 --isa scalar --scores"
$translate --disable-head cross.1.2 "le chat" >dots.txt
for name in cross.1:2 1:2 1.2; do
    $translate --disable-head $name "le chat" | cmp - dots.txt && echo "$name is cross.1.2"
done
