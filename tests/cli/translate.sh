# SPDX-License-Identifier: MIT
# `multihead translate`: what it prints, from arguments, files and standard input. The model says
# nonsense, but at one instruction-set level always the same.
mkdir model
make_model model 5
scalar="--isa scalar --threads 1"
bars() { run "$@" | tr '\t' '|'; } # tabs as bars, so that one sees them
run multihead translate -m model $scalar "le chat est beau"
bars multihead translate -m model $scalar --scores "le chat" "" "the cat"
bars multihead translate -m model $scalar --beam 1 --scores "le chat"
bars multihead translate -m model $scalar --n-best 3 --scores "le chat" "le tapis"
run multihead translate -m model $scalar --length-penalty 0 --max-length-factor 0.5 "le chat"
bars multihead translate -m model $scalar --alignment hard "le chat est beau"
bars multihead translate -m model $scalar --alignment soft "le chat est beau"
bars multihead translate -m model $scalar --alignment hard --alignment-layer 1 "le chat est beau"
bars multihead translate -m model $scalar --disable-head enc.0.1 --disable-head cross.1.3 --scores "le chat"
run multihead translate -m model $scalar --json --alignment hard "le \"chat\""
run multihead translate -m model $scalar --json --alignment soft --n-best 2 ""
multihead translate -m model --json --n-best 2 --alignment soft "le chat" "beau" | check_json

# A translation that is given is scored; the search's own has the score of the search.
bars multihead translate -m model $scalar --target "the cat" "le chat"
bars multihead translate -m model $scalar --target "the cat" --scores --alignment hard "le chat"
run multihead translate -m model $scalar --target "" --json "le chat"
run multihead translate -m model $scalar --target "the cat" "le" "chat"
run multihead translate -m model $scalar --target "the cat" --beam 2 "le chat"

# The same lines, whichever way they come, with any batch and any number of threads.
printf 'le chat\n\nle tapis est beau\r\n  the mat \nil dort' >in.txt
run multihead translate -m model $scalar --input in.txt
multihead translate -m model $scalar --input in.txt >expected.txt
multihead translate -m model $scalar <in.txt | cmp - expected.txt && echo "from standard input"
multihead translate -m model --isa scalar --threads 3 --batch 1 --input in.txt | cmp - expected.txt &&
    echo "one at a time, three threads"
run multihead translate -m model $scalar --input in.txt -o out.txt
cmp out.txt expected.txt && echo "to a file"
multihead translate -m model $scalar --input in.txt -o - | cmp - expected.txt && echo "to standard output"
run multihead translate -m model $scalar --input /dev/null
multihead translate -m model --dtype bf16 "le chat" >bf16.txt && echo "bf16"

# A byte order mark is not part of the first line.
multihead translate -m model $scalar "le chat" >plain.txt
printf '\357\273\277le chat\n' >marked.txt
multihead translate -m model $scalar --input marked.txt | cmp - plain.txt && echo "no mark"
multihead translate -m model $scalar <marked.txt | cmp - plain.txt && echo "no mark"

# Nor is the carriage return of a file from Windows.
printf 'le chat\r\n' >windows.txt
multihead translate -m model $scalar --json --input windows.txt | grep -o '"source": "[^"]*"'
multihead translate -m model $scalar --json <windows.txt | grep -o '"source": "[^"]*"'

# Texts in another language than that of the model's name give one note.
cp -r model made-fr-en
run multihead translate -m made-fr-en $scalar "The cat is on the mat." "It is on it."
run multihead translate -m made-fr-en $scalar -q "The cat is on the mat."
run multihead translate -m made-fr-en $scalar "le chat est sur le tapis"
cp -r model opus-mt-fr-en-v2
run multihead translate -m opus-mt-fr-en-v2 $scalar "Close the window!"
run multihead translate -m opus-mt-fr-en-v2 $scalar "кот спит"
cp -r model other
sed -i 's/  "activation"/  "source_language": "en",\n  "target_language": "fr",\n&/' other/config.json
run multihead translate -m other $scalar "Le chat dort."
run multihead translate -m other $scalar "The cat sleeps."
mkdir snapshot
cp -r model/* snapshot
sed -i 's/"en"/"fr"/; s/"activation"/"source_language": "de",\n  &/' snapshot/config.json
run multihead translate -m snapshot $scalar "The cat sleeps."

# A line is answered before the next one comes.
mkfifo lines
multihead translate -m model $scalar <lines >answers.txt &
exec 3>lines
echo "le chat" >&3
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -s answers.txt ] && break
    sleep 0.5
done
head -n 1 expected.txt | cmp - answers.txt && echo "at once"
exec 3>&-
wait
