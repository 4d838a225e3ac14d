#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: uninstall.sh BUILD [DESTDIR]
# Removes the files that `make install` listed in BUILD/install_manifest.txt, and the directories of
# the package that become empty by that; nothing else.
set -eu
manifest=$1/install_manifest.txt
destdir=${2-}
if [ ! -f "$manifest" ]; then
    echo "uninstall: nothing was installed from here (no $manifest)" >&2
    exit 1
fi
while IFS= read -r file || [ -n "$file" ]; do
    rm -f -- "$destdir$file"
    directory=$(dirname -- "$destdir$file")
    while :; do # upwards, as long as it is the package's own
        case $directory in
        */include/multihead | */cmake/multihead | */doc/multihead | */doc/multihead/* | \
            */share/multihead | */share/multihead/*) ;;
        *) break ;;
        esac
        rmdir -- "$directory" 2>/dev/null || break
        directory=$(dirname -- "$directory")
    done
done <"$manifest"
rm -f -- "$manifest"
