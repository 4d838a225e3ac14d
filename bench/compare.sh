#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs bench/compare.py in a virtual environment of its own, bench/venv: makes it, and installs
# what is missing in it from PyPI, the first time. All arguments go to compare.py; if the first is
# `training`, `translating`, `lm`, `ranks`, `models`, `vision`, `speech`, `generation`, `marian` or
# `python`, the others go to compare_training.py, ...; `marian` is compare_translating.py with a
# published model. The peers of all but the first four have environments of their own,
# bench/venv-models (vision, too), -speech, -generation and -python, as they bring many packages; the
# last one has this package, too.
set -eu

here=$(dirname "$0")
venv=$here/venv
script=compare.py
packages="threadpoolctl onnx onnxruntime ctranslate2 tokenizers safetensors"
case ${1-} in
training | translating | lm | ranks)
    script=compare_$1.py
    shift
    ;;
models | vision)
    script=compare_$1.py
    venv=$here/venv-models
    packages="onnx onnxscript onnxruntime openvino sentence-transformers"
    shift
    ;;
speech)
    script=compare_$1.py
    venv=$here/venv-speech
    packages="transformers tiktoken ctranslate2 faster-whisper pywhispercpp"
    shift
    ;;
generation | marian)
    script=compare_generation.py
    [ "$1" = generation ] || script=compare_translating.py
    venv=$here/venv-generation
    packages="transformers accelerate gguf ctranslate2 xllamacpp sentencepiece"
    shift
    ;;
python)
    script=compare_python.py
    venv=$here/venv-python
    packages="transformers scikit-build-core ninja"
    shift
    ;;
esac

if [ ! -x "$venv/bin/pip" ]; then
    echo "compare: making $venv" >&2
    python3 -m venv "$venv" >&2 || {
        rm -rf "$venv"
        echo "compare: python3 could not make a virtual environment (Debian: install" \
            "python3-venv)" >&2
        exit 1
    }
fi

# Looked for without the network and without importing them.
"$venv/bin/python" - numpy $packages <<'PYTHON' || {
import sys
from importlib.metadata import PackageNotFoundError, version

try:
    for name in sys.argv[1:]:
        version(name)
    found = version("torch").split("+")[0] == "2.13.0"
except PackageNotFoundError:
    found = False
sys.exit(not found)
PYTHON
    echo "compare: installing PyTorch, $packages into $venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 >&2
    # shellcheck disable=SC2086 # a list of words
    "$venv/bin/pip" install --quiet --disable-pip-version-check numpy $packages >&2
}

if [ "$script" = compare_python.py ]; then
    root=$(cd "$here/.." && pwd)
    PATH=$(cd "$venv/bin" && pwd):$PATH "$venv/bin/pip" install --quiet --no-deps --force-reinstall \
        --disable-pip-version-check --no-build-isolation \
        --config-settings "build-dir=$root/build-python/cmake" "$root" >&2
fi

# PyTorch allocates its results. Its makers advise an allocator that keeps memory instead of
# giving it back to the system after each call; this makes glibc's one do so.
export MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_-33554432}"
export MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_-1073741824}"
# OpenBLAS's threads spin for 2^26 cycles after a call, well into the next contender's turn.
export OPENBLAS_THREAD_TIMEOUT="${OPENBLAS_THREAD_TIMEOUT-20}"

exec "$venv/bin/python" "$here/$script" "$@"
