#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The model that ships, in PyTorch: nn.Transformer loads its weights as they are, and greedy
translations have the same tokens and, in f32, the same log-probabilities.

    check_translator.py MULTIHEAD MODEL [PAIRS.tsv]
"""
import json
import math
import pathlib
import subprocess
import sys
import warnings

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn

BOS, EOS = 1, 2
MADE_UP = ["Où est la gare ?", "Merci beaucoup.", "Je ne sais pas pourquoi elle est partie.",
           "Le chat noir dort sur la chaise."]


class Translator:
    """As src/model/translator.c has it; one sentence at a time."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        weights = {name: t.float() for name, t in load_file(folder / "model.safetensors").items()}
        self.embedding = weights.pop("embedding.weight")
        c = self.config
        with warnings.catch_warnings():  # that nested tensors are not for norm_first
            warnings.simplefilter("ignore")
            self.transformer = nn.Transformer(
                c["d_model"], c["nhead"], c["num_encoder_layers"], c["num_decoder_layers"],
                c["dim_feedforward"], activation=c["activation"], norm_first=c["norm_first"],
                batch_first=True).eval()
        self.transformer.load_state_dict(weights)  # strict: all of them, and no others

    def embed(self, ids):
        width = self.config["d_model"]
        angles = torch.arange(len(ids))[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return (self.embedding[ids] * math.sqrt(width) + positions)[None]

    def greedy(self, source, most):
        """(token ids, log-probability), </s> counted in the latter only."""
        memory = self.transformer.encoder(self.embed(source))
        ids, total = [BOS], 0.0
        while len(ids) <= most:
            mask = nn.Transformer.generate_square_subsequent_mask(len(ids))
            out = self.transformer.decoder(self.embed(ids), memory, tgt_mask=mask)
            logs = torch.log_softmax(out[0, -1] @ self.embedding.T, -1)
            logs[[0, BOS]] = -math.inf
            ids.append(int(logs.argmax()))
            total += float(logs[ids[-1]])
            if ids[-1] == EOS:
                return ids[1:-1], total
        return ids[1:], total


def main():
    multihead, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    sentences = MADE_UP
    if len(sys.argv) > 3:
        lines = pathlib.Path(sys.argv[3]).read_text().splitlines()[:60]
        sentences = [line.split("\t")[0] for line in lines]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    peer = Translator(folder)
    ours = subprocess.run([multihead, "translate", "-q", "-m", folder, "--dtype", "f32", "--beam", "1",
                           "--json", *sentences], check=True, capture_output=True, text=True)
    same, worst = 0, 0.0
    with torch.inference_mode():
        for sentence, line in zip(sentences, ours.stdout.splitlines(), strict=True):
            best = json.loads(line)["translations"][0]
            source = tokenizer.encode(sentence, add_special_tokens=False).ids + [EOS]
            ids, total = peer.greedy(source, 2 * len(source) + 20)
            if tokenizer.decode(ids) != best["text"]:
                print(f"{sentence}\n    {tokenizer.decode(ids)} ({total:.5f})\n"
                      f"    {best['text']} ({best['log_probability']:.5f})")
                continue
            same += 1
            worst = max(worst, abs(total - best["log_probability"]))
    print(f"translator: {same} of {len(sentences)} translations are PyTorch's, log-probabilities "
          f"within {worst:.1e}")
    # a tie within rounding may fall either way
    sys.exit(not (same >= 0.95 * len(sentences) and worst < 1e-3))


if __name__ == "__main__":
    main()
