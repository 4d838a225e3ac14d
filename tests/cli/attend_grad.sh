# SPDX-License-Identifier: MIT
# Gradients and dropout from the shell, on numbers that can be checked by hand: two keys with equal
# scores, so that each weight is 1/2.
make_npy q.npy f32 1x2 0 0
make_npy k.npy f32 2x2 1 0 0 1
make_npy v.npy f32 2x1 1 3
make_npy do.npy f32 1x1 1
qkv="--q q.npy --k k.npy --v v.npy"

# out = (1 + 3) / 2; dv = 1/2 each; dS = 1/2 (v - 2), so dq = scale * dS k and dk = scale * dS q = 0
run multihead attend $qkv --scale 1 --out o.npy --grad-out do.npy --dq dq.npy --dk dk.npy --dv dv.npy
for file in o dq dk dv; do run make_npy --show $file.npy; done

# the gradient of a mask has the mask's shape; broadcast along keys it sums to 0
make_npy mask.npy f32 2 0 0
make_npy column.npy f32 1x1 0
run multihead attend $qkv --mask mask.npy --grad-out do.npy --dmask dmask.npy
run make_npy --show dmask.npy
run multihead attend $qkv --mask column.npy --grad-out do.npy --dmask dmask.npy
run make_npy --show dmask.npy

# a sink of score 0 takes a third beside two such keys: out = 4/3, and its gradient is -1/3 out
make_npy sinks.npy f32 1 0
run multihead attend $qkv --sinks sinks.npy --grad-out do.npy --dsinks dsinks.npy
run make_npy --show dsinks.npy

# dropout is a function of the seed: the same again, whatever the threads
make_npy k8.npy f32 8x2 0
make_npy v8.npy f32 8x1 1 2 3 4 5 6 7 8
run multihead attend --q q.npy --k k8.npy --v v8.npy --dropout 0.5 --seed 3 --out a.npy
run multihead attend --q q.npy --k k8.npy --v v8.npy --dropout 0.5 --seed 3 --out b.npy --threads 2
run multihead attend --q q.npy --k k8.npy --v v8.npy --dropout 0.5 --seed 4 --out c.npy
cmp a.npy b.npy && echo "same seed, same result"
cmp -s a.npy c.npy || echo "another seed, another result"
run make_npy --show a.npy
run multihead attend --q q.npy --k k8.npy --v v8.npy --dropout 0 --seed 4 --out c.npy
run make_npy --show c.npy

# mistakes
run multihead attend $qkv --out o.npy --dq dq.npy
run multihead attend $qkv --out o.npy --grad-out do.npy
run multihead attend $qkv --grad-out do.npy --dmask dmask.npy
run multihead attend $qkv --grad-out do.npy --dsinks dsinks.npy
run multihead attend $qkv --dropout 1 --out o.npy
run multihead attend $qkv --dropout x --out o.npy
run multihead attend $qkv --seed -1 --out o.npy
run multihead attend $qkv --seed 1 --out o.npy
make_npy bool.npy bool 2 1
make_npy wide.npy f32 1x2 1
run multihead attend $qkv --mask bool.npy --grad-out do.npy --dmask dmask.npy
run multihead attend $qkv --grad-out wide.npy --dq dq.npy
