#!/bin/sh
# SPDX-License-Identifier: MIT
# Rejects terms that docs/glossary.md has replaced, in code, comments, messages and docs.
#     check_terms.sh              the whole tree
#     check_terms.sh FILE...      these files, as the commit hook does
set -eu
cd "$(dirname "$0")/.."

# An extended regular expression per line, and after it what to write instead.
terms='
\bturned\b                                      transposed, rotated
\bsoften(s|ed|ing)?\b|_soften|soften_           softmax of a tile
\b(sent|send|sends) for\b|send_for              prefetch
\bstraight way\b|_straight\b|straight_          short-sequence path
\bway back\b                                    backward
stay_awake|ROWS_AWAKE|\bfalls? asleep\b         keep_warm, powers down
keep_apart                                      space_issue
\b(gone|going) on from\b|\bstopped and gone on  resume
\bas (it|they) stands?\b|\bas they lie\b        in place
\bmultiply-adds?\b                              FMA
\b(first|second|third)-level (cache|one)        L1, L2, L3
\bhostile\b                                     untrusted
unforeseen                                      entropy, random
\bmatrix units?\b                               matrix engine
\bleft operand|\bright operand|pack_left|pack_right     A operand, B operand
multiply_few|few_rows                           gemv
multiply_ahead|\bmh_ahead\b                     gemm_prefetch
add_up_|_add_up                                 reduce
'
# The same for names in code only: files (an extended regular expression on the path), name, instead.
names='
.                           mh_strip                row block
.                           mh_piece                segment
.                           mh_folder               directory
.                           \bmh_kept\b             dropout mask
.                           [a-z]_halves\b          bf16, f16, u16
.                           \bpassage               tile state
^src/                       \bstretch\b             kc block, interval
^src/ops/(attention|cache)/ [Cc]hunk|CHUNK          KV split (512 keys), KV block (64 slots)
'
files=${*:-$(git ls-files src include cli tests/kernels tests/ref bench examples docs tools \
    README.md CONTRIBUTING.md CHANGELOG.md | grep -vE 'tools/check_terms.sh|docs/glossary.md|\.png$')}
found=0
while IFS= read -r line; do
    [ -n "$line" ] || continue
    pattern=$(printf '%s' "$line" | sed 's/   *.*//')
    instead=$(printf '%s' "$line" | sed 's/.*   *//')
    # shellcheck disable=SC2086
    if hits=$(printf '%s\n' $files | xargs grep -nHE "$pattern" 2>/dev/null); then
        printf '%s\n' "$hits" | sed "s/\$/    <- write: $instead/" >&2
        found=1
    fi
done <<END
$terms
END
code=$(printf '%s\n' $files | grep -E '[.](c|h|inc)$' || true)
while read -r path name instead; do
    [ -n "$path" ] || continue
    # shellcheck disable=SC2086
    if hits=$(printf '%s\n' $code | grep -E "$path" | xargs grep -nHE "$name" /dev/null 2>/dev/null); then
        printf '%s\n' "$hits" | sed "s/\$/    <- write: $instead/" >&2
        found=1
    fi
done <<END
$names
END
[ $found -eq 0 ] || { echo "check_terms: see docs/glossary.md" >&2; exit 1; }
