#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_hardening.sh BUILD
# The command and the shared libraries are hardened: position-independent, full RELRO, no executable
# stack, no text relocations, stack protector, fortified libc calls; and on x86-64 every object has
# the marks of -fcf-protection. The hot paths, src/ops/ and the kernels, have no stack protector.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: check_hardening.sh BUILD}
failed=0
complain() { echo "hardening: $*" >&2; failed=1; }
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

for file in multihead libmultihead.so libmultihead-model.so; do
    readelf -Wlhd "$build/$file" >"$tmp"
    grep -q 'Type: *DYN' "$tmp" || complain "$file is not position-independent"
    grep -q 'GNU_RELRO' "$tmp" || complain "$file has no RELRO segment"
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' "$tmp" || complain "$file is not linked with -z now"
    grep -q 'GNU_STACK.* RW ' "$tmp" || complain "$file has an executable stack"
    ! grep -q 'TEXTREL' "$tmp" || complain "$file has text relocations"
    readelf -W --dyn-syms "$build/$file" >"$tmp"
    grep -q '__stack_chk_fail' "$tmp" || complain "$file has no stack protector"
    grep -qE 'UND __[a-z]*(mem|str|print|read)[a-z]*_chk' "$tmp" || complain "$file has no fortified libc calls"
done

objects=$(find "$build/CMakeFiles" -name '*.o' -path '*_objects.dir/*')
[ -n "$objects" ] || complain "no objects in $build/CMakeFiles"
for object in $objects; do
    case $object in
    */src/ops/* | */src/kernels/*/*)
        ! nm "$object" | grep -q __stack_chk_fail || complain "$object has a stack protector" ;;
    esac
    [ "$(uname -m)" != x86_64 ] || readelf -n "$object" 2>/dev/null | grep -q 'IBT, SHSTK' ||
        complain "$object was not compiled with -fcf-protection"
done
[ $failed -eq 0 ] && echo "hardening: PIE, full RELRO, stack protector, fortified calls, cf-protection"
exit $failed
