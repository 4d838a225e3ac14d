#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: run.sh BUILD [short|usual|long]
# Training and translation on several ranks of this machine: the bytes of one process, for any number
# of ranks and threads, killed and resumed with another; and how faults end. `short` is for ctest,
# `long` kills 50 times. Needs libmultihead-mpi and a launcher, and is skipped without.
set -u
build=$(cd "${1:?usage: run.sh BUILD [short|usual|long]}" && pwd)
size=${2:-usual}
here=$(cd "$(dirname "$0")" && pwd)
multihead=$build/multihead
model=$here/../../models/fr-en
# As root, and with more ranks than cores, Open MPI starts nothing unless it is told to.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_btl_vader_single_copy_mechanism=none # ptrace is not permitted in every container

launcher=
for name in mpirun.openmpi mpirun; do
    if command -v $name >/dev/null && $name --version 2>/dev/null | grep -q 'Open MPI'; then
        launcher=$name
        break
    fi
done
if [ ! -e "$build/libmultihead-mpi.so" ] || [ -z "$launcher" ]; then
    echo "skipped: mpi: no libmultihead-mpi or no mpirun of Open MPI; 'make mpi' installs and builds them"
    exit 0
fi

tmp=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$mounted"; rm -rf "$tmp"' EXIT
failed=0 checks=0
fail() { echo "mpi: $*" >&2; failed=$((failed + 1)); }
expect() # WHAT FOUND EXPECTED
{
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: found '$2', expected '$3'"
}

# Words that map to words, some thousand tokens per batch.
awk 'BEGIN { srand(7); split("un deux trois quatre cinq six sept huit neuf dix", f);
    split("one two three four five six seven eight nine ten", e);
    for (i = 0; i < 900; i++) { a = b = ""; n = 2 + int(rand() * 9);
        for (k = 0; k < n; k++) { w = 1 + int(rand() * 10); a = a " " f[w]; b = b " " e[w] }
        print substr(a, 2) "\t" substr(b, 2) } }' >"$tmp/all.tsv"
head -n 860 "$tmp/all.tsv" >"$tmp/train.tsv"
tail -n 40 "$tmp/all.tsv" >"$tmp/dev.tsv"
options="--data $tmp/train.tsv --valid $tmp/dev.tsv --preset tiny --d-model 64 --merges 30 \
    --batch-tokens 8192 --accumulate 2 --after 12u --save-freq 2u --valid-freq 5u --average 2 --warmup 3"

run() # RANKS THREADS DIRECTORY: trains, on one process for 0 ranks
{
    # shellcheck disable=SC2086
    if [ "$1" = 0 ]; then
        "$multihead" train $options -q --threads "$2" -o "$3"
    else
        "$launcher" -n "$1" "$multihead" train $options -q --threads "$2" -o "$3"
    fi
}
# Losses, norms and scores of all updates and validations, without the time.
log_of() { sed 's/, "seconds": [0-9.]*//' "$1/log.jsonl" | sha256sum | cut -c 1-16; }
hash_of() { cat "$1/model.safetensors" "$1/checkpoint.safetensors" 2>/dev/null | sha256sum | cut -c 1-16; }

# ---- equal bytes ----------------------------------------------------------------------------

run 0 2 "$tmp/one" || fail "one process: exit code $?"
reference=$(hash_of "$tmp/one")
case $size in
short) cases="2x1 3x1" ;;
usual) cases="1x1 2x1 2x2 3x1 5x1 8x1" ;;
*) cases="1x1 1x2 2x1 2x2 3x1 3x2 5x1 5x2 8x1 8x2" ;;
esac
for case in $cases; do
    run "${case%x*}" "${case#*x}" "$tmp/$case" || fail "$case: exit code $?"
    expect "weights of $case (ranks x threads)" "$(hash_of "$tmp/$case")" "$reference"
    expect "losses and scores of $case" "$(log_of "$tmp/$case")" "$(log_of "$tmp/one")"
