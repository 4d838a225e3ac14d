# SPDX-License-Identifier: MIT
# The models that ship: sentences about which it has no doubt, so that every level says the same.
model=$(dirname "$script")/../../models/fr-en
translate() { multihead translate -m "$model" "$@"; }
run translate "Où est la gare ?" "Merci beaucoup." "Je suis fatigué." "Tom parle français."
run translate --beam 1 "Le chat noir dort." ""
(cd /; run multihead translate "Merci beaucoup.") # without -m
(cd /; run multihead translate -m fr-en "Merci beaucoup.")
# "loan" is two tokens: by the time it is there, as many poorer ones are finished as the beam has
run translate "La banque a approuvé le prêt hier."
printf 'Bonjour !\n\nElle est partie.\n' | translate
# as it is typeset, or pasted: no-break blanks, U+2019, tabs
printf 'O\303\271 est la gare\302\240?\nL\342\200\231homme est l\303\240.\nMerci\t beaucoup.\n' | translate
printf 'Le chat noir dort.\n' | translate --alignment hard | tr '\t' '|'
translate --json --n-best 2 "Je t'aime." | check_json
translate --disable-head cross.0.0 "Merci beaucoup."
for layer in enc.1 cross.0; do # a layer is all its heads
    translate --scores --disable-head $layer "Le chat noir dort." >layer.txt
    translate --scores --disable-head $layer.0 --disable-head $layer.1 --disable-head $layer.2 \
        --disable-head $layer.3 "Le chat noir dort." | cmp - layer.txt
    translate --scores "Le chat noir dort." | cmp -s - layer.txt && echo "$layer changes nothing"
done
run translate --disable-head enc.9.0 "Merci."
translate --dtype f32 --trace-out trace.safetensors --page page.html "Je suis fatigué."
grep -c '<title>' page.html
multihead view --trace trace.safetensors -o again.html && echo "the trace shows again"
# the other direction, and the note on a text that needs it
reverse=$(dirname "$model")/en-fr
run multihead translate -m "$reverse" "Thank you very much." "Tom speaks French." | sed '1d'
multihead translate -m "$reverse" "I am tired." | grep -c fatigu
multihead translate -m "$reverse" "Le chat dort." 2>&1 >/dev/null
translate "The cat sleeps." 2>&1 >/dev/null
# the examples of `serve`, with the first of which its page begins
multihead translate -m "$reverse" "The black cat sleeps on the chair." "Where is the nearest station?" \
    "She has lost the keys of her car." "The bank approved the loan yesterday."
translate "Le chat noir dort sur le vieux tapis."
# the language model: what holds for any weights of it
lm=$(dirname "$model")/en-lm
multihead info -m "$lm" | sed -n '1,3p'
multihead generate -m "$lm" --json -n 12 "The cat sat on the" >greedy.txt
multihead generate -m en-lm --json -n 12 "The cat sat on the" | cmp - greedy.txt && check_json <greedy.txt
multihead generate -m "$lm" --threads 1 --json -n 12 "The cat sat on the" | cmp - greedy.txt && echo "the same with one thread"
multihead generate -m "$lm" --temperature 0.8 --seed 5 -n 40 "Once upon a time" >sampled.txt
multihead generate -m "$lm" --temperature 0.8 --seed 5 -n 40 "Once upon a time" | cmp - sampled.txt && echo "the same with the same seed"
[ "$(wc -w <sampled.txt)" -ge 8 ] && echo "many words"
# a newline is a token of its own
multihead look -m "$lm" --layer 0 --head 0 "I am.
You are." | grep -c "^ *↵"
multihead generate -m "$lm" -n 1 --show-attention "I am.
You are." | grep -q "Ċ" || echo "no letter for a newline"
# pictures
vit=$(dirname "$model")/fashion-vit
pictures=$(dirname "$script")/../../examples/pictures
multihead classify -m "$vit" --top 1 "$pictures/trousers.pgm" | awk 'NR == 2 {print $2, ($1 > 0.5)}'
multihead look -m "$vit" --width 90 "$pictures/shirt.pgm" | sed -n '1,3p'
multihead look -m "$vit" --page picture.html "$pictures/shirt.pgm" && grep -c '"picture":{"height":28,"width":28,"rows":7,"columns":7' picture.html
# the same directory as a model
multihead info -m "$model" | sed -n '1,4p;/tokenizer/p'
multihead embed -m "$model" --pooling none "L’homme dort." | awk '{print $1, $NF}'
multihead embed -m "$model" --similarity "L’homme dort." "L'homme  dort." "Merci beaucoup." |
    awk 'NR == 2 {print $3}'
multihead look -m "$model" --trace-out look.safetensors "Je suis fatigué."
cmp look.safetensors trace.safetensors && echo "look traces what translate does"
