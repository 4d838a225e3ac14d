# SPDX-License-Identifier: MIT
"""Makes minilm_expected.safetensors: embeddings of all-MiniLM-L6-v2, as sentence-transformers has them.

    python3 ../../tools/fetch_models.py minilm
    VENV/bin/python make_minilm.py DIR                # packages of make_models.py; DIR is the model
    VENV/bin/python make_minilm.py DIR --tsv dev.tsv --lines 1000 --out E.npy     # any other texts

Mean of the last hidden states over the tokens, then L2 norm 1. The model runs in float64, each text
on its own; texts are cut into at most 256 tokens with [CLS] and [SEP] (sentence_bert_config.json).
Tensors: lengths (N) I64, ids (sum of lengths) I64, embeddings (N, 384) F32; the metadata entry
"texts" is a JSON list, "error" the f32 run's "max rms" against float64. --tsv takes the last column
of each line and writes the f32 embeddings of float64 runs to a .npy.
"""
import argparse
import json
import pathlib

import numpy
import torch
from make_models import rms, sort_header
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import BertModel

TEXTS = [
    "A man is eating food.", "Someone is having a meal.", "A man is eating a piece of bread.", "The girl is carrying a baby.",
    "A cheetah is running behind its prey.", "The bank approved the loan.", "We sat down on the river bank.",
    "Hello", "", "?", "a", "Multi-head attention lets a model attend to several positions at once.",
    "D\u00e9j\u00e0 vu: the na\u00efve fa\u00e7ade of an \u00e9l\u00e8ve.", "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001f600 emoji are unknown \U0001f680",
    "Antidisestablishmentarianism, floccinaucinihilipilification!", "3.14159 + 2.71828 = 5.85987",
    "IT'S ALL CAPS, ISN'T IT?", "tabs\tand\nnew lines", "http://example.com/a?b=c&d=e#f [MASK] [SEP]",
    "The quick brown fox jumps over the lazy dog. " * 40,
]


def embed(net, ids):
    with torch.no_grad():
        hidden = net(input_ids=torch.tensor([ids])).last_hidden_state[0]
    mean = hidden.mean(0)
    return mean / mean.norm()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--tsv", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(json.loads((options.model / "sentence_bert_config.json").read_text())["max_seq_length"])
    net = BertModel.from_pretrained(options.model, attn_implementation="eager").eval()
    texts = TEXTS
    if options.tsv:
        lines = options.tsv.read_text(encoding="utf-8").splitlines()
        texts = [line.split("\t")[-1] for line in lines[:options.lines]]
    ids = [tokenizer.encode(text).ids for text in texts]
    single = torch.stack([embed(net, i) for i in ids])
    net.double()
    double = torch.stack([embed(net, i) for i in ids])
    error = f"{(single - double).abs().max():.3e} {rms(single - double):.3e}"
    print(f"{len(texts)} texts, f32 error max and RMS {error}, cosine of the first two {double[0] @ double[1]:.6f}")
    if options.out:
        numpy.save(options.out, double.float().numpy())
    if options.tsv:
        return
    path = pathlib.Path(__file__).parent / "minilm_expected.safetensors"
    save_file({"lengths": torch.tensor([len(i) for i in ids]), "ids": torch.tensor(sum(ids, [])),
               "embeddings": double.float()}, path, {"texts": json.dumps(texts), "error": error})
    sort_header(path)


if __name__ == "__main__":
    main()