done
cut -f 1 "$tmp/dev.tsv" >"$tmp/lines"
"$multihead" translate -m "$tmp/one" --json <"$tmp/lines" >"$tmp/translated"
for ranks in 2 3; do
    "$launcher" -n $ranks "$multihead" translate -m "$tmp/one" --json --threads 1 <"$tmp/lines" \
        >"$tmp/shared" || fail "translate on $ranks ranks: exit code $?"
    cmp "$tmp/translated" "$tmp/shared" || fail "translate on $ranks ranks: other lines"
    checks=$((checks + 1))
done

# The other tasks. Gradients of layers are sent while those of earlier layers are computed.
printf '\000\000\010\003\000\000\001\000\000\000\000\010\000\000\000\010' >"$tmp/images-idx3-ubyte"
head -c 16384 "$tmp/all.tsv" >>"$tmp/images-idx3-ubyte"
# shellcheck disable=SC2059
printf "\\000\\000\\010\\001\\000\\000\\001\\000$(awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\%03o", i % 4 }')" \
    >"$tmp/labels-idx1-ubyte"
awk '{ print; if (NR % 5 == 0) print "" }' "$tmp/all.tsv" >"$tmp/text"
awk '{ print (/^[a-d]/ ? "early" : "late") "\t" $0 }' "$tmp/all.tsv" >"$tmp/labels"
tune="--batch-tokens 8192 --lr 0.001"
options_of() # TASK
{
    case $1 in
    images) echo "--task image-classification --data $tmp/images-idx3-ubyte --preset tiny --crop-padding 1" ;;
    lm) echo "--task lm --data $tmp/text --preset nano --merges 30 --context 64 --batch-tokens 8192" ;;
    labels) echo "--task classification --data $tmp/labels --preset nano --merges 30 --batch-tokens 8192" ;;
    from-translator) echo "--init $tmp/one --data $tmp/train.tsv --valid $tmp/dev.tsv $tune" ;;
    from-lm) echo "--task lm --init $tmp/lm --data $tmp/text $tune" ;;
    from-labels) echo "--task classification --init $tmp/labels.1 --data $tmp/labels $tune" ;;
    esac
}
train_task() # RANKS TASK DIRECTORY [OPTION...]: on one process for 0 ranks
{
    count=$1 task_options=$(options_of "$2") output=$3
    shift 3
    # shellcheck disable=SC2086
    if [ "$count" = 0 ]; then
        "$multihead" train $task_options --threads 1 "$@" -o "$output"
    else
        "$launcher" -n "$count" "$multihead" train $task_options --threads 1 "$@" -o "$output"
    fi
}
for task in images lm labels from-lm $([ "$size" = short ] || echo from-translator from-labels); do
    set -- --after 4u --save-freq 3u
    train_task 0 $task "$tmp/$task.1" -q "$@" || fail "$task: exit code $?"
    [ $task != lm ] || ln -s lm.1 "$tmp/lm"
    for ranks in 2 $([ "$size" = short ] || echo 3); do
        train_task $ranks $task "$tmp/$task.$ranks" "$@" 2>"$tmp/err" || fail "$task, $ranks ranks: exit code $?"
        expect "weights of $task, $ranks ranks" "$(hash_of "$tmp/$task.$ranks")" "$(hash_of "$tmp/$task.1")"
        expect "losses of $task, $ranks ranks" "$(log_of "$tmp/$task.$ranks")" "$(log_of "$tmp/$task.1")"
        case $task in images | lm)
            early=$(sed -n 's/.* \([0-9]*\) % of it while gradients were computed/\1/p' "$tmp/err")
            [ $ranks -gt 2 ] || [ "${early:-0}" -gt 0 ] ||
                fail "$task, $ranks ranks: nothing is sent while gradients are computed"
            ;;
        esac
    done
done

# Ranks that updates have no grains for are counted, and wait.
if [ "$size" != short ]; then
    for grains in 1 2; do
        # shellcheck disable=SC2086
        "$launcher" -n 3 "$multihead" train $options --batch-tokens 2048 --accumulate $grains --after 1u --threads 1 \
            -o "$tmp/grains$grains" 2>"$tmp/err" || fail "updates of $grains grains: exit code $?"
        expect "updates of $grains grains, ranks without" \
            "$(sed -n 's/.* about \([0-9]* grain\)s*, .* \([0-9]\) of 3 ranks .*/\1, \2/p' "$tmp/err")" \
            "$grains grain, $((3 - grains))"
    done
