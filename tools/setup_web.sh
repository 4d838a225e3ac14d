#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: setup_web.sh VENV
# What the page's tests need and `make test` does not: Chromium (Debian's package) and, in a
# virtual environment at VENV, Playwright to drive it and NumPy. Silent and quick if it is there.
set -eu
venv=${1:?usage: setup_web.sh VENV}
if ! command -v chromium >/dev/null; then
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    echo "setup: installing chromium" >&2
    install()
    {
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install \
            -qq -y --no-install-recommends chromium fonts-noto-core >/dev/null
    }
    install || { $as_root apt-get update -qq && install; }
fi
if ! "$venv/bin/python" -c "import numpy, playwright" 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check numpy playwright
fi
