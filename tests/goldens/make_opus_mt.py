# SPDX-License-Identifier: MIT
"""Makes opus_mt_cases.tsv and opus_mt_dev.tsv: what transformers translates with opus-mt-fr-en.

    VENV/bin/pip install torch==2.13.0 transformers==5.23.0 sentencepiece
    VENV/bin/python make_opus_mt.py MODEL [DEV.tsv]

MODEL is the folder that tools/fetch_models.py makes. opus_mt_cases.tsv has a line for each of CASES:
source, greedy search, a beam of 4, and the score of that (log-probability / tokens). With the
development set of $MH_TEST_DATA/tatoeba-fra-eng, opus_mt_dev.tsv has greedy search and a beam of 4 for
its first 1,000 lines. Everything else is as generation_config.json has it.
"""
import pathlib
import sys

import torch
from transformers import MarianMTModel, MarianTokenizer

HERE = pathlib.Path(__file__).parent
LINES, BATCH = 1000, 16
CASES = [
    "Où est la gare ?",
    "Bonjour, je voudrais un café et deux croissants, s'il vous plaît.",
    "Le petit chat dort sur le canapé pendant que les enfants jouent dehors.",
    "La Banque centrale européenne a relevé ses taux d'intérêt de 0,25 % en 2023.",
    "« Ce n'est pas grave », dit-elle en souriant.",
    "L’homme qu’elle a rencontré hier s’appelle Étienne.",
    "Je pense, donc je suis.",
    "Quel temps fait-il à Lyon aujourd'hui ?",
    "Si j'avais su que tu viendrais, j'aurais préparé un gâteau au chocolat.",
    "Les résultats de l'expérience n'ont pas été confirmés par d'autres équipes.",
    "Il pleut des cordes…",
    "Merci !",
]


def translate(model, tokenizer, texts, beams):
    """Texts and scores in the order given; batches of similar length."""
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    found = [None] * len(texts)
    for first in range(0, len(texts), BATCH):
        batch = order[first:first + BATCH]
        inputs = tokenizer([texts[i] for i in batch], return_tensors="pt", padding=True)
        with torch.no_grad():
            out = model.generate(**inputs, num_beams=beams, output_scores=beams > 1, return_dict_in_generate=True)
        scores = out.sequences_scores.tolist() if beams > 1 else [0.0] * len(batch)
        decoded = tokenizer.batch_decode(out.sequences, skip_special_tokens=True)
        for i, text, score in zip(batch, decoded, scores):
            found[i] = (text, score)
    return found


def main(model_path, dev=None):
    torch.set_num_threads(1)
    tokenizer = MarianTokenizer.from_pretrained(model_path)
    model = MarianMTModel.from_pretrained(model_path).eval()
    greedy, beam = (translate(model, tokenizer, CASES, beams) for beams in (1, 4))
    lines = [f"{s}\t{g}\t{b}\t{score:.4f}\n" for s, (g, _), (b, score) in zip(CASES, greedy, beam)]
    (HERE / "opus_mt_cases.tsv").write_text("".join(lines))
    if not dev:
        return
    sources = [line.split("\t")[0] for line in pathlib.Path(dev).read_text().splitlines()[:LINES]]
    greedy, beam = (translate(model, tokenizer, sources, beams) for beams in (1, 4))
    (HERE / "opus_mt_dev.tsv").write_text("".join(f"{g}\t{b}\n" for (g, _), (b, _) in zip(greedy, beam)))


if __name__ == "__main__":
    main(*sys.argv[1:])
