#!/bin/sh
# SPDX-License-Identifier: MIT
# Copies the sources into two directories and builds libmultihead-model's objects, and some of the
# engine's, in each: they must be equal byte for byte. (All objects have the same flags, and the
# kernels would take most of the time.)
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER
build() # DIRECTORY
{
    mkdir -p "$1"
    git ls-files -co --exclude-standard -- CMakeLists.txt LICENSE bench cli cmake include src web |
        tar -cf - -T - | tar -xf - -C "$1"
    cmake -G "Unix Makefiles" -S "$1" -B "$1/build" -DMH_BUILD_TESTS=OFF -DMH_BUILD_EXAMPLES=OFF &&
        cmake --build "$1/build" -j "$(nproc)" --target multihead_model_objects &&
        make -C "$1/build" src/base/pool.o src/kernels/dispatch.o src/ops/attention/attention.o src/nn/mha.o
}
for directory in "$tmp/one" "$tmp/another one"; do
    build "$directory" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
    (cd "$directory/build" && find . -name '*.o' -path '*_objects.dir/*' -exec sha256sum {} + |
        sort -k 2) >"$directory.sums"
done
count=$(wc -l <"$tmp/one.sums")
if [ "$count" -lt 20 ] || ! diff "$tmp/one.sums" "$tmp/another one.sums" >&2; then
    echo "reproducible: of $count objects those above differ between directories" >&2
    exit 1
fi
echo "reproducible: $count objects are equal when built in another directory"
