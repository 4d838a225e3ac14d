#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian packages that are missing: what building and testing needs, and with
# `setup.sh ci` also what the further checks need. Silent and quick if nothing is missing.
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
need libcmocka-dev pkg-config --exists cmocka

case ${1-} in
'') ;;
ci)
    need g++ have g++
    need clang have clang++
    need clang-format have clang-format
    need libclang-rt-dev exists /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
    need valgrind have valgrind
    need qemu-user have_any qemu-aarch64
    need gcc-aarch64-linux-gnu have aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross exists /usr/aarch64-linux-gnu/include/stdlib.h
    need python3 have python3
    need python3-venv python3 -c "import ensurepip"
    need wrk have wrk
    ;;
*)
    echo "usage: setup.sh [ci]" >&2
    exit 2
    ;;
esac
[ -n "$missing" ] || exit 0

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
if ! have apt-get >/dev/null || { [ -n "$as_root" ] && ! have sudo >/dev/null; }; then
    echo "setup: missing:$missing (names of Debian packages)" >&2
    echo "setup: they can only be installed here with apt-get, as root or through sudo;" >&2
    echo "setup: please install them with your package manager and try again" >&2
    exit 1
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
