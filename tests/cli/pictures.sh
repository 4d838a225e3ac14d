# SPDX-License-Identifier: MIT
# multihead classify, embed, look and info on small models with random weights that read pictures.
goldens=$(dirname "$script")/../goldens
for name in vit deit dinov2 clip; do cp -r "$goldens/models/$name" .; done
cp "$goldens/pictures/rgb.ppm" "$goldens/pictures/gray.pgm" "$goldens/pictures/small.ppm" .
scalar="--isa scalar --threads 1"
short() { sed 's/\([0-9][.][0-9]\{4\}\)[0-9]*/\1/g'; }

run multihead classify -m vit $scalar rgb.ppm gray.pgm
run multihead classify -m deit $scalar --top 1 small.ppm
run multihead classify -m dinov2 $scalar --json rgb.ppm | short
multihead classify -m vit --json rgb.ppm | check_json input labels
printf 'rgb.ppm\ngray.pgm\n' | multihead classify -m vit $scalar --top 1
for i in 1 2 3 4 5 6 7 8 9 10 11; do cp small.ppm $i.ppm; done
multihead classify -m vit $scalar --top 1 [1-9]*.ppm | uniq -c | sed 's/^ *//' | grep -v ppm | sort | uniq -c | sed 's/^ *//'

# What can be read is classified
printf 'P6 9 9 255\nabc' >short.ppm
echo "no picture" >text.png
run multihead classify -m vit $scalar --top 1 short.ppm rgb.ppm text.png missing.ppm
run multihead classify -m vit text.png
name=$(printf 'caf\351.ppm') && cp rgb.ppm "$name" # not UTF-8
multihead classify -m vit --json "$name" missing.ppm gray.pgm | sed 's/, "labels.*//'
multihead look -m vit "$name" --page page.html && echo "a page"

# Files that are no picture, or none that is accepted
printf 'P6 100000 100000 255\n' >bomb.ppm
printf 'P6 0 0 255\n' >none.ppm
printf 'P5 9999999999999999 1 255\n' >wide.pgm
printf 'P6 -9 9 255\n' >negative.ppm
mkdir folder && mkfifo pipe && : >nothing.png && ln -s loop.png loop.png
for file in bomb.ppm wide.pgm none.ppm negative.ppm folder pipe nothing.png loop.png /dev/zero; do
    run multihead classify -m vit $file
    for command in look embed; do
        multihead $command -m vit ./$file >$command.out 2>&1 && echo "$command took $file"
    done
done
printf 'P5 1 60000 255\n' >thin.pgm && head -c 60000 /dev/zero >>thin.pgm
cat >clip/preprocessor_config.json <<X
{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}, "crop_size": 16}
X

# CLIP: texts and pictures
cat >clip/tokenizer.json <<X
{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
 "pre_tokenizer": {"type": "Whitespace"}, "decoder": null,
 "post_processor": {"type": "BertProcessing", "sep": ["<end>", 98], "cls": ["<start>", 97]},
 "model": {"type": "WordLevel", "unk_token": "?",
           "vocab": {"?": 0, "a": 1, "cat": 2, "dog": 3, "ship": 4, "<start>": 97, "<end>": 98}}}
X
run multihead info -m clip
run multihead classify -m clip $scalar --labels "a cat, a dog,ship" rgb.ppm small.ppm
run multihead classify -m clip rgb.ppm
run multihead classify -m clip --labels "a cat,,a dog" rgb.ppm
run multihead classify -m vit --labels "a cat" rgb.ppm
run multihead classify -m clip $scalar --labels a,ship thin.pgm rgb.ppm
run multihead embed -m clip $scalar --similarity rgb.ppm "a cat" gray.pgm
run multihead embed -m clip $scalar "a dog"
run multihead embed -m clip missing.PNG
run multihead embed -m dinov2 $scalar --pooling mean rgb.ppm
run multihead embed -m vit --pooling none rgb.ppm
run multihead look -m vit $scalar --layer 0 --head 1 rgb.ppm
run multihead look -m vit $scalar rgb.ppm --patch 3,2 --width 30
run multihead look -m vit rgb.ppm --patch 4,0
run multihead look -m vit rgb.ppm --patch 3
run multihead look -m vit rgb.ppm --patch 3,2 --page p.html
run multihead look -m clip $scalar --layer 1 --head 2 "a cat"
run multihead look -m clip --patch 0,0 "a cat"
multihead look -m deit $scalar rgb.ppm --page page.html --trace-out trace.safetensors && grep -c '' page.html >/dev/null && echo "a page"
multihead view --trace trace.safetensors --layer 1 --head 0 --width 100 | tail -4
run multihead look -m vit --link a,b rgb.ppm
run multihead look -m vit rgb.ppm gray.pgm
run multihead look -m vit
run multihead look -m clip
run multihead classify -m vit --pair x rgb.ppm

# Wrong configurations
echo '{"image_processor_type": "LevitImageProcessor"}' >vit/preprocessor_config.json
run multihead classify -m vit rgb.ppm
echo '{"size": {"shortest_edge": 0}, "image_processor_type": "ViTImageProcessor"}' >vit/preprocessor_config.json
run multihead classify -m vit rgb.ppm
echo '{"size": 16, "image_mean": [0.5, "x", 0.5]}' >vit/preprocessor_config.json
run multihead classify -m vit rgb.ppm
echo '{"do_center_crop": true, "crop_size": 65535}' >vit/preprocessor_config.json
run multihead classify -m vit rgb.ppm
echo '{"rescale_factor": 1e300}' >vit/preprocessor_config.json
run multihead classify -m vit --json rgb.ppm gray.pgm
run multihead embed -m vit --similarity --json rgb.ppm gray.pgm
sed -i 's/"patch_size": 4/"patch_size": 400/' deit/config.json
run multihead classify -m deit rgb.ppm
run multihead fill -m dinov2 "a [MASK]"
run multihead generate -m clip "a cat"
