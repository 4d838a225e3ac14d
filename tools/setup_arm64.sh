#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: setup_arm64.sh DIRECTORY
# Unpacks cmocka for 64-bit ARM into DIRECTORY, for tests in an emulator. The package comes from the
# Debian mirror that this machine uses; package lists are kept in DIRECTORY, and nothing is installed.
# Quick if it is there already.
set -eu
directory=${1:?usage: setup_arm64.sh DIRECTORY}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
[ ! -e "$directory/usr/lib/aarch64-linux-gnu/libcmocka.so.0" ] || exit 0
command -v apt-get >/dev/null || {
    echo "setup_arm64: there is no apt-get here to download cmocka for arm64 with" >&2
    exit 1
}

mkdir -p "$directory/apt/lists/partial" "$directory/apt/cache/archives/partial"
: >"$directory/apt/status" # no package is installed, so all are downloaded
cd "$directory/apt"
apt_arm64() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o Dir::State="$directory/apt" \
        -o Dir::State::status="$directory/apt/status" -o Dir::Cache="$directory/apt/cache" "$@"
}
apt_arm64 update
apt_arm64 download libcmocka0 libcmocka-dev
for package in libcmocka*_arm64.deb; do
    dpkg-deb -x "$package" "$directory"
done
rm -rf "$directory/apt"
