#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check_make.sh BUILD
# The front door: `make` builds without the tests, says nothing when there is nothing to do and little
# when there is, on a terminal one line that is rewritten; setup.sh names what is missing where it cannot install, asks on a terminal, and does
# not ask without one or with YES=1. apt-get is a stand-in that only notes how it was called.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: check_make.sh BUILD}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "make: $*" >&2; exit 1; }

# ---- output -------------------------------------------------------------------------------

make -s BUILD="$build" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "it fails"; }
make BUILD="$build" >"$tmp/log" 2>&1
[ ! -s "$tmp/log" ] || fail "with nothing to do it says: $(cat "$tmp/log")"
touch src/base/context.c
make BUILD="$build" >"$tmp/log" 2>&1
[ "$(wc -l <"$tmp/log")" -le 2 ] || fail "for one file it says: $(cat "$tmp/log")"
touch src/base/context.c
python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' make BUILD="$build" </dev/null >"$tmp/log"
[ "$(wc -l <"$tmp/log")" -eq 0 ] && grep -q 'building: *[0-9]*%' "$tmp/log" ||
    fail "on a terminal it says: $(cat "$tmp/log")"
make -n BUILD="$build" -j7 | grep -q 'build.sh .* 7 products' || fail "-j7 is not passed on"

# ---- missing packages ---------------------------------------------------------------------

# A PATH with the commands that setup.sh itself needs and nothing that it looks for.
mkdir "$tmp/bin" "$tmp/apt"
for name in cat env id sh; do
    ln -s "$(command -v $name)" "$tmp/bin/$name"
done
cat >"$tmp/apt/apt-get" <<END
#!/bin/sh
echo "\$*" >>"$tmp/calls"
END
printf '#!/bin/sh\n"$@"\n' >"$tmp/apt/sudo"
chmod +x "$tmp/apt/apt-get" "$tmp/apt/sudo"

! PATH=$tmp/bin sh tools/setup.sh >"$tmp/log" 2>&1 || fail "setup.sh goes on without a compiler"
grep -q 'missing: gcc .*cmake .*libjansson-dev' "$tmp/log" && grep -q 'no apt-get' "$tmp/log" ||
    fail "without apt-get setup.sh says: $(cat "$tmp/log")"

PATH=$tmp/bin:$tmp/apt sh tools/setup.sh </dev/null >"$tmp/log" 2>&1
grep -q 'install .*cmake' "$tmp/calls" || fail "without a terminal setup.sh does not install"
! grep -q cmocka "$tmp/calls" || fail "building needs no cmocka"

# On a terminal: ANSWER YES EXPECTED-STATUS EXPECTED-CALLS
ask() {
    rm -f "$tmp/calls"
    python3 - "$1" "$2" "$tmp" >"$tmp/log" <<'END'
import os, pty, sys
answer, yes, tmp = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    environment = {"PATH": f"{tmp}/bin:{tmp}/apt", "YES": yes}
    os.execve("/bin/sh", ["sh", "tools/setup.sh"], environment)
os.write(terminal, answer.encode() + b"\n")
try:
    while data := os.read(terminal, 1000):
        os.write(1, data)
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
}
ask '' '' && [ -f "$tmp/calls" ] || fail "Enter is not yes: $(cat "$tmp/log")"
grep -q '\[Y/n\]' "$tmp/log" || fail "it does not ask: $(cat "$tmp/log")"
! ask n '' && [ ! -f "$tmp/calls" ] || fail "it installs in spite of 'n': $(cat "$tmp/log")"
grep -q 'missing: gcc' "$tmp/log" || fail "after 'n' it does not say what is missing"
ask '' 1 && [ -f "$tmp/calls" ] || fail "YES=1 does not install"
! grep -q '\[Y/n\]' "$tmp/log" || fail "YES=1 still asks"
echo "make: quiet, says what is missing, asks on a terminal"
