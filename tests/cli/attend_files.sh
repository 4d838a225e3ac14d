# SPDX-License-Identifier: MIT
# Files that arrays come from: .npz beside .npy and .safetensors, and what other files are refused as.
make_npy q.npy f32 1x2x3x4 1 2 3 4 5
make_npy k.npy f32 1x1x5x4 3 1 2
make_npy v.npy f32 1x1x5x2 1 2 3 4 5 6
make_npy all.npz q.npy k.npy v.npy
make_npy --deflate small.npz q.npy k.npy v.npy
make_npy one.npz q.npy

multihead attend --q q.npy --k k.npy --v v.npy --out expected.npy
for file in all.npz small.npz; do
    run multihead attend --q $file:q --k $file:k --v $file:v --out o.npy
    cmp o.npy expected.npy && echo the same
done
run multihead attend --q one.npz --k k.npy --v v.npy --out o.npy
cmp o.npy expected.npy && echo the same
run multihead attend --q - --k k.npy --v v.npy --out o.npy <one.npz
run multihead attend --q -:q --k k.npy --v v.npy --out o.npy <all.npz
cmp o.npy expected.npy && echo the same
make_npy w.npy f32 2x3x3 0.5 0.25 0.25
make_npy w.npz w.npy q.npy
run multihead view --weights w.npz:w --width 40

# wrong names
run multihead attend --q all.npz --k k.npy --v v.npy --out o.npy
run multihead attend --q all.npz:query --k k.npy --v v.npy --out o.npy
run multihead attend --q nowhere.npz:q --k k.npy --v v.npy --out o.npy

# damaged, or something else
head -c 300 all.npz >cut.npz
run multihead attend --q cut.npz:q --k k.npy --v v.npy --out o.npy
printf '0.5,1.5\n2.5,3.5\n' >a.csv
run multihead attend --q a.csv --k k.npy --v v.npy --out o.npy
printf '(lp0\nF1.0\naF2.0\na.' >a0.pkl
run multihead attend --q a0.pkl --k k.npy --v v.npy --out o.npy
printf '\200\004\225\027\0\0\0\0\0\0\0]\224(G?\360\0\0\0\0\0\0e.' >a4.pkl
run multihead attend --q a4.pkl --k k.npy --v v.npy --out o.npy