fi

# Ranks without a common file system: rank 0 alone has the data and the run.
mkdir "$tmp/here" "$tmp/there"
cp "$tmp/train.tsv" "$tmp/dev.tsv" "$tmp/here"
cp -r "$tmp/one" "$tmp/here/model"
printf '#!/bin/sh\ncd "$1" && shift && exec "$@"\n' >"$tmp/at"
chmod +x "$tmp/at"
apart() # TRAIN-OPTIONS...
{
    "$launcher" -n 1 "$tmp/at" "$tmp/here" "$multihead" train -q --threads 1 "$@" : \
        -n 1 "$tmp/at" "$tmp/there" "$multihead" train -q --threads 1 "$@"
}
# shellcheck disable=SC2086
set -- --init ./model --data train.tsv --valid dev.tsv $tune --save-freq 3u
set -- "$@" --warmup 2
(cd "$tmp/here" && "$multihead" train -q --threads 1 "$@" --after 2u -o one &&
    "$multihead" train -q --threads 1 --after 5u -o one) || fail "--init: exit code $?"
apart "$@" --after 2u -o two || fail "without a common file system: exit code $?"
apart --after 5u -o two || fail "without a common file system, resumed: exit code $?"
expect "weights without a common file system" "$(hash_of "$tmp/here/two")" "$(hash_of "$tmp/here/one")"
expect "files on rank 1" "$(ls "$tmp/there")" ""

# ---- killed ---------------------------------------------------------------------------------

# A random rank is killed at a random moment: all end, and fewer ranks resume to the same bytes and
# files.
random() { awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); print int(rand() * n) }'; }
processes_of() { pgrep -f -- "-o $1\$" | xargs -r ps -o pid=,comm= -p | awk '$2 == "multihead" { print $1 }'; }
kill_runs() # COUNT
{
    interrupted=0
    for i in $(seq "$1"); do
        directory=$tmp/killed$i
        run 3 1 "$directory" >/dev/null 2>&1 &
        started=$!
        sleep "0.$((3 + $(random 6 "$i")))$(random 10 "$((i + 100))")"
        [ $((i % 2)) -eq 0 ] || sleep "$(random 3 "$((i + 300))")"
        victim=$(processes_of "$directory" | sed -n "$((1 + $(random 3 "$((i + 200))")))p")
        if [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null; then
            interrupted=$((interrupted + 1))
        fi
        for _ in $(seq 100); do
            pgrep -f -- "-o $directory\$" >/dev/null || break
            sleep 0.1
        done
        pgrep -f -- "-o $directory\$" >/dev/null && fail "$launcher, kill $i: processes are left after 10 s"
        wait $started
        run $((1 + i % 2)) 1 "$directory" || fail "$launcher, kill $i: resuming: exit code $?"
        expect "$launcher: weights after kill $i" "$(hash_of "$directory")" "$reference"
        expect "$launcher: files after kill $i" "$(ls -A "$directory" | xargs)" "$(ls -A "$tmp/one" | xargs)"
        rm -rf "$directory"
    done
    echo "mpi: $1 runs of $launcher were started to be killed, $interrupted had not ended before"
}
case $size in short) kill_runs 1 ;; usual) kill_runs 4 ;; *) kill_runs 50 ;; esac

# ---- stopped --------------------------------------------------------------------------------

