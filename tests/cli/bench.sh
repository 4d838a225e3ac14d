# SPDX-License-Identifier: MIT
# `multihead bench`: one line a case, JSON is JSON, bad arguments are refused, Ctrl-C ends it.
run multihead bench
run multihead bench quux
run multihead bench attention again
run multihead bench attention --case quux
run multihead bench attention --shape 1,2
run multihead bench attention --shape 1,2,3,4,5,6
run multihead bench attention --shape 1,2,2,4,5,0
run multihead bench attention --shape 1,2,2,4,5,6,quux
run multihead bench attention --shape 1,2,2,4,5,6,causal,causal
run multihead bench attention --dtype f64

small="--quick --shape 1,2,1,4,6,8 --shape 1,2,2,4,4,8,causal"
multihead bench attention $small --threads 1 2>&1 | sed -e '1s/.*;/... ;/' |
    awk 'NR > 2 { $12 = $13 = $14 = $15 = "x" } { $1 = $1; print }'
multihead bench attention $small --json --threads 1 | check_json
multihead bench attention $small --json --threads 1 --dtype bf16 | cut -d, -f 1-11
multihead bench attention --quick --case tutorial --json --threads 1 | cut -d, -f 1-11

# Progress is for a terminal, in colour unless NO_COLOR says no, and not with -q.
on_terminal() {
    TERM=xterm script -qec "multihead bench attention $small --threads 1 $*" /dev/null </dev/null
}
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    on_terminal >default
    NO_COLOR=1 on_terminal >no_color
    NO_COLOR= on_terminal >empty_no_color
    on_terminal -q >quiet
else # no way to make a terminal here, so this is skipped: what it would show
    printf '\033[36m----' | tee default >empty_no_color
    echo ---- >no_color
    echo >quiet
fi
for file in default no_color empty_no_color quiet; do
    grep -q -e '----' $file && bar=bar || bar="no bar"
    grep -q "$(printf '\033')\[36m" $file && colour=colour || colour="no colour"
    echo "$file: $bar, $colour"
done

timeout --preserve-status -s TERM 2 multihead bench attention --json >/dev/null 2>interrupted
echo "exit $?"
cat interrupted
