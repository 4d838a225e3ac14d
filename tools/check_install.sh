#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_install.sh [BUILD]
# Installs into an empty directory and uses what is there as users do: the command from an empty
# directory with the installed model, README's program with README's compiler lines, an installed
# example, a program built with pkg-config (shared and static) and with find_package; with MPI, where it
# is there, a program and the command on two ranks. Then uninstalls and looks whether anything is left.
# add_subdirectory and -DBUILD_SHARED_LIBS are tried, too. PREFIX and DESTDIR differ, so the tree is
# used where it was not configured for: it must be relocatable.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "install: $*" >&2; exit 1; }

# Another PREFIX compiles one file again, not the command. Root's installation runs ldconfig, one into
# DESTDIR does not; both programs are stand-ins.
mkdir "$tmp/bin"
printf '#!/bin/sh\necho 0\n' >"$tmp/bin/id"
printf '#!/bin/sh\n: >"%s"\n' "$tmp/ldconfig" >"$tmp/bin/ldconfig"
chmod +x "$tmp/bin/id" "$tmp/bin/ldconfig"
make -s BUILD="$build" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "make failed"; }
: >"$tmp/before"
PATH=$tmp/bin:$PATH make -s install BUILD="$build" PREFIX="$tmp/prefix" >"$tmp/log" 2>&1 ||
    { cat "$tmp/log" >&2; fail "make install failed"; }
compiled=$(find "$build" -name '*.o' -newer "$tmp/before" | wc -l)
[ "$compiled" -eq 1 ] || fail "another PREFIX compiles $compiled files, expected 1"
[ -f "$tmp/ldconfig" ] || fail "root's make install does not run ldconfig"
rm -r "$tmp/prefix" "$tmp/ldconfig"

PATH=$tmp/bin:$PATH make -s install BUILD="$build" PREFIX=/opt/mh DESTDIR="$tmp/stage" >"$tmp/log" 2>&1 ||
    { cat "$tmp/log" >&2; fail "make install failed"; }
[ ! -e "$tmp/ldconfig" ] || fail "make install into DESTDIR runs ldconfig"
root=$tmp/stage/opt/mh
libdir=$(dirname "$(find "$root" -name libmultihead.so)")
for file in bin/multihead share/man/man1/multihead.1 include/multihead/multihead.h \
    share/doc/multihead/LICENSE share/doc/multihead/README.md share/doc/multihead/docs/guide/mha.md \
    share/doc/multihead/docs/images/overview.png share/doc/multihead/examples/01_attention.c \
    share/multihead/models/fr-en/model.safetensors; do
    [ -f "$root/$file" ] || fail "$file was not installed"
done
# what the command's help and messages call docs/SHELF/NAME.md
for page in $(grep -rohE 'docs/[a-z/-]+[.]md' cli | sort -u); do
    [ -f "$root/share/doc/multihead/$page" ] || fail "the command names $page, which was not installed"
done
mkdir "$tmp/empty"
translation=$(cd "$tmp/empty" &&
    "$root/bin/multihead" translate -m "$root/share/multihead/models/fr-en" "Où est la gare ?") ||
    fail "the installed command does not translate with the installed model"
[ "$translation" = "Where is the station?" ] || fail "the installed command translates: $translation"
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

export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"

# README's program; every line of README that compiles it, and the output shown after the first
mkdir "$tmp/readme"
awk '/^```c$/ { on = 1; next } /^```/ && on { exit } on' README.md >"$tmp/readme/app.c"
awk '/^[$] cc app[.]c / { on = 1; next } /^```/ && on { exit } on' README.md >"$tmp/readme/expected"
grep -o '^[$] cc .*' README.md | cut -c3- >"$tmp/readme/commands"
[ "$(wc -l <"$tmp/readme/commands")" -eq 2 ] || fail "README shows no two lines that compile its program"
while IFS= read -r command; do
    (cd "$tmp/readme" && sh -c "$command" >output) || fail "README's program fails: $command"
    diff "$tmp/readme/expected" "$tmp/readme/output" >&2 || fail "README shows another output: $command"
done <"$tmp/readme/commands"
ldd "$tmp/readme/a.out" >/dev/null 2>&1 && fail "README's static program is not static"

# an example as it is installed
# shellcheck disable=SC2046
cc "$root/share/doc/multihead/examples/10_translate.c" -o "$tmp/example" \
    $(pkg-config --cflags --libs multihead-model)
"$tmp/example" "$root/share/multihead/models/fr-en" >/dev/null || fail "the installed example 10 fails"

