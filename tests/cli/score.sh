# SPDX-License-Identifier: MIT
# `multihead score`: what it prints, from files and standard input, and what it refuses.
printf 'The cat sat on the mat.\nIt is 3.5 degrees, is it not?\n' >hyp.txt
printf 'The cat is on the mat.\nIt is 3,5 degrees, no?\n' >ref.txt
printf 'A cat sat on a mat\nIt is 3.5 degrees\n' >other.txt
run multihead score --ref ref.txt hyp.txt
run multihead score --ref ref.txt --metric all --width 4 hyp.txt
run multihead score --ref ref.txt --ref other.txt --metric bleu --width 2 hyp.txt
run multihead score --ref ref.txt --metric chrf --lowercase hyp.txt
run multihead score --ref hyp.txt --metric chrf++ --width 0 hyp.txt
run multihead score --ref ref.txt --json hyp.txt
multihead score --ref ref.txt --metric all --json hyp.txt | check_json
multihead score --ref ref.txt <hyp.txt | cut -c 1-5
multihead score --ref - hyp.txt <ref.txt | cut -c 1-5
printf 'The cat sat on the mat.\nIt is 3.5 degrees, is it not?' >bare.txt
multihead score --ref ref.txt bare.txt >bare.out
multihead score --ref ref.txt hyp.txt | cmp - bare.out && echo "the last newline does not matter"

# usage
run multihead score
run multihead score hyp.txt
run multihead score --ref ref.txt hyp.txt extra
run multihead score --ref - <hyp.txt
run multihead score --ref ref.txt --metric ter hyp.txt
run multihead score --ref ref.txt --width 16 hyp.txt
run multihead score --ref ref.txt --width=-1 hyp.txt

# files
mkdir folder
printf '' >empty.txt
printf 'one line only\n' >short.txt
printf 'good\nb\303(d\n' >broken.txt
run multihead score --ref nowhere.txt hyp.txt
run multihead score --ref ref.txt nowhere.txt
run multihead score --ref folder hyp.txt
run multihead score --ref ref.txt empty.txt
run multihead score --ref empty.txt hyp.txt
run multihead score --ref ref.txt --ref short.txt hyp.txt
run multihead score --ref broken.txt hyp.txt
run multihead score --ref ref.txt - <broken.txt
gzip -c ref.txt >ref.txt.gz
run multihead score --ref ref.txt.gz hyp.txt
