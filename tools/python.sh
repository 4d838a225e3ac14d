#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: python.sh DIRECTORY JOBS [PACKAGE...]
# Builds the Python package's wheel, installs it into a virtual environment, and runs its tests,
# doctests and type checks there. All of it is in DIRECTORY: venv/, cmake/ (the build), dist/ (the
# wheel). The environment is made, and what the tests need is installed from PyPI, the first time;
# PACKAGEs, such as torch, too. Without PyTorch and transformers their tests are skipped.
# $PYTHON is the interpreter, python3 if not set. With FROM_SDIST=1 the wheel is built from a source
# distribution, in dist/, too, instead of from the source tree.
set -eu
cd "$(dirname "$0")/.."
directory=${1:?usage: python.sh DIRECTORY JOBS [PACKAGE...]}
jobs=$2
shift 2
venv=$directory/venv
packages="scikit-build-core ninja numpy ml_dtypes pytest mypy $*"

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "python: found $("$python" --version), expected Python 3.11 or later; PYTHON=... chooses one" >&2
    exit 1
fi
if [ ! -x "$venv/bin/pip" ]; then
    "$python" -m venv "$venv" || {
        rm -rf "$venv"
        echo "python: no virtual environment could be made (Debian: install python3-venv)" >&2
        exit 1
    }
fi
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
missing=
for package in $packages; do
    grep -qxF "$package" "$venv/packages" 2>/dev/null || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "python: installing$missing into $venv" >&2
    # shellcheck disable=SC2086
    pip install $missing
    # shellcheck disable=SC2086
    printf '%s\n' $missing >>"$venv/packages"
fi

# One wheel, as `pip install .` makes it; the build directory is kept, so that the next one is quick.
rm -rf "$directory/dist" "$directory/source"
PATH=$(cd "$venv/bin" && pwd):$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs
export PATH CMAKE_BUILD_PARALLEL_LEVEL
source=.
if [ -n "${FROM_SDIST-}" ]; then
    "$venv/bin/python" -c "import scikit_build_core.build as b; b.build_sdist('$directory/dist')" >"$directory/sdist.log"
    source=$directory/source
    mkdir -p "$source"
    tar -xf "$directory"/dist/*.tar.gz -C "$source" --strip-components=1
fi
echo "building in $directory"
pip wheel --no-deps --no-build-isolation --config-settings "build-dir=$(pwd)/$directory/cmake" \
    --wheel-dir "$directory/dist" "./$source"
pip install --no-deps --force-reinstall "$directory"/dist/*.whl

have() { "$venv/bin/python" -c "import importlib.util as i, sys; sys.exit(not i.find_spec('$1'))"; }
exclude=
for package in torch transformers; do
    if ! have $package; then
        echo "skipped: python, multihead.$package: $package is not installed"
        exclude="$exclude --exclude multihead/$package[/.]"
    fi
done
"$venv/bin/python" -m pytest -q --doctest-modules --doctest-ignore-import-errors --pyargs multihead python/tests
# shellcheck disable=SC2086
"$venv/bin/python" -m mypy $exclude python/multihead
