#!/bin/sh
# SPDX-License-Identifier: MIT
# The text of the files: nothing that only holds on one machine (directories of a user, package
# hosts), nothing left open, no tabs, no whitespace at line ends, no page wider than 120 columns (160 in a
# table, whose rows cannot be wrapped), C formatted by .clang-format.
set -eu
cd "$(dirname "$0")/.."
failed=0

# forbid WHAT PATTERN [PATHSPEC...]: no text file of the project matches
forbid()
{
    what=$1 pattern=$2
    shift 2
    if git grep --untracked -nIE -e "$pattern" -- "$@" >&2; then
        echo "text: $what (above)" >&2
        failed=1
    fi
}
hosts='pypi[.]org|pythonhosted[.]org|deb[.]debian[.]org|npmjs[.](org|com)|docker[.]io|ghcr[.]io'
forbid "a directory of one machine" '(^|[^A-Za-z0-9_.$}*/-])/(home|root|work|Users)/[A-Za-z]' .
forbid "a package host" "$hosts|[A-Za-z0-9-]+[.](local|internal|lan)(:|/)" .
forbid "something left open" '(^|[^A-Za-z])(TO[D]O|FIX[M]E|XX[X]|HAC[K])([^A-Za-z]|$)' .
forbid "whitespace at the end of a line" '[[:blank:]]$' . ':!*.tsv' ':!tests/cli/*.txt'
LC_ALL=C.UTF-8 forbid "a line of more than 120 columns, or a table row of more than 160" \
    '^([^|].{120,}|[|].{160,})$' '*.md'
forbid "a tab" "$(printf '\t')" . ':!Makefile' ':!*.tsv'

# Other versions format some lines differently; 14 is Debian 12's.
files=$(git ls-files -co --exclude-standard '*.c' '*.h' '*.inc')
if clang-format --version 2>/dev/null | grep -q 'version 14[.]'; then
    for file in $files; do
        clang-format --dry-run -Werror "$file" 2>/dev/null || {
            echo "text: $file is not formatted as .clang-format says; run: make format" >&2
            failed=1
        }
    done
else
    echo "text: format not checked, clang-format is not version 14" >&2
fi
[ $failed -eq 0 ] && echo "text: clean"
exit $failed
