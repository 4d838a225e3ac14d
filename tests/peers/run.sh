#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/peers/run.sh BUILD
# Compares our text layer, pictures, files of parameters, trained models and the model that ships with the packages that
# others use, in a virtual environment of its own, BUILD/peers: makes it, and installs them from PyPI,
# the first time. With $MH_TEST_DATA on real sentences, else on made-up ones. $MH_PEER_STRINGS random
# strings go through every tokenizer: 2000, with `make prove-tokenizers` 100000.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: tests/peers/run.sh BUILD}" && pwd)
venv=$build/peers
packages='tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0 sacrebleu==2.6.0 torch==2.13.0 safetensors==0.8.0 numpy jinja2==3.1.6 pillow==13.0.0 transformers==5.23.0'

if [ "$(cat "$venv/packages" 2>/dev/null)" != "$packages" ]; then
    echo "peers: installing $packages into $venv" >&2
    python3 -m venv "$venv" || {
        echo "peers: python3 could not make a virtual environment (Debian: install python3-venv)" >&2
        exit 1
    }
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $packages >&2
    echo "$packages" >"$venv/packages"
fi
corpus=${MH_TEST_DATA:+$MH_TEST_DATA/tatoeba-fra-eng/dev.tsv}
[ -f "$corpus" ] || corpus=
"$venv/bin/python" "$here/check_tokenizer.py" "$build/tests/peer_text" ${corpus:+"$corpus"}
ranks=${MH_TEST_DATA:+$MH_TEST_DATA/whisper/gpt2.tiktoken}
[ -n "$corpus" ] && [ -f "$ranks" ] || ranks=
TOKENIZERS_PARALLELISM=false "$venv/bin/python" "$here/check_tokenizers.py" "$build/tests/peer_tokenizers" \
    ${corpus:+"$corpus" "${MH_PEER_STRINGS:-2000}"}
"$venv/bin/python" "$here/check_vocabularies.py" "$build/tests/peer_tokenizers" ${corpus:+"$corpus"} ${ranks:+"$ranks"}
"$venv/bin/python" "$here/check_chat_templates.py" "$build/tests/peer_chat" "$venv/templates"
"$venv/bin/python" "$here/check_scores.py" "$build/multihead" ${corpus:+"$corpus"}
"$venv/bin/python" "$here/check_parameters.py" "$build/tests/peer_parameters"
"$venv/bin/python" "$here/check_translator.py" "$build/multihead" "$here/../../models/fr-en" ${corpus:+"$corpus"}
"$venv/bin/python" "$here/check_pictures.py" "$build/tests/peer_pictures"
"$venv/bin/python" "$here/check_vit.py" "$build/multihead" "$here/../../models/fashion-vit" "$here"/../../examples/pictures/*.pgm
"$venv/bin/python" "$here/check_trained.py" "$build/multihead" "$here/../../models/en-lm"
