#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: uninstall.sh BUILD [DESTDIR]
# Removes the files that `make install` listed in BUILD/install_manifest.txt, and the folders
# called multihead that become empty by that; nothing else.
set -eu
manifest=$1/install_manifest.txt
destdir=${2-}
if [ ! -f "$manifest" ]; then
    echo "uninstall: nothing was installed from here (no $manifest)" >&2
    exit 1
fi
while IFS= read -r file || [ -n "$file" ]; do
    rm -f -- "$destdir$file"
    folder=$(dirname -- "$destdir$file")
    case $folder in
    */multihead) rmdir -- "$folder" 2>/dev/null || : ;;
    esac
done <"$manifest"
rm -f -- "$manifest"
