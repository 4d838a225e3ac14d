# SPDX-License-Identifier: MIT
# `multihead train --task lm`: what a run says, text from several files and from standard input. Figures
# are left out: they depend on the instruction-set level.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    printf 'The cat sat on the mat.\n\nA dog ran in the park.\n\nThe cat ran.\nThe dog sat.\n\n'
done >a.txt
sed 's/park/garden/' a.txt >b.txt
sed 's/mat/sofa/' a.txt >c.txt
options="--task lm --d-model 32 --heads 2 --layers 2 --ff 64 --context 16 --merges 40 --isa scalar --dtype f32 --threads 1"
few="--lr 0.01 --after 40u --valid-freq 20u"
figures() { sed 's/[0-9][0-9]*\.[0-9e+-]*/N/g; s/N*K tokens\/s  .* left/.../; s/sample: .*/sample: .../; s/, [0-9:]*): loss/): loss/'; }

# A slow run says more often how far it is, which is left out.
multihead train $options $few --data a.txt --data b.txt --data c.txt -o run 2>&1 |
    sed '/%  loss .*  update [1-3]\{0,1\}[0-9]  /d' | figures
ls run
sed -n '/^## Validation/,$p' run/README.md | figures
grep -c valid_loss run/log.jsonl
multihead generate -m run -n 4 "The cat" >/dev/null && echo "it generates"

# The same text, whichever way it comes.
multihead train -q $options $few --data a.txt b.txt c.txt -o arguments
cmp run/model.safetensors arguments/model.safetensors && echo "the same from arguments"
cat a.txt b.txt c.txt | multihead train -q $options $few --data - -o piped
cmp run/model.safetensors piped/model.safetensors && echo "the same from standard input"
gzip -k b.txt
multihead train -q $options $few --data a.txt b.txt.gz --data c.txt -o order
cmp -s run/model.safetensors order/model.safetensors || echo "another order"
sed 's|^/.*/|/|' arguments/command.txt | tail -4
multihead train -q --after 44u -o arguments && echo "resumed with all files"
run multihead train -q --after 44u -o piped

# A long run says how long, at once.
env --default-signal=INT multihead train $options --data a.txt --after 90Mu -o long 2>messages &
for i in $(seq 600); do # at most
    grep -q 'to go' messages && break
    sleep 0.1
done
kill -s INT $!
wait $!
echo "exit $?"
sed -n 's/[0-9][0-9.e-]*/N/g; /to go/p' messages

# So does a message to a closed pipe.
{
    env --default-signal=PIPE multihead train $options --data a.txt --after 1Mu --valid-freq 20u -o piped-messages 2>&1
    echo "exit $?" >code
} | head -1 >/dev/null
cat code
ls piped-messages/checkpoint.safetensors

# What cannot work.
multihead train $options --data a.txt --lr 1e-7 --after 2u -o useless 2>&1 | grep -v update | figures
multihead train --after 4u -o useless 2>&1 | grep 'rate is'
head -4 a.txt >short.txt
multihead train $options --data short.txt --context 256 --after 2u -o short 2>&1 | grep -v update | figures
printf 'id,text\n1,"The cat, and a dog."\n2,"They ran."\n' >table.csv
multihead train $options --data a.txt table.csv --after 2u -o table 2>&1 | grep CSV
run multihead train -q $options --data a.txt nowhere.txt -o nowhere
run multihead train -q --data a.txt b.txt -o pairs
run multihead train --data a.txt -o pairs
