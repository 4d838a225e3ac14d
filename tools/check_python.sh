#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_python.sh DIRECTORY
# The wheel that `make python` left in DIRECTORY/dist: one file for Python 3.11 and later, small, without
# model weights, that needs libc and libm only, exports only its entry, imports without any other package,
# and brings the command. Newer interpreters, if there are any, run its tests, too.
set -eu
cd "$(dirname "$0")/.."
directory=$(cd "${1:?usage: check_python.sh DIRECTORY}" && pwd)
wheel=$(echo "$directory"/dist/*.whl)
site=$directory/site
fail() { echo "python: $*" >&2; exit 1; }

# ---- the wheel ----------------------------------------------------------------------------

case $wheel in
*-cp311-abi3-linux_*.whl) ;;
*) fail "found $wheel, expected one wheel for cp311-abi3" ;;
esac
size=$(wc -c <"$wheel")
[ "$size" -lt 3000000 ] || fail "the wheel has $size bytes, expected less than 3,000,000"
rm -rf "$site"
"$directory/venv/bin/python" -m zipfile -e "$wheel" "$site"
extension=$site/multihead/_multihead.abi3.so
others=$(cd "$site" && find . -type f ! -name '*.py' ! -name '*.pyi' ! -name py.typed ! -path '*.dist-info/*')
[ "$others" = ./multihead/_multihead.abi3.so ] || fail "files in the wheel: $others"
"$directory/venv/bin/abi3audit" --strict "$wheel" >/dev/null 2>&1 ||
    "$directory/venv/bin/abi3audit" --strict --verbose "$wheel"
needed=$(readelf -d "$extension" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(ld-linux.*|lib[cm])\.so') || true
[ -z "$needed" ] || fail "the extension needs $needed"
! readelf -d "$extension" | grep -qE 'RPATH|RUNPATH' || fail "the extension has a run path"
exported=$(nm -D --defined-only "$extension" | awk 'NF == 3 { print $3 }')
[ "$exported" = PyInit__multihead ] || fail "the extension exports $exported"

# ---- the command, and no other package ----------------------------------------------------

bare() { PYTHONPATH=$site python3 -S "$@"; } # -S: without site-packages
bare -c 'import multihead as mh; assert mh.isa() and mh.__version__'
bare -m multihead --version >/dev/null
found=$(bare -m multihead translate -m models/fr-en "Où est la gare ?")
[ "$found" = "Where is the station?" ] || fail "the command translates: $found"
! bare -m multihead serve 2>"$site/log" || fail "the command serves"
grep -q 'not in the Python package' "$site/log" || fail "serve says: $(cat "$site/log")"
message=$(bare -c 'import multihead as mh; mh.attention(bytes(4), 1, 2)' 2>&1 | tail -n 1)
case $message in
ValueError:* | TypeError:*) ;;
*) fail "without NumPy, attention says: $message" ;;
esac

# ---- missing Debian packages are named ----------------------------------------------------

if PKG_CONFIG_LIBDIR=/nowhere cmake -S . -B "$directory/missing" >"$site/log" 2>&1; then
    fail "CMake finds libraries without pkg-config's files"
fi
grep -q 'libjansson-dev libutf8proc-dev zlib1g-dev' "$site/log" || fail "CMake says: $(cat "$site/log")"
rm -rf "$directory/missing"

# ---- AddressSanitizer ---------------------------------------------------------------------

# The objects are those of the sanitizers' stage. Tests of random calls, as they reach all of the module.
cmake --preset asan -DMH_BUILD_PYTHON=ON -DPython_EXECUTABLE="$directory/venv/bin/python" >/dev/null
cmake --build build-asan --target multihead_python -j "$(nproc)" >/dev/null
rm -rf "$directory/asan"
mkdir "$directory/asan"
cp -r python/multihead "$directory/asan"
cp build-asan/python/_multihead.abi3.so "$directory/asan/multihead"
nm -D "$directory/asan/multihead/_multihead.abi3.so" | grep -q __asan_init || fail "built without AddressSanitizer"
# PYTHONMALLOC: Python's own allocator would hide what is freed too early.
LD_PRELOAD=$(clang -print-file-name="libclang_rt.asan-$(uname -m).so") PYTHONPATH=$directory/asan PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4000 MH_TEST_CALLS=400 \
    "$directory/venv/bin/python" -m pytest -q python/tests/test_untrusted.py
echo "python: random calls are clean under AddressSanitizer"

# ---- newer interpreters -------------------------------------------------------------------

newest=
for python in $(printf '%s\n' python3.12 python3.13 python3.14 python3.15) \
    "$(command -v pyenv >/dev/null && pyenv root || echo /none)"/versions/3.1[2-9]*/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && newest=$python
done
if [ -z "$newest" ]; then
    echo "skipped: python, newer interpreters: found none"
else
    venv=$directory/venv-newest
    if [ "$(cat "$venv/python" 2>/dev/null)" != "$newest" ]; then
        "$newest" -m venv --clear "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy ml_dtypes pytest
        echo "$newest" >"$venv/python"
    fi
    PYTHONPATH=$site "$venv/bin/python" -m pytest -q python/tests
    echo "python: the wheel's tests pass with $("$newest" --version)"
fi
echo "python: the wheel has $size bytes, needs libc and libm only, exports only its entry"