# One rank, or all as from Slurm, get SIGTERM, once something is logged: the run is saved, and the
# directory alone resumes it, on another number of ranks.
stop() # DIRECTORY [LINE]: of a run in the background, $!; LINE of its processes
{
    for _ in $(seq 600); do
        grep -qs update "$1/log.jsonl" && break
        sleep 0.02
    done
    processes_of "$1" | sed -n "${2-}p" | xargs -r kill
}
if [ "$size" != short ]; then
    directory=$tmp/stopped
    run 3 1 "$directory" >/dev/null 2>&1 &
    started=$!
    stop "$directory" 2
    wait $started
    expect "a run that was stopped: exit code" $? 5
    "$launcher" -n 2 "$multihead" train -q --threads 1 -o "$directory" || fail "resuming by -o: exit code $?"
    expect "weights of a run that was stopped" "$(hash_of "$directory")" "$reference"

    # A schedule that does not depend on --after, which ends the run soon after it was stopped.
    for task in images lm labels from-translator from-lm from-labels; do
        directory=$tmp/stopped-$task
        set -- --schedule inverse-sqrt --warmup 5
        train_task 3 $task "$directory" "$@" --after 1Mu 2>"$tmp/err" &
        started=$!
        stop "$directory"
        wait $started
        expect "$task, stopped: exit code" $? 5
        after=$(($(sed -n 's/.*saved after update \([0-9]*\).*/\1/p' "$tmp/err") + 3))u
        "$launcher" -n 2 "$multihead" train -q --threads 1 --after $after -o "$directory" ||
            fail "$task, resumed: exit code $?"
        train_task 0 $task "$tmp/long-$task" -q "$@" --after $after || fail "$task, in one: exit code $?"
        expect "weights of $task, stopped on 3 ranks and resumed on 2" "$(hash_of "$directory")" \
            "$(hash_of "$tmp/long-$task")"
    done
fi

# ---- faults ---------------------------------------------------------------------------------

