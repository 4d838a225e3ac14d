# SPDX-License-Identifier: MIT
# Every way in which `multihead attend` can go wrong: the message, the exit code, and that what
# was there before is left alone.
make_npy q.npy f32 1x2x3x4 1 2 3 4 5
make_npy k.npy f32 1x1x5x4 3 1 2
make_npy v.npy f32 1x1x5x2 1 2 3 4 5 6
qkv="--q q.npy --k k.npy --v v.npy"
make_npy o.npy f32 1 42
remember o.npy

# usage
run multihead attend
run multihead attend --q q.npy --k k.npy --out o.npy
run multihead attend $qkv
run multihead attend $qkv --out
run multihead attend $qkv --out o.npy extra
run multihead attend $qkv --out o.npy --quux
run multihead attend $qkv --out o.npy --causal
run multihead attend $qkv --out o.npy --causal left
run multihead attend $qkv --out o.npy --dtype f64
run multihead attend $qkv --out o.npy --empty-row one
run multihead attend $qkv --out o.npy --window=3
run multihead attend $qkv --out o.npy --window=3,
run multihead attend $qkv --out o.npy --window=3,4,5
run multihead attend $qkv --out o.npy --window=-2,1
run multihead attend $qkv --out o.npy --window=99999999999999999999,1
run multihead attend $qkv --out o.npy --scale=1x
run multihead attend $qkv --out o.npy --scale=
run multihead attend $qkv --out o.npy --scale=" 1"
run multihead attend $qkv --out o.npy --scale=nan
run multihead attend $qkv --out o.npy --scale=1e39
run multihead attend $qkv --out o.npy --softcap=-1
run multihead attend $qkv --out o.npy --softcap=1e-50
run multihead attend $qkv --out o.npy --softcap=inf
run multihead attend $qkv --out o.npy --threads 0
run multihead attend $qkv --out o.npy --threads 2x
run multihead attend $qkv --out o.npy --threads 99999
run multihead attend $qkv --out o.npy --json
run multihead attend $qkv --out o.npy --lse o.npy
run multihead attend $qkv --out - --explain
multihead attend $qkv --out o.npy --isa sse9 2>&1 | sed 's/one of:.*/one of: .../'
untouched o.npy

# files that are not there, or are not what they should be
mkdir folder
printf 'hello' >text.npy
printf '' >empty.npy
head -c 100 q.npy >short.npy
make_npy set.safetensors q f32 1x2x3x4 1 + k f32 1x1x5x4 2
run multihead attend --q nowhere.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q nowhere.safetensors:q --k k.npy --v v.npy --out o.npy
run multihead attend --q folder --k k.npy --v v.npy --out o.npy
run multihead attend --q text.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q empty.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q short.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q q.npy:x --k k.npy --v v.npy --out o.npy
run multihead attend --q set.safetensors --k k.npy --v v.npy --out o.npy
run multihead attend --q set.safetensors:x --k k.npy --v v.npy --out o.npy

multihead attend --q - --k - --v v.npy --out o.npy <q.npy 2>&1
echo "exit $?"
multihead attend --q - --k k.npy --v v.npy --out o.npy </dev/null 2>&1
multihead attend --q - --k k.npy --v v.npy --out o.npy <&- 2>&1


# a file that is cut off after it was opened: --k is opened after it, and waits for whoever writes it
make_npy cut.npy f32 1x2x3x4 1 2 3
mkfifo pipe
multihead attend --q cut.npy --k pipe --v v.npy --out o.npy >message 2>&1 &
exec 3>pipe
: >cut.npy
cat k.npy >&3
exec 3>&-
wait $!
echo "exit $?"
cat message
rm pipe message

# types and shapes
make_npy int.npy i32 1x2x3x4 1
make_npy row.npy f32 4 1
make_npy five.npy f32 1x1x2x3x4 1
make_npy wide.npy f32 1x1x5x3 1
make_npy batch.npy f32 2x1x5x4 1
make_npy heads.npy f32 1x3x5x4 1
make_npy heads_v.npy f32 1x3x5x2 1
make_npy wide_v.npy f32 1x1x5x2000 1
make_npy keys.npy f32 1x1x6x2 1
make_npy groups.npy f32 1x2x5x2 1
run multihead attend --q int.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q row.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q five.npy --k k.npy --v v.npy --out o.npy
run multihead attend --q q.npy --k wide.npy --v v.npy --out o.npy
run multihead attend --q q.npy --k batch.npy --v v.npy --out o.npy
run multihead attend --q q.npy --k heads.npy --v v.npy --out o.npy
run multihead attend --q q.npy --k heads.npy --v heads_v.npy --out o.npy
run multihead attend --q q.npy --k k.npy --v wide_v.npy --out o.npy
run multihead attend --q q.npy --k k.npy --v keys.npy --out o.npy
run multihead attend --q q.npy --k k.npy --v groups.npy --out o.npy
make_npy mask.npy bool 3x4 1
make_npy long.npy i32 1 6
make_npy negative.npy i32 1 -1
make_npy two.npy i32 2 1 2
make_npy float.npy f32 1 1
make_npy sinks.npy f32 3 1
run multihead attend $qkv --mask mask.npy --out o.npy
run multihead attend $qkv --mask five.npy --out o.npy
run multihead attend $qkv --mask nowhere.npy --out o.npy
run multihead attend $qkv --kv-lengths long.npy --out o.npy
run multihead attend $qkv --kv-lengths negative.npy --out o.npy
run multihead attend $qkv --kv-lengths two.npy --out o.npy
run multihead attend $qkv --kv-lengths float.npy --out o.npy
run multihead attend $qkv --sinks sinks.npy --out o.npy
run multihead attend $qkv --sinks two.npy --out o.npy
untouched o.npy

# more memory than there can be: 2^80 weights
make_npy tall.npy f32 1099511627776x0 1
run multihead attend --q tall.npy --k tall.npy --v tall.npy --out o.npy --weights w.npy
untouched o.npy

# outputs that cannot be written
run multihead attend $qkv --out nowhere/o.npy
run multihead attend $qkv --out folder
run multihead attend $qkv --out new.npy --weights nowhere/w.npy --lse l.npy
run multihead attend $qkv --out /dev/full
ls -a | sort
