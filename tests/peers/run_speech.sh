#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/peers/run_speech.sh BUILD [OPTION...]
# Compares transcription by Whisper tiny.en with OpenAI's own package, in a virtual environment of its own,
# BUILD/peers-speech: makes it, and installs the packages from PyPI, the first time. openai-whisper comes without the
# packages that it names, of which the one for GPUs is not needed. OPTIONs are those of check_speech.py.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: tests/peers/run_speech.sh BUILD [OPTION...]}" && pwd)
shift
venv=$build/peers-speech
packages='torch==2.13.0 tiktoken==0.14.0 numba==0.68.1 more-itertools==11.2.1 tqdm==4.70.1 numpy==2.4.6 soxr==1.1.0 openai-whisper==20250625'

if [ "$(cat "$venv/packages" 2>/dev/null)" != "$packages" ]; then
    echo "peers: installing $packages into $venv" >&2
    python3 -m venv "$venv" || {
        echo "peers: python3 could not make a virtual environment (Debian: install python3-venv)" >&2
        exit 1
    }
    # torch comes by itself, so that the one without CUDA is taken.
    for package in $packages; do
        nodeps=
        case $package in openai-whisper*) nodeps=--no-deps ;; esac
        "$venv/bin/pip" install --quiet --disable-pip-version-check $nodeps "$package" >&2
    done
    echo "$packages" >"$venv/packages"
fi
model=$(python3 "$here/../../tools/fetch_models.py" whisper-tiny.en)
# The vocabulary is part of the package.
[ -f "$model/gpt2.tiktoken" ] ||
    cp "$("$venv/bin/python" -c 'import pathlib, whisper; print(pathlib.Path(whisper.__file__).parent)')/assets/gpt2.tiktoken" "$model"
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} "$venv/bin/python" "$here/check_speech.py" "$build/multihead" \
    "$build/tests/peer_speech" "$model" "$@"