# shellcheck disable=SC2046
{
    cc "$tmp/app.c" -o "$tmp/shared" $(pkg-config --cflags --libs multihead-model)
    cc "$tmp/app.c" -o "$tmp/static" -static $(pkg-config --static --cflags --libs multihead-model)
}
cmake -S "$tmp" -B "$tmp/b" -DCMAKE_PREFIX_PATH="$root" >"$tmp/log" 2>&1 &&
    cmake --build "$tmp/b" >>"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "find_package failed"; }
for program in shared static b/cmake_model b/cmake_model_static; do
    "$tmp/$program" || fail "the program built as $program fails"
done

# Two ranks; the command finds the library where it is installed.
mpi="two ranks"
launcher=$(command -v mpirun.openmpi || command -v mpirun || true)
if [ -f "$libdir/libmultihead-mpi.so" ] && [ -n "$launcher" ]; then
    cat >"$tmp/ranks.c" <<'EOF'
#include <multihead/mpi.h>
#include <stdio.h>
int main(void)
{
    mh_communicator ranks = mh_communicator_default();
    char error[256] = "";
    int word = 0;
    if (mh_mpi_open(&ranks, error, sizeof error))
        return fprintf(stderr, "%s\n", error), 1;
    if (ranks.rank == 0)
        word = 42;
    const bool good = ranks.ranks == 2 && mh_communicator_broadcast(&ranks, &word, sizeof word) == MH_OK && word == 42;
    mh_mpi_close(&ranks);
    return !good;
}
EOF
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    # shellcheck disable=SC2046
    cc "$tmp/ranks.c" -o "$tmp/ranks" $(pkg-config --cflags --libs multihead-mpi)
    "$launcher" -n 2 "$tmp/ranks" || fail "a program built with multihead-mpi.pc fails on two ranks"
    translation=$(cd "$tmp/empty" && env -u LD_LIBRARY_PATH "$launcher" -n 2 "$root/bin/multihead" translate \
        -m "$root/share/multihead/models/fr-en" "Où est la gare ?") ||
        fail "the installed command fails on two ranks"
    [ "$translation" = "Where is the station?" ] || fail "the installed command on two ranks translates: $translation"
else
    mpi="no ranks"
    echo "skipped: install: no libmultihead-mpi or no mpirun; 'make mpi' installs and builds them"
fi

# One kind of library: what is installed, and what multihead::multihead stands for. Nothing is built.
# libmultihead-mpi and libmultihead-media are loaded when they are needed, so that they are shared.
for kind in ON OFF; do
    cmake -S . -B "$tmp/kind" -DBUILD_SHARED_LIBS=$kind -DMH_BUILD_TESTS=OFF -DMH_BUILD_EXAMPLES=OFF \
        -DCMAKE_C_FLAGS=-O1 -DCMAKE_C_FLAGS_RELEASE=-DTHEIRS >"$tmp/log" 2>&1 ||
        { cat "$tmp/log" >&2; fail "BUILD_SHARED_LIBS=$kind fails"; }
    case $kind in ON) not='libmultihead(-model)?[.]a' ;; *) not='libmultihead(-model)?[.]so' ;; esac
    grep -qE "$not" "$tmp/kind/cmake_install.cmake" && fail "BUILD_SHARED_LIBS=$kind installs $not"
done
grep -qE '^Libs: .*-lmultihead -lm -pthread' "$tmp/kind/multihead.pc" ||
    fail "multihead.pc of a static build does not name -lm -pthread"
# The last of two flags that contradict each other wins: it must be the packager's.
grep -qE '^C_FLAGS = .*-O2 .*-O1 -DTHEIRS ' "$tmp/kind/CMakeFiles/multihead_objects.dir/flags.make" ||
    fail "our flags come after the packager's"

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
touch "$root/share/doc/multihead/docs/not_ours.md"
make -s uninstall BUILD="$build" DESTDIR="$tmp/stage"
[ -f "$root/share/doc/multihead/docs/not_ours.md" ] || fail "uninstall removed a page it did not install"
rm -r "$root/share/doc/multihead"
[ -f "$root/include/multihead/not_ours.h" ] || fail "uninstall removed a file it did not install"
rm -r "$root/include/multihead"
left=$(find "$tmp/stage" ! -type d -o -name multihead -o -name fr-en -o -name en-fr -o -name fashion-vit -o -name en-lm)
[ -z "$left" ] || fail "left behind: $left"
echo "install: command, model, docs, README's program, an example, pkg-config shared and static," \
    "find_package, $mpi, add_subdirectory, flags and uninstall work"
