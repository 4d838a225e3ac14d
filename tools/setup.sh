#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: setup.sh [test|python|mpi|media|speech|ci]
# Installs the Debian packages that are missing: what building needs, with `test` also what the tests
# need, with `python` what the Python package needs, with `mpi` what libmultihead-mpi needs, with
# `media` what libmultihead-media needs, with `speech` what makes recordings, with `ci` also what the
# further checks need. Silent and quick if nothing is missing. On a terminal it asks first, unless YES
# is set.
# A thing is looked for by what it provides, not by its package, so that a compiler or library
# from elsewhere is as good.
set -eu

missing=
need() # need PACKAGE TEST...: notes the package unless the test succeeds
{
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
have() { command -v "$1"; }
have_any() { for name in "$@"; do have "$name" && return 0; done; return 1; }
exists() { for file in "$@"; do [ -e "$file" ] && return 0; done; return 1; }

need gcc have_any cc gcc
need libc6-dev exists /usr/include/stdlib.h
need make have make
need cmake have cmake
need pkg-config have pkg-config
need libjansson-dev pkg-config --exists jansson
need libutf8proc-dev pkg-config --exists libutf8proc
need zlib1g-dev pkg-config --exists zlib

case ${1-} in
'' | python | mpi | media | speech) ;;
test | ci) need libcmocka-dev pkg-config --exists cmocka ;;
*)
    echo "usage: setup.sh [test|python|mpi|media|speech|ci]" >&2
    exit 2
    ;;
esac
case ${1-} in
python | ci)
    python=${PYTHON:-python3}
    need python3 have "$python"
    need python3-venv "$python" -c "import ensurepip"
    need python3-dev "$python" -c "import os, sysconfig as s; os.stat(s.get_path('include') + '/Python.h')"
    ;;
esac
case ${1-} in
media | ci)
    need libpng-dev pkg-config --exists libpng
    need libjpeg62-turbo-dev pkg-config --exists libjpeg
    need libsndfile1-dev pkg-config --exists sndfile
    ;;
esac
[ "${1-}" != speech ] || need espeak-ng have espeak-ng
if [ "${1-}" = mpi ]; then
    need libopenmpi-dev have mpicc
    need openmpi-bin have mpirun
fi
if [ "${1-}" = ci ]; then
    need libopenmpi-dev pkg-config --exists ompi-c
    need openmpi-bin have mpirun.openmpi
    need libmpich-dev pkg-config --exists mpich
    need mpich have mpirun.mpich
    need g++ have g++
    need clang have clang++
    need clang-format have clang-format
    need libclang-rt-dev exists /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
    need valgrind have valgrind
    need qemu-user have_any qemu-aarch64
    need gcc-aarch64-linux-gnu have aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross exists /usr/aarch64-linux-gnu/include/stdlib.h
    need wrk have wrk
    need espeak-ng have espeak-ng
    need dataset-fashion-mnist exists /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz
fi
[ -n "$missing" ] || exit 0

refuse() # WHY: says what is missing and ends
{
    echo "setup: missing:$missing (names of Debian packages)" >&2
    echo "setup: $1; please install them, or what provides the same, and try again" >&2
    exit 1
}
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
have apt-get >/dev/null || refuse "there is no apt-get here to install them with"
[ -z "$as_root" ] || have sudo >/dev/null || refuse "only root can install them, and there is no sudo"
if [ -t 0 ] && [ -t 2 ] && [ -z "${YES-}" ]; then
    printf 'setup: missing:%s\nsetup: install them with %s? [Y/n] ' "$missing" \
        "${as_root:+sudo }apt-get" >&2
    read -r answer || answer=n
    case $answer in
    '' | [Yy]*) ;;
    *) refuse "not installed" ;;
    esac
fi

echo "setup: installing$missing" >&2
install()
{
    # shellcheck disable=SC2086
    log=$($as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 \
        install -qq -y --no-install-recommends $missing 2>&1)
}
# The lists of packages are fetched only if without that it does not work.
install || { $as_root apt-get update -qq && install; } || {
    echo "$log" >&2
    echo "setup: could not install:$missing" >&2
    exit 1
}
