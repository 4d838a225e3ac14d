#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_symbols.sh BUILD
# The shared libraries export only what is declared with MH_API, all of it beginning with mh_;
# and instructions of a level stay in that level's folder: a vector register that an old CPU
# lacks, or a function the linker could share between levels, is found in no other object.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: check_symbols.sh BUILD}
failed=0
complain() { echo "symbols: $*" >&2; failed=1; }

exported=0
for library in "$build"/libmultihead.so "$build"/libmultihead-model.so; do
    for symbol in $(nm -D --defined-only "$library" | awk '{ print $3 }'); do
        exported=$((exported + 1))
        case $symbol in
        mh_*) ;;
        *) complain "$library exports $symbol, which does not begin with mh_" ;;
        esac
        grep -qE "^MH_API .*[ *]$symbol\(" include/multihead/*.h src/base/*.h src/ops/*.h src/nn/*.h ||
            complain "$library exports $symbol, which no header declares with MH_API"
    done
done

# An instruction set's object defines nothing weak: of two such definitions the linker keeps
# one, maybe that with the newer instructions.
objects=$build/CMakeFiles/multihead_objects.dir/src
files=$(find "$objects" -name '*.o')
for object in $files; do
    case $object in
    */kernels/avx512/* | */kernels/amx/*) registers='' ;;
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

[ $failed -eq 0 ] && echo "symbols: $exported exported, all declared; levels kept apart"
exit $failed
