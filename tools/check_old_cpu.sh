#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_old_cpu.sh BUILD
# Runs the kernels and attention on emulated old CPUs: the right level is chosen, no instruction
# is met that such a CPU lacks, and the bits are those of the golden hashes. qemu knows AVX2 since
# version 7.2, not AVX-512.
set -eu
build=${1:?usage: check_old_cpu.sh BUILD}
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unset MH_ISA

on() # CPU PROGRAM...: runs it, shows what it printed only if it fails
{
    cpu=$1
    shift
    if ! qemu-x86_64 -cpu "$cpu" "$@" >"$log" 2>&1; then
        echo "old cpu: $* fails on $cpu:" >&2
        grep -v "TCG doesn't support" "$log" | tail -n 20 >&2
        failed=1
    fi
}
check() # CPU LEVEL
{
    on "$1" "$build/multihead" info
    grep -qE "^level chosen +$2\$" "$log" || {
        echo "old cpu: on $1 the level is not $2" >&2
        failed=1
    }
    on "$1" "$build/examples/example_01_attention"
    on "$1" "$build/tests/test_golden"
}
# check_kernels only up to here: its guard pages need masked loads that leave alone what is masked,
# and qemu 7.2 reads all of a vmaskmovps.
for cpu in qemu64 SandyBridge; do # the latter has AVX without AVX2
    check $cpu scalar
    on $cpu "$build/tests/check_kernels"
done
check Haswell avx2
[ $failed -eq 0 ] && echo "old cpu: right levels, no wrong instruction"
exit $failed