# A rank whose exit code is recorded, also when the launcher ends it.
rank=$tmp/rank
cat >"$rank" <<EOF
#!/bin/sh
trap : TERM
"\$@"
code=\$?
echo \$code >>"$tmp/codes"
exit \$code
EOF
chmod +x "$rank"
ranks_of() { printf '%s\n' "$@" | awk '{ if (last == "-n") n += $1; last = $1 } END { print n }'; }
wanted=1
killed=0 # 1: by the launcher, perhaps before the code is recorded; else no rank is
ends() # WHAT PATTERN LAUNCHER-ARGUMENTS...: one line from one rank, exit code $wanted everywhere
{
    what=$1 pattern=$2
    shift 2
    rm -f "$tmp/codes"
    OMPI_MCA_orte_abort_on_non_zero_status=$killed "$launcher" "$@" >"$tmp/out" 2>&1
    code=$?
    # Open MPI has it only if it may end the others, MPICH that of a rank it has killed
    [ $killed = 0 ] || [ "$launcher" = mpirun.mpich ] || expect "$what: exit code" $code $wanted
    [ $killed = 1 ] && [ ! -e "$tmp/codes" ] ||
        expect "$what: exit codes of the ranks" "$(sort -u "$tmp/codes" | xargs)" $wanted
    [ $killed = 1 ] || expect "$what: ranks with an exit code" "$(wc -l <"$tmp/codes")" "$(ranks_of "$@")"
    expect "$what: lines" "$(grep -c '^multihead [a-z]*: ' "$tmp/out")" 1
    grep -q "^multihead [a-z]*: .*$pattern" "$tmp/out" || {
        fail "$what: no line with '$pattern'"
        cat "$tmp/out" >&2
    }
}
# shellcheck disable=SC2086
if [ "$size" != short ]; then
    set -- "$rank" "$multihead" train $options -q --threads 1 -o "$tmp/fault"
    ends "another level" "instruction-set level" -n 1 "$@" : -n 1 env MH_ISA=scalar "$@"
    ends "other options" "all ranks need the same options" -n 1 "$@" : -n 1 "$@" --seed 2
    ends "a level that a rank lacks" "rank 1: .*MH_ISA" -n 1 "$@" : -n 1 env MH_ISA=none "$@"
    ends "--data on one rank only" "rank 1 has other options (--data)" -n 1 "$@" : \
        -n 1 "$rank" "$multihead" train -q --threads 1 -o "$tmp/fault"
    ends "another --init" "rank 1 has another --init" \
        -n 1 "$rank" "$multihead" train --data "$tmp/train.tsv" $tune --init "$tmp/one" -o "$tmp/fault" : \
        -n 1 "$rank" "$multihead" train --data "$tmp/train.tsv" $tune --init "$tmp/none" -o "$tmp/fault"
    wanted=2
    ends "a mistake on the command line of rank 1" "rank 1: --seed: found 'x'" -n 1 "$@" : -n 1 "$@" --seed x
    ends "a mistake on all command lines" "--seed: found 'x'" -n 2 "$@" --seed x
    wanted=1
    mkdir "$tmp/damaged"
    cp "$tmp/one"/* "$tmp/damaged"
    head -c 1000 "$tmp/one/checkpoint.safetensors" >"$tmp/damaged/checkpoint.safetensors"
    wanted=3
    ends "a damaged checkpoint" "checkpoint.safetensors" -n 2 "$rank" "$multihead" train -q --threads 1 -o "$tmp/damaged"
    wanted=1
    # One rank after the other has no memory: large allocations only, as MPI has its own small ones.
    cc -shared -fPIC -D_GNU_SOURCE -O1 -o "$tmp/fail.so" "$here/../faults/fail_calls.c" -ldl
    wanted=4
    for failing in 0 1; do
        for n in 1 2 3 4 5 6 8 10 12 15 18 22 27 33 40 50; do
            rm -rf "$tmp/failed" "$tmp/memory"
            set -- "$multihead" train $options -q --threads 1 -o "$tmp/memory"
            preload="env LD_PRELOAD=$tmp/fail.so MH_FAIL_KIND=memory MH_FAIL_AT=$n MH_FAIL_LEAST=1000000 MH_FAIL_LOG=$tmp/failed"
            rm -f "$tmp/codes"
            if [ $failing = 0 ]; then
                set -- -n 1 "$rank" $preload "$@" : -n 1 "$rank" "$@"
            else
                set -- -n 1 "$rank" "$@" : -n 1 "$rank" $preload "$@"
            fi
            OMPI_MCA_orte_abort_on_non_zero_status=0 "$launcher" "$@" >"$tmp/out" 2>&1
            [ -e "$tmp/failed" ] || break
            codes=$(xargs <"$tmp/codes")
            [ "$codes" != "0 0" ] || continue # done with less memory
            expect "no memory, rank $failing, large allocation $n: exit codes" "$codes" "$wanted $wanted"
            expect "no memory, rank $failing, large allocation $n: lines" "$(grep -c '^multihead train: .*out of memory' "$tmp/out")" 1
        done
        expect "no memory, rank $failing: several allocations failed, then none" "$([ "$n" -gt 5 ] && [ "$n" -lt 50 ] && echo yes)" yes
    done
    wanted=1
    set -- "$rank" "$multihead" train $options -q --threads 1 -o "$tmp/fault"
    mkdir "$tmp/build"
    cp "$multihead" "$build"/libmultihead-mpi.so.0 "$tmp/build"
    echo >>"$tmp/build/multihead"
    ends "another program" "another build" -n 1 "$@" : -n 1 "$rank" "$tmp/build/multihead" train $options \
        -q --threads 1 -o "$tmp/fault"
    ends "another model" "another model" -n 1 "$rank" "$multihead" translate -m "$tmp/one" bonjour : \
        -n 1 "$rank" "$multihead" translate -m "$model" bonjour
    published=$here/../goldens/translations/marian
    cp -rL "$published" "$tmp/published"
    chmod -R u+w "$tmp/published"
    printf '\001' | dd of="$tmp/published/model.safetensors" conv=notrunc bs=1 status=none \
        seek=$(($(wc -c <"$published/model.safetensors") - 1))
    ends "other published weights" "another model" -n 1 "$rank" "$multihead" translate -m "$published" "w41 w7" : \
        -n 1 "$rank" "$multihead" translate -m "$tmp/published" "w41 w7"
    mkdir "$tmp/retokenized"
    cp "$tmp/one"/* "$tmp/retokenized"
    echo >>"$tmp/retokenized/tokenizer.json"
    ends "another tokenizer" "another model" -n 1 "$rank" "$multihead" translate -m "$tmp/one" bonjour : \
        -n 1 "$rank" "$multihead" translate -m "$tmp/retokenized" bonjour
    for option in "--beam 2" "--json" "--scores" "--dtype f32" "--alignment hard" "--disable-head cross.0.0" \
        "--length-penalty 2" "--show-attention"; do
        ends "another $option" "rank 1 has other options" -n 1 "$rank" "$multihead" translate -m "$tmp/one" bonjour : \
            -n 1 "$rank" "$multihead" translate -m "$tmp/one" $option bonjour
    done
    ends "no model on rank 1" "rank 1: -m $tmp/none" -n 1 "$rank" "$multihead" translate -m "$tmp/one" bonjour : \
        -n 1 "$rank" "$multihead" translate -m "$tmp/none" bonjour
    wanted=3
    ends "no model" "-m $tmp/none/" -n 2 "$rank" "$multihead" translate -m "$tmp/none/" bonjour
    wanted=1
    mkdir "$tmp/alone"
    cp "$multihead" "$tmp/alone"
    if [ ! -e "$("$multihead" --version >/dev/null; dirname "$multihead")/../lib/libmultihead-mpi.so.0" ]; then
        set -- "$rank" "$multihead" translate -m "$tmp/one" bonjour
        killed=1
        ends "no library" "rank 0 finds no libmultihead-mpi" -n 2 "$rank" "$tmp/alone/multihead" translate bonjour
        ends "no library on rank 0" "rank 0 finds no libmultihead-mpi" \
            -n 1 "$rank" "$tmp/alone/multihead" translate bonjour : -n 1 "$@"
        ends "no library on ranks 1 and 2" "rank 1 finds no libmultihead-mpi" \
            -n 1 "$@" : -n 2 "$rank" "$tmp/alone/multihead" translate bonjour
        killed=0
    fi
    mkdir "$tmp/small"
    if mount -t tmpfs -o size=2500k tmpfs "$tmp/small" 2>/dev/null; then
        mounted=$tmp/small
        ends "a full disk" "No space left" -n 2 "$rank" "$multihead" train $options -q --threads 1 \
            -o "$tmp/small/run"
        umount "$mounted" && mounted=
    else
        echo "skipped: mpi, a full disk: a file system cannot be mounted here"
    fi
fi

# ---- MPICH ----------------------------------------------------------------------------------

version=$("$launcher" --version | head -n 1)
if command -v mpirun.mpich >/dev/null && [ -e "$build/mpich/libmultihead-mpi.so" ]; then
    launcher=mpirun.mpich
    version="$version; MPICH"
    run 2 1 "$tmp/mpich" || fail "MPICH: exit code $?"
    expect "weights of MPICH, 2 ranks" "$(hash_of "$tmp/mpich")" "$reference"
    case $size in short) ;; usual) kill_runs 2 ;; *) kill_runs 10 ;; esac
else
    echo "skipped: mpi, MPICH: it is not installed"
fi
# shellcheck disable=SC2086
if [ "$size" != short ] && [ "$launcher" = mpirun.mpich ]; then
    set -- "$rank" "$multihead" train $options -q --threads 1 -o "$tmp/fault"
    wanted=1
    ends "MPICH: other options" "all ranks need the same options" -n 1 "$@" : -n 1 "$@" --seed 2
    ends "MPICH: a level that a rank lacks" "rank 1: .*MH_ISA" -n 1 "$@" : -n 1 env MH_ISA=none "$@"
    ends "MPICH: no model on rank 1" "rank 1: -m $tmp/none" \
        -n 1 "$rank" "$multihead" translate -m "$tmp/one" bonjour : \
        -n 1 "$rank" "$multihead" translate -m "$tmp/none" bonjour
    wanted=2
    ends "MPICH: a mistake on the command line of rank 1" "rank 1: --seed: found 'x'" -n 1 "$@" : -n 1 "$@" --seed x
    wanted=3
    ends "MPICH: a damaged checkpoint" "checkpoint.safetensors" -n 2 "$rank" "$multihead" train -q --threads 1 \
        -o "$tmp/damaged"
    wanted=1 killed=1
    [ ! -e "$tmp/alone" ] || ends "MPICH: no library on rank 1" "rank 1 finds no libmultihead-mpi" \
        -n 1 "$rank" "$multihead" translate -m "$tmp/one" bonjour : \
        -n 1 "$rank" "$tmp/alone/multihead" translate bonjour
    if [ -e "$tmp/alone" ]; then
        cp -P "$build"/libmultihead-mpi.so* "$tmp/alone"
        ends "MPICH: the library of Open MPI" "built for another MPI" \
            -n 2 "$rank" "$tmp/alone/multihead" translate bonjour
    fi
fi

[ $failed -eq 0 ] && echo "mpi: $checks checks passed ($version)"
[ $failed -eq 0 ]
