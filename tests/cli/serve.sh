# SPDX-License-Identifier: MIT
# `multihead serve`: what it refuses to start with, and serve_client's requests, friendly and not.
mkdir model
make_model model 5
run multihead serve -m nowhere/model --port 0
run multihead serve -m model --port 65536
run multihead serve -m model --host 192.0.2.1

# What it prints first is its address. Its port is another one each time.
mkdir bin
printf '#!/bin/sh\necho "$1" >opened\n' >bin/xdg-open
chmod +x bin/xdg-open
PATH=$PWD/bin:$PATH multihead serve -m model --port 0 --threads 2 --open >address 2>errors &
server=$!
for i in $(seq 600); do
    [ -s address ] && break
    sleep 0.1
done
address=$(cat address)
port=${address##*:}
port=${port%/}
echo "$address" | sed "s/$port/PORT/"
multihead serve -m model --port "$port" 2>&1 | sed "s/$port/PORT/"
serve_client "$address" slow >slow.txt &
slow=$!
serve_client "$address"
wait $slow
cmp address opened && echo "the page was opened"
cat slow.txt
kill $server
wait $server
echo "exit $?"
cat errors

# A text in another language than the model's: the page says so.
cp -r model made-fr-en
multihead serve -m made-fr-en --port 0 --isa scalar >address-noted &
server=$!
for i in $(seq 600); do
    grep -q http address-noted 2>/dev/null && break
    sleep 0.1
done
serve_client "$(cat address-noted)" post /translate '{"text": "The cat sleeps."}' | grep -o '"note".*"'
serve_client "$(cat address-noted)" post /translate '{"text": "le chat"}' | grep -c note
kill $server
wait $server
