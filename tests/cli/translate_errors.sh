# SPDX-License-Identifier: MIT
# `multihead translate`: what it refuses.
mkdir model
make_model model 5

# usage
run multihead translate -m model --input in.txt "le chat"
run multihead translate -m model --beam 0 x
run multihead translate -m model --beam 2 --n-best 3 x
run multihead translate -m model --length-penalty nan x
run multihead translate -m model --length-penalty 11 x
run multihead translate -m model --max-length-factor=-1 x
run multihead translate -m model --alignment fuzzy x
run multihead translate -m model --dtype f16 x
run multihead translate -m model --disable-head enc. x
run multihead translate -m model --disable-head both.0.1 x
run multihead translate -m model --disable-head enc.0.1x x
run multihead translate -m model --disable-head dec.2.0 x
run multihead translate -m model --disable-head dec.2 x
run multihead translate -m model --disable-head cross.0.4 x
run multihead translate -m model --alignment hard --alignment-layer 2 x
run multihead translate -m model --alignment-layer 1 x

# the model
run multihead translate -m nowhere/model x
mkdir empty broken
run multihead translate -m empty x
cp model/* broken
head -c 1000 model/model.safetensors >broken/model.safetensors
run multihead translate -m broken x
printf '{"format": 1}' >broken/config.json
run multihead translate -m broken x
mkdir bert # with as many labels as a model of ImageNet has
awk 'BEGIN {
    printf "{\n  \"architectures\": [\"BertForSequenceClassification\"],\n  \"id2label\": {"
    for (i = 0; i < 1000; i++)
        printf "%s\"%d\": \"LABEL_%d\"", i ? ", " : "", i, i
    print "},\n  \"model_type\": \"bert\",\n  \"num_attention_heads\": 12\n}"
}' >bert/config.json
run multihead translate -m bert x
run multihead serve -m bert --port 0

# texts
printf 'le chat\nb\303(d\n' >bad.txt
run multihead translate -m model --input nowhere.txt
run multihead translate -m model --input bad.txt
run multihead translate -m model "$(printf 'b\303(d')" | sed 's/^\$.*/$ multihead translate -m model .../'
multihead translate -m model <bad.txt 2>message >out.txt
echo "exit $?, lines: $(wc -l <out.txt)"
cat message

# the output
echo before >out.txt
remember out.txt
run multihead translate -m model --input bad.txt -o out.txt
untouched out.txt
run multihead translate -m model -o nowhere/out.txt x

# a full disk: what is not read yet is not translated
yes "le chat" | multihead translate -m model --beam 1 --max-length-factor 0 2>&1 >/dev/full
echo "exit $?"
