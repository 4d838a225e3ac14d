# SPDX-License-Identifier: MIT
# multihead transcribe, and look over sound, with small models that write the same whatever they hear.
for name in speaks repeats hums; do mkdir $name && make_whisper $name $name; done
scalar="--isa scalar --threads 1"

# le VALUE BYTES: a little-endian number; wav RATE CHANNELS BITS SECONDS: a hum
le() { for i in $(seq 0 $(($2 - 1))); do printf "\\$(printf %03o $(($1 >> (8 * i) & 255)))"; done; }
wav() {
    frame=$(($2 * $3 / 8)) bytes=$(($1 * $4 * $2 * $3 / 8))
    printf 'RIFF'; le $((bytes + 36)) 4; printf 'WAVEfmt '; le 16 4; le 1 2; le $2 2; le $1 4; le $(($1 * frame)) 4
    le $frame 2; le $3 2; printf 'data'; le $bytes 4
    yes hum | head -c $bytes
}
wav 16000 1 16 10 >talk.wav
wav 44100 2 24 4 >stereo.wav
wav 7777 1 8 4 >odd.wav
wav 16000 1 16 0 >empty.wav
wav 16000 1 16 45 >long.wav

run multihead transcribe -m speaks $scalar talk.wav
run multihead transcribe -m speaks $scalar --format srt talk.wav
run multihead transcribe -m speaks $scalar --format vtt talk.wav
multihead transcribe -m speaks $scalar --format tsv talk.wav | tr '\t' '|'
multihead transcribe -m speaks $scalar --format json talk.wav | sed 's/"compression_ratio": [0-9.]*, //g; s/\([0-9]\.[0-9][0-9]\)[0-9]*/\1/g'
multihead transcribe -m speaks --json --word-times talk.wav | check_json input language duration segments
name=$(printf 'caf\351.wav') && cp talk.wav "$name" # not UTF-8, as JSON has to be
multihead transcribe -m speaks --json "$name" | check_json && multihead transcribe -m speaks --json "$name" | cut -c 1-30
multihead transcribe -m speaks $scalar --word-times talk.wav | sed 's/^\[[^]]*\]/[...]/'
multihead transcribe -m speaks $scalar --word-times --format srt talk.wav | sed 's/^00:.* --> .*/.../' | head -8
mkdir marks && make_whisper marks marks
for format in text srt vtt tsv; do multihead transcribe -m marks $scalar --format $format talk.wav | tr '\t' '|'; done
run multihead transcribe -m speaks $scalar --no-timestamps talk.wav
run multihead transcribe -m speaks $scalar --beam 3 talk.wav
run multihead transcribe -m speaks $scalar --no-context long.wav

# Files that can be read are transcribed; those that cannot are reported.
head -c 30 talk.wav >short.wav
run multihead transcribe -m speaks $scalar stereo.wav missing.wav odd.wav short.wav empty.wav
run multihead transcribe -m speaks $scalar --format srt missing.wav empty.wav
run multihead transcribe -m speaks --format srt talk.wav odd.wav
run multihead transcribe -m speaks $scalar --format srt --out-dir . talk.wav ./stereo.wav missing.wav
cat stereo.srt
run multihead transcribe -m speaks --format vtt --out-dir nowhere talk.wav
run multihead transcribe -m speaks --format vtt --out-dir . talk.wav files/talk.mp3
multihead transcribe -m speaks --json talk.wav missing.wav odd.wav empty.wav | sed 's/"segments.*//'
run multihead transcribe -m speaks $scalar --raw 8000 --channels 2 odd.wav
tail -c +45 talk.wav | multihead transcribe -m speaks $scalar --raw 16000 -
multihead transcribe -m speaks $scalar - <talk.wav
head -c 120044 talk.wav >cut.wav
run multihead transcribe -m speaks $scalar cut.wav

# Files that are no sound, or none that is accepted
wav 10000000 1 16 0 >fast.wav
wav 16000 64 16 1 >wide.wav
wav 16000 1 32 0 >nan.wav && printf '\003' | dd of=nan.wav bs=1 seek=20 conv=notrunc 2>dd.log
head -c 8000 /dev/zero | tr '\000' '\377' >>nan.wav
wav 16000 0 16 0 >none.wav
mkdir folder && : >nothing.wav && ln -s loop.wav loop.wav
{ head -c 44 talk.wav; printf 'hu'; } >sample.wav
for file in fast.wav nan.wav none.wav folder nothing.wav loop.wav /dev/zero; do
    run multihead transcribe -m speaks $file
    multihead look -m speaks $file >look.out 2>&1 && echo "look took $file"
