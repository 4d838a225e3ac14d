# SPDX-License-Identifier: MIT
# A stranger's tour: what tutorials on multi-head attention show, each with the one command that
# shows it. Numbers at random are those of one level, so that their last digit is everybody's.
trace="--trace --no-times --isa scalar"
stop() { echo "-- $*"; }

stop "1 softmax(Q K^T / sqrt(d_k)) V"
run multihead attend --random 3x4 --trace --isa scalar
stop "2 why divide by sqrt(d_k)"
multihead attend --random 8x16x64 --scale 1 --trace --isa scalar | grep -A 3 "Why scores"
stop "3 additive and boolean masks"
make_npy tril.npy bool 3x3 1 0 0 1 1 0 1 1 1
make_npy add.npy f32 3x3 0 -inf -inf 0 0 -inf 0 0 0
multihead attend --random 3x4 --mask tril.npy --out a.npy
multihead attend --random 3x4 --mask add.npy --out b.npy
cmp a.npy b.npy && echo "masked_fill(mask == 0, -inf) is --mask"
run multihead mha --embed-dim 4 --heads 2 --random 1x3 --attn-mask tril.npy
stop "4 nn.MultiheadAttention(512, 8) on (10, 32, 512)"
run multihead mha --embed-dim 512 --heads 8 --random 32x10
multihead mha --embed-dim 512 --heads 8 --random 32x10 $trace | grep "(10, 32, 512)"
stop "5 the same with one head"
multihead mha --embed-dim 512 --heads 1 --random 32x10 $trace | grep "1 head "
stop "6 (30, 5, 1024) to 512, with shapes"
multihead mha --input-dim 1024 --embed-dim 512 --heads 8 --qkv interleaved --random 30x5 $trace |
    sed -n '/^step/,/^output/p' | cut -c 1-45
stop "7, 8 weights of each head; the names that tutorials give to parameters"
make_npy tutorial.safetensors W_q.weight f32 2x2 1 0 0 1 + W_k.weight f32 2x2 1 0 0 1 + \
    W_v.weight f32 2x2 1 0 0 1 + W_o.weight f32 2x2 1 0 0 1
run multihead mha -m tutorial.safetensors --heads 2 --random 2x10 --batch-first --per-head
stop "9 embed_dim 4, two heads, in numbers"
multihead mha --embed-dim 4 --heads 2 --random 1x5 $trace --values | sed -n '/^Values/,/^$/p'
stop "10 an encoder layer and a stack"
multihead encoder --d-model 4 --nhead 2 --random 1x3 $trace --values | grep -E "^(Add|feed|  Layer)"
multihead encoder --d-model 4 --nhead 2 --layers 2 $trace | grep -E "^(nn|layer)"
stop "11 a decoder: masked self-attention, cross-attention"
multihead decoder --d-model 4 --nhead 2 --random 1x3 --memory 1x5 $trace |
    grep -E "^(cross|  mask|  softmax)"
stop "12 translation"
run multihead translate -m fr-en "Où est la gare ?"
stop "13, 14 heatmaps of the tutorials' sentences"
for text in "The cat that I saw yesterday ran away." "The bank approved the loan yesterday." \
    "The quick brown fox jumps"; do
    multihead look -m en-fr "$text" --kind encoder --layer 0 --head 1 --isa scalar | sed 1,3d |
        grep -E '█|▓'
done
run multihead translate -m en-fr "The bank approved the loan yesterday."
run multihead translate -m fr-en "La banque a approuvé le prêt hier."
stop "15 which head ties cat to ran?"
multihead look -m en-fr "The cat that I saw yesterday ran away." --link cat,ran --isa scalar |
    head -n 2
stop "16 each head's output, concatenated, W^O"
multihead mha --embed-dim 4 --heads 2 --random 1x5 $trace --values |
    grep -E "output|concatenated|after Wo"
stop "17 if one head fails, others compensate"
run multihead translate -m en-fr --disable-head enc.0.1 "The bank approved the loan yesterday."
stop "15 what heads attend to over many sentences; 18 why several heads, measured"
printf 'The cat that I saw yesterday ran away.\nThe bank approved the loan yesterday.\n' >text.txt
multihead heads -m en-fr --input text.txt --isa scalar | grep "^0.1 .*next"
multihead heads --compare 1,4 --steps 100 --isa scalar
stop "17 how much each head is missed, in numbers and as a picture"
printf '%s\t%s\n' "The cat that I saw yesterday ran away." "Le chat que j'ai vu hier s'est enfui." \
    "The bank approved the loan yesterday." "La banque a approuvé le prêt hier." >pairs.tsv
multihead heads -m en-fr --input pairs.tsv --ablate --isa scalar --threads 1 | sed -n 3,5p
multihead heads -m en-fr --input pairs.tsv --ablate --isa scalar --svg ablation.svg
grep -o '>Increase[^<]*' ablation.svg
multihead heads -m en-lm --input text.txt --ablate --isa scalar | grep -c '^loss'
stop "19 sizes of known models"
for preset in BERT-Base bert_base bert-large gpt-2 GPT2-large gpt3 ViT-B/16 whisper-tiny; do
    echo "$preset: $(multihead info --preset $preset | sed -n '1s/^model *//p')"
done
run multihead info --preset gpt-5
stop "20, 21, 22 text, pictures and speech"
run multihead generate -m en-lm --seed 1 --temperature 0.6 --top-p 0.9 -n 12 --isa scalar "The cat"
awk 'BEGIN { print "P2 28 28 255"
    for (y = 0; y < 28; y++) for (x = 0; x < 28; x++)
        print (y > 1 && y < 26 && x > 8 && x < 19 && (y < 8 || x < 13 || x > 14)) ? 200 : 0 }' >trousers.pgm
run multihead classify -m fashion-vit --top 1 --isa scalar trousers.pgm
multihead look -m fashion-vit --layer 3 --head 0 --isa scalar trousers.pgm | head -n 5
for command in fill classify transcribe; do
    multihead $command --help | sed -n '/^  multihead/{p;q}'
done
stop "23 parallel, long range"
multihead bench attention --shape 1,2,2,64,64,16 --dtype f32 --pass forward 2>&1 | grep -c "forward"
stop "words of tutorials that are no commands"
for word in attention softmax multi-head transformer heatmap explain chat gpt bert whisper vit \
    translation encode bleu; do
    multihead $word 2>&1 | head -n 1
done
