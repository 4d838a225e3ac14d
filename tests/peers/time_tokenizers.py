# SPDX-License-Identifier: MIT
"""Times encoding, one text per line, on one thread, by CPU time: ours and the tokenizers
package.

    time_tokenizers.py PEER_TOKENIZERS TEXT...       files of lines; prints MB per second and ratios
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizer_files  # noqa: E402

SECONDS = 2.0


def theirs(encode, lines, size):
    best = None
    start = time.process_time()
    while time.process_time() - start < SECONDS:
        begin = time.process_time()
        encode(lines)
        took = time.process_time() - begin
        best = took if best is None or took < best else best
    return size / best / 1e6


def main():
    peer, files = sys.argv[1], sys.argv[2:]
    folder = pathlib.Path(tempfile.mkdtemp())
    text = "\n".join(pathlib.Path(f).read_text(encoding="utf-8").strip("\n") for f in files)
    (folder / "text").write_text(text, encoding="utf-8")
    lines = text.split("\n")
    train = lines[::2]
    built = {"wordpiece (bert)": tokenizer_files.wordpiece(train, True, 20000),
             "unigram (t5)": tokenizer_files.unigram(train, size=16000),
             "bpe with byte fallback (llama-2)": tokenizer_files.llama2(train, 16000)}
    family = tokenizer_files.byte_level_family(train)
    built.update({f"byte-level bpe ({n})": family[n] for n in ("gpt2", "llama-3", "qwen2")})
    worst = None
    for name, tokenizer in built.items():
        path = str(folder / "tokenizer.json")
        tokenizer.save(path)
        run = subprocess.run([peer, "time", path, str(folder / "text"), str(SECONDS)], stdout=subprocess.PIPE, check=True)
        ours = float(run.stdout.split()[0])
        size = len(text.encode())
        other = theirs(tokenizer.encode_batch, lines, size)
        fast = theirs(tokenizer.encode_batch_fast, lines, size)  # without offsets, which ours has
        worst = min(worst or 1e9, ours / max(other, fast))
        print(f"{name}: {ours:.1f} MB/s, tokenizers {other:.1f} MB/s, ratio {ours / other:.2f}; "
              f"without offsets {fast:.1f} MB/s, ratio {ours / fast:.2f}")
    return worst < 1


if __name__ == "__main__":
    sys.exit(main())
