# SPDX-License-Identifier: MIT
# The command as a whole: help, version, names that do not exist, the man page.
run multihead --version
run multihead --help
run multihead help
run multihead
run multihead atend
run multihead hlep
run multihead benhc
run multihead quux
run multihead --quux
run multihead help attend
run multihead help bench
run multihead help info
run multihead help mha
run multihead help score
run multihead help view
run multihead help quux
run multihead help info quux
run multihead info --usage
multihead man | head -n 4
multihead man | grep -c '^\.TP' | awk '{ print ($1 > 250 ? "all options" : $1) }'
echo "full disk:"
multihead info 2>&1 >/dev/full
echo "exit $?"
