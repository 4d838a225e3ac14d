#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_neon.sh [BUILD]
# Builds the engine for 64-bit ARM and runs check_kernels and the examples in an emulator, but for the
# two that train, which take it minutes.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-neon}
cmake -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DMH_BUILD_MODEL=OFF \
    -DMH_WERROR=ON >/dev/null
cmake --build "$build" -j "$(nproc)"
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -E "example_07|example_11"
