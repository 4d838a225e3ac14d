#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_neon.sh [BUILD]
# Builds the engine for 64-bit ARM and runs check_kernels, tests and examples in an emulator: those of
# the label `emulated`, with fewer random cases, as it takes some twenty times as long. The golden
# hashes show that the bits are those of other machines.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-neon}
jobs=$(nproc)
mkdir -p "$build"
sh tools/setup_arm64.sh "$build/sysroot"
PKG_CONFIG_SYSROOT_DIR=$(cd "$build/sysroot" && pwd)
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR="$PKG_CONFIG_SYSROOT_DIR/usr/lib/aarch64-linux-gnu/pkgconfig"
cmake --preset arm64 -B "$build" >/dev/null
sh tools/build.sh "$build" "$jobs" all
MH_TEST_CASES_MOST=${MH_TEST_CASES_MOST:-4} sh tools/run_tests.sh "$build" "$jobs" -L emulated
