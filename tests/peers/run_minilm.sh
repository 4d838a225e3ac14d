#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/peers/run_minilm.sh BUILD
# Compares embeddings of all-MiniLM-L6-v2 with sentence-transformers, in a virtual environment of its own,
# BUILD/peers-minilm: makes it, and installs the package from PyPI, the first time. torch comes first, and by itself,
# so that the one without CUDA is taken. With $MH_TEST_DATA on real sentences, else on made-up ones.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: tests/peers/run_minilm.sh BUILD}" && pwd)
venv=$build/peers-minilm
packages='torch==2.13.0 sentence-transformers==6.2.0'

if [ "$(cat "$venv/packages" 2>/dev/null)" != "$packages" ]; then
    echo "peers: installing $packages into $venv" >&2
    python3 -m venv "$venv" || {
        echo "peers: python3 could not make a virtual environment (Debian: install python3-venv)" >&2
        exit 1
    }
    for package in $packages; do
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
    done
    echo "$packages" >"$venv/packages"
fi
model=$(python3 "$here/../../tools/fetch_models.py" minilm)
corpus=${MH_TEST_DATA:+$MH_TEST_DATA/tatoeba-fra-eng/dev.tsv}
[ -f "$corpus" ] || corpus=
TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 "$venv/bin/python" "$here/check_minilm.py" "$build/multihead" "$model" \
    ${corpus:+"$corpus"}
