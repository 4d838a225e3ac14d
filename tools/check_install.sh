#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_install.sh [BUILD]
# Installs into an empty folder, builds a small program against it the three ways users do
# (pkg-config shared, pkg-config static, find_package), runs it, uninstalls, and looks whether
# anything is left. add_subdirectory, the fourth way, is configured only. PREFIX and DESTDIR differ, so the tree is also used where it was not
# configured for: it must be relocatable.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "install: $*" >&2; exit 1; }

make -s install BUILD="$build" PREFIX=/opt/mh DESTDIR="$tmp/stage" >"$tmp/log" 2>&1 ||
    { cat "$tmp/log" >&2; fail "make install failed"; }
root=$tmp/stage/opt/mh
libdir=$(dirname "$(find "$root" -name libmultihead.so)")
for file in bin/multihead share/man/man1/multihead.1 share/doc/multihead/LICENSE \
    include/multihead/multihead.h; do
    [ -f "$root/$file" ] || fail "$file was not installed"
done
"$root/bin/multihead" --version >/dev/null || fail "the installed command does not run"
for name in multihead multihead-model; do
    readelf -d "$libdir/lib$name.so" | grep -q "SONAME.*\[lib$name.so.[0-9]*\]" ||
        fail "lib$name.so has no SONAME"
    [ -f "$libdir/lib$name.a" ] || fail "lib$name.a was not installed"
done

cat >"$tmp/app.c" <<'EOF'
#include <multihead/io.h>
#include <multihead/multihead.h>
int main(void)
{
    float one[1] = {1}, out[1] = {0};
    mh_tensor x = mh_tensor_4d(one, MH_F32, 1, 1, 1, 1), y = mh_tensor_4d(out, MH_F32, 1, 1, 1, 1);
    mh_context *context;
    mh_tensor_file *file;
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return 1;
    bool good = mh_attention_forward(context, NULL, &x, &x, &x, &y) == MH_OK && out[0] == 1 &&
                mh_tensor_file_parse(context, "none", "none", 4, &file) == MH_ERROR_FORMAT;
    mh_context_free(context);
    return !good;
}
EOF
cat >"$tmp/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(multihead $(sed -n 's/#define MH_VERSION_STRING "\([0-9]*\.[0-9]*\).*/\1/p' \
    include/multihead/base.h) REQUIRED)
foreach(kind model model_static)
  add_executable(cmake_\${kind} app.c)
  target_link_libraries(cmake_\${kind} multihead::\${kind})
endforeach()
EOF

export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046
{
    cc "$tmp/app.c" -o "$tmp/shared" $(pkg-config --cflags --libs multihead-model)
    cc "$tmp/app.c" -o "$tmp/static" -static $(pkg-config --static --cflags --libs multihead-model)
}
cmake -S "$tmp" -B "$tmp/b" -DCMAKE_PREFIX_PATH="$root" >"$tmp/log" 2>&1 &&
    cmake --build "$tmp/b" >>"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "find_package failed"; }
for program in shared static b/cmake_model b/cmake_model_static; do
    LD_LIBRARY_PATH=$libdir "$tmp/$program" || fail "the program built as $program fails"
done

# As a part of another project it installs nothing, and has neither tests nor examples.
mkdir "$tmp/whole"
cat >"$tmp/whole/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(whole CXX)
add_subdirectory($PWD part)
foreach(target multihead::multihead multihead::multihead_static multihead::model)
  if(NOT TARGET \${target})
    message(FATAL_ERROR "no \${target}")
  endif()
endforeach()
EOF
cmake -S "$tmp/whole" -B "$tmp/w" >"$tmp/log" 2>&1 &&
    cmake --install "$tmp/w" --prefix "$tmp/none" >>"$tmp/log" 2>&1 ||
    { cat "$tmp/log" >&2; fail "add_subdirectory failed"; }
[ ! -e "$tmp/none" ] || fail "a part of another project was installed: $(find "$tmp/none" -type f)"
[ ! -e "$tmp/w/part/tests" ] || fail "a part of another project has tests"

touch "$root/include/multihead/not_ours.h"
make -s uninstall BUILD="$build" DESTDIR="$tmp/stage"
[ -f "$root/include/multihead/not_ours.h" ] || fail "uninstall removed a file it did not install"
rm -r "$root/include/multihead"
left=$(find "$tmp/stage" ! -type d -o -name multihead)
[ -z "$left" ] || fail "left behind: $left"
echo "install: pkg-config shared and static, find_package, add_subdirectory and uninstall work"
