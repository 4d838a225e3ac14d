#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_symbols.sh BUILD
# The shared libraries export exactly what the public headers declare with MH_API, all of it
# beginning with mh_; and instructions of a level stay in that level's folder: a vector register that an old CPU
# lacks, or a function the linker could share between levels, is found in no other object.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: check_symbols.sh BUILD}
failed=0
complain() { echo "symbols: $*" >&2; failed=1; }

# Declarations may span lines: one per line, then the name before the first parenthesis.
libraries="$build/libmultihead.so $build/libmultihead-model.so"
headers=$(ls include/multihead/*.h)
if [ -e "$build/libmultihead-mpi.so" ]; then
    libraries="$libraries $build/libmultihead-mpi.so"
else
    headers=$(echo "$headers" | grep -v /mpi.h)
    echo "skipped: symbols of libmultihead-mpi: it is not built"
fi
# shellcheck disable=SC2086
declared=$(sed 's,//.*,,; /^#/d' $headers | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*MH_API [^(]*[ *]\([a-z0-9_]*\)(.*/\1/p' | sort)
# shellcheck disable=SC2086
exported=$(nm -D --defined-only $libraries |
    awk 'NF == 3 { print $3 }' | sort)
for symbol in $exported; do
    case $symbol in
    mh_*) ;;
    *) complain "exported: $symbol, which does not begin with mh_" ;;
    esac
    echo "$declared" | grep -qx "$symbol" ||
        complain "exported: $symbol, which no public header declares with MH_API"
done
for symbol in $declared; do
    echo "$exported" | grep -qx "$symbol" || complain "declared, but not exported: $symbol"
done

# An instruction set's object defines nothing weak: of two such definitions the linker keeps
# one, maybe that with the newer instructions.
objects=$build/CMakeFiles/multihead_objects.dir/src
files=$(find "$objects" -name '*.o')
for object in $files; do
    case $object in
    */kernels/avx512/* | */kernels/avx512bf16/* | */kernels/amx/*) registers='' ;;
    */kernels/avx2/*) registers='%zmm|%ymm(1[6-9]|2[0-9]|3[01])|%k[0-7]' ;;
    *) registers='%[yz]mm|%k[0-7]' ;;
    esac
    weak=$(nm "$object" | awk '$2 ~ /^[WVu]$/ { print $3 }')
    [ -z "$weak" ] || complain "$object defines weak symbols:" $weak
    [ -n "$registers" ] || continue
    if [ "$(uname -m)" = x86_64 ] && objdump -d "$object" | grep -qE "$registers"; then
        complain "$object uses registers of a higher level"
    fi
done
[ -n "$files" ] || complain "no objects in $objects"

[ $failed -eq 0 ] && echo "symbols: $(echo "$exported" | wc -l) exported, all declared; levels kept apart"
exit $failed