done
run multihead transcribe -m speaks $scalar wide.wav sample.wav
run multihead look -m speaks sample.wav

# Repetition is tried again at higher temperatures, and silence skipped.
multihead transcribe -m repeats $scalar --json talk.wav | grep -o '"temperature": [0-9.]*'
multihead transcribe -m repeats $scalar --json --no-fallback talk.wav | grep -o '"temperature": [0-9.]*'
run multihead transcribe -m hums $scalar talk.wav
run multihead transcribe -m hums $scalar -q talk.wav

# Languages: detected or given, translated; characters are words where there are no spaces
for name in french japanese; do mkdir $name && make_whisper $name $name; done
told() { sed 's/.*"language": \("[a-z]*"\).*"text": \("[^"]*"\), "tokens": \[\([0-9]*\),.*/\1 \2 \3/'; }
multihead transcribe -m french $scalar --json talk.wav | told
multihead transcribe -m french $scalar --json --language fr talk.wav | told
multihead transcribe -m french $scalar --json --language German talk.wav | told
multihead transcribe -m french $scalar --json --task translate talk.wav | told
run multihead transcribe -m french --language yue talk.wav
multihead transcribe -m japanese $scalar --word-times talk.wav | sed 's/^\[[^]]*\]/[...]/'
multihead transcribe -m japanese $scalar --word-times --language en talk.wav | sed 's/^\[[^]]*\]/[...]/'

# Attention over time
run multihead look -m speaks $scalar --layer 1 --head 0 --width 60 --target "the cat" long.wav
run multihead look -m speaks $scalar --page page.html --trace-out trace.safetensors talk.wav
multihead view --trace trace.safetensors --layer 0 --head 1 --width 170 | awk 'NR < 9 || /slept/ { print substr($0, 1, 15) }'
run multihead look -m speaks --begin 11 talk.wav
run multihead look -m speaks --begin -1 talk.wav
run multihead look -m speaks --link a,b talk.wav
run multihead look -m speaks --kind encoder talk.wav
run multihead look -m speaks --patch 0,0 talk.wav
run multihead look -m speaks --layer 2 talk.wav
run multihead look -m speaks --target "" talk.wav
run multihead look -m speaks missing.wav
run multihead look -m speaks
run multihead look -m speaks talk.wav long.wav

# Commands for texts and pictures say what reads sound.
multihead info -m speaks | grep can
for command in embed heads fill generate classify; do run multihead $command -m speaks talk.wav; done
run multihead embed -m speaks --pooling none "a text"
run multihead translate -m speaks "a text"
run multihead heads -m speaks --ablate "a text"

# Options of OpenAI's program
mkdir subtitles
run multihead transcribe -m speaks $scalar --output_format srt --output_dir subtitles --word_timestamps talk.wav
grep -c -- "-->" subtitles/talk.srt

# Errors
run multihead transcribe -m speaks
run multihead transcribe -m speaks --channels 2 talk.wav
run multihead transcribe -m speaks --format doc talk.wav
run multihead transcribe -m speaks --language fr talk.wav talk.wav
run multihead transcribe -m speaks --language klingon talk.wav
run multihead transcribe -m speaks --task translate talk.wav
run multihead transcribe -m speaks --beam 65 talk.wav
multihead transcribe -m speaks --prompt "$(printf '\377')" talk.wav
echo '{"alignment_heads": [[0, 1], [2, 0]]}' >speaks/generation_config.json
run multihead transcribe -m speaks talk.wav
echo '{"begin_suppress_tokens": [50256], "suppress_tokens": [258]}' >speaks/generation_config.json
run multihead transcribe -m speaks $scalar talk.wav
rm speaks/words.tiktoken
run multihead transcribe -m speaks talk.wav
cp -r "$(dirname "$script")"/../goldens/models/bert-mlm .
run multihead transcribe -m bert-mlm talk.wav
