# SPDX-License-Identifier: MIT
# What `multihead attend` computes: numbers that can be checked by hand, for every option.
make_npy q.npy f32 1x2x3x4 1 0 0 0 0 1 0 0 0 0 1 0
make_npy k.npy f32 1x1x3x4 8 0 0 0 0 8 0 0 0 0 8 0
make_npy v.npy f32 1x1x3x2 1 2 3 4 5 6
qkv="--q q.npy --k k.npy --v v.npy"

# 4-D, with weights and lse: score 4 on the diagonal, 0 elsewhere
run multihead attend $qkv --out o.npy --weights w.npy --lse l.npy
run make_npy --show o.npy
run make_npy --show w.npy
run make_npy --show l.npy

# - is standard output
multihead attend $qkv --out - >stdout.npy
cmp o.npy stdout.npy && echo "same as o.npy"

# ranks
make_npy q2.npy f32 2x4 1 0 0 0 0 1 0 0
make_npy k2.npy f32 3x4 8 0 0 0 0 8 0 0 0 0 8 0
make_npy v2.npy f32 3x2 1 2 3 4 5 6
run multihead attend --q q2.npy --k k2.npy --v v2.npy --out o2.npy --weights w2.npy --lse l2.npy
run make_npy --show o2.npy
run make_npy --show w2.npy
run make_npy --show l2.npy
make_npy q3.npy f32 2x3x4 1 0 0 0 0 1 0 0 0 0 1 0
run multihead attend --q q3.npy --k k.npy --v v.npy --out o3.npy --lse l3.npy
run make_npy --show o3.npy
run make_npy --show l3.npy

# masks
weights() {
    run multihead attend --q q2.npy --k k2.npy --v v2.npy --out o.npy --weights w.npy "$@"
    make_npy --show w.npy
}
make_npy bool.npy bool 2x3 1 0 1 0 1 1
make_npy int.npy i64 2x3 7 0 -1 0 1 1
make_npy row.npy bool 3 1 1 0
make_npy add.npy f32 2x3 0 -inf 0 -inf 0 0
make_npy add64.npy f64 2x3 0 -1e300 0 -inf -inf -1e300
make_npy zero_one.npy f32 2x3 1 0 1 0 1 1
make_npy none.npy bool 2x3 0 0 0 1 1 1
weights --mask bool.npy
weights --mask int.npy
weights --mask row.npy
weights --mask add.npy
weights --mask add64.npy
weights --mask zero_one.npy
weights --mask zero_one.npy -q
weights --mask none.npy
weights --mask none.npy --empty-row nan
make_npy --show o.npy
weights --causal top-left
weights --causal bottom-right
weights --window=0,1
weights --window -1,0 --causal bottom-right
make_npy lengths.npy i32 1 2
weights --kv-lengths lengths.npy

# scores
make_npy sinks.npy f32 1 4
weights --scale 0
weights --scale=-0.25
weights --softcap 2
weights --softcap 0
weights --alibi --scale 0
weights --sinks sinks.npy

# types
make_npy q16.npy f16 2x4 1 0 0 0 0 1 0 0
make_npy k64.npy f64 3x4 8 0 0 0 0 8 0 0 0 0 8 0
make_npy all.safetensors q bf16 2x4 1 0 0 0 0 1 0 0 + k f16 3x4 8 0 0 0 0 8 0 0 0 0 8 0 \
    + v:1 f32 3x2 1 2 3 4 5 6
run multihead attend --q q16.npy --k k64.npy --v v2.npy --out o.npy
cmp o.npy o2.npy && echo "same as o2.npy"
run multihead attend --q all.safetensors:q --k all.safetensors:k --v all.safetensors:v:1 --out o.npy
cmp o.npy o2.npy && echo "same as o2.npy"
for type in f32 bf16 f16; do
    run multihead attend --q q16.npy --k k64.npy --v v2.npy --dtype $type --out o.npy -q
    make_npy --show o.npy
done

# a colon in a path, and a file that holds only one tensor
cp q2.npy odd:name.npy
make_npy one.safetensors only f32 3x4 8 0 0 0 0 8 0 0 0 0 8 0
run multihead attend --q odd:name.npy --k one.safetensors --v v2.npy --out odd:out.npy
cmp odd:out.npy o2.npy && echo "same as o2.npy"

# the output may be an input; one thread and two give the same
cp q2.npy io.npy
run multihead attend --q io.npy --k k2.npy --v v2.npy --out io.npy --threads 2
cmp io.npy o2.npy && echo "same as o2.npy"

# inputs that are not mapped: standard input, a tensor in it, a pipe
multihead attend --q - --k k2.npy --v v2.npy --out - <q2.npy | cmp - o2.npy && echo "same as o2.npy"
multihead attend --q q2.npy --k -:only --v v2.npy --out - <one.safetensors | cmp - o2.npy &&
    echo "same as o2.npy"
mkfifo pipe
cat q2.npy >pipe &
multihead attend --q pipe --k k2.npy --v v2.npy --out - | cmp - o2.npy && echo "same as o2.npy"
rm pipe

# nothing to attend to
make_npy k0.npy f32 0x4 0
make_npy v0.npy f32 0x2 0
make_npy q0.npy f32 0x4 0
run multihead attend --q q2.npy --k k0.npy --v v0.npy --out o.npy --lse l.npy --weights w.npy
run make_npy --show o.npy
run make_npy --show l.npy
run make_npy --show w.npy
run multihead attend --q q0.npy --k k2.npy --v v2.npy --out o.npy
run make_npy --show o.npy

# what would run
multihead attend $qkv --explain | cut -c 1-14 | grep '[a-z]'
multihead attend $qkv --explain --json | check_json
multihead attend $qkv --explain --out explained.npy >/dev/null && run make_npy --show explained.npy

# one of two ranks that share this machine has half the threads, unless it has CPUs of its own
threads() { env "$@" multihead attend $qkv --explain | sed -n 's/.* of \([0-9]*\) threads,.*/\1/p'; }
all=$(threads) half=$((all > 1 ? all / 2 : 1)) two="SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2(x1)"
[ "$(env -u OMP_NUM_THREADS nproc)" -eq "$(getconf _NPROCESSORS_ONLN)" ] || half=$all
for rank in "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2" "PMIX_RANK=1 $two"; do
    [ "$(threads $rank)" -eq $half ] && echo "shared: ${rank%%=*}"
done
ls -a | sort
