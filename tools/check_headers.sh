#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public header compiles alone, as C11 and as C++17, with gcc and clang, without a warning.
set -eu
cd "$(dirname "$0")/.."
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for header in include/multihead/*.h; do
    for compiler in 'gcc -std=c11 -xc' 'clang -std=c11 -xc' \
        'g++ -std=c++17 -xc++' 'clang++ -std=c++17 -xc++'; do
        echo "#include <multihead/${header##*/}>" |
            $compiler -Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only - 2>"$log" || {
            head -n 5 "$log" >&2
            echo "headers: $header fails with ${compiler%% *}" >&2
            failed=1
        }
    done
done
[ $failed -eq 0 ] && echo "headers: each compiles alone as C11 and C++17"
exit $failed
