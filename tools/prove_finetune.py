#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fine-tuning beats training from nothing: all-MiniLM-L6-v2 as a classifier of the topics of short texts.

    prove_finetune.py MULTIHEAD MODEL    # MODEL: the directory of all-MiniLM-L6-v2

A text is a sentence that says nothing about its topic, with one word that does. The test has sentences of its own, with
words of the training, which show that both models have learnt, and with new ones, which only a model that has met them
elsewhere can tell. Both have the same layers, tokenizer, data and number of epochs; two seeds. Prints accuracies; exit
status 1 if with any seed fine-tuning is not better by 20 points on new words, or training from nothing not by 20 points
better than chance on known ones.
"""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

EPOCHS, SEEDS, BETTER = 10, (1, 2), 20
WORDS = {
    "animals": "dog cat horse cow goat lion tiger bear mouse eagle duck salmon | sheep rabbit wolf elephant owl shark",
    "food": "bread cheese soup rice pasta butter salad pizza sausage pancake honey omelette | "
            "sandwich noodles cake steak yogurt pie",
    "music": "guitar piano violin song opera drummer choir melody trumpet concert jazz flute | "
             "orchestra cello symphony singer ballad saxophone",
    "weather": "rain snow storm fog thunder sunshine hail breeze frost drizzle heatwave cloud | "
               "blizzard lightning hurricane drought tornado sleet",
    "money": "bank loan tax salary debt invoice mortgage profit investor dividend budget coin | "
             "wage refund stock banknote pension creditor",
    "sport": "football tennis goal referee marathon swimmer stadium athlete boxing cyclist golf champion | "
             "basketball hockey goalkeeper sprinter rugby tournament",
}
SENTENCES = ["We talked about the {} yesterday.", "She told me a long story about a {}.", "What do you know about {}?",
             "There was a picture of a {} on the first page.", "He wrote three lines about {} and left.",
             "I have not thought of {} for years."]
TEST_SENTENCES = ["Have you ever read about the {}?", "My neighbour wants to write a book on {}."]
# all-MiniLM-L6-v2's, for the model that begins with nothing
SIZES = "--d-model 384 --layers 6 --heads 12 --ff 1536".split()


def texts_of(words, sentences):
    """Pairs of a topic and a text."""
    return [(topic, sentence.format(word)) for topic, part in words.items() for word in part for sentence in sentences]


def make_data():
    """Pairs for training, then for the test: with the words of the training, and with new ones."""
    known, new = ({topic: words.split("|")[i].split() for topic, words in WORDS.items()} for i in (0, 1))
    lines = texts_of(known, SENTENCES)
    random.Random(7).shuffle(lines)
    return lines, texts_of(known, TEST_SENTENCES), texts_of(new, SENTENCES + TEST_SENTENCES)


def accuracy(program, folder, test):
    """The percentage of texts whose likeliest label is their topic."""
    texts = "".join(text + "\n" for _, text in test)
    found = subprocess.run([program, "classify", "-m", folder, "--json", "--top", "1"], input=texts, check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    right = [json.loads(line)["labels"][0]["label"] == topic for line, (topic, _) in zip(found, test, strict=True)]
    return 100 * sum(right) / len(right)


def train(program, data, output, seed, *options):
    """One run, without validation data."""
    subprocess.run([program, "train", "-q", "--task", "classification", "--data", data, "--hold-out", "0",
                    "--batch-tokens", "512", "--after", f"{EPOCHS}e", "--seed", str(seed), *options, "-o", output], check=True)
    return output


def main():
    """Returns 1 if training from nothing is as good."""
    program, model = sys.argv[1:]
    lines, known, new = make_data()
    print(f"{len(lines)} texts of {len(WORDS)} topics, {EPOCHS} epochs; chance is {100 / len(WORDS):.1f} %")
    right = True
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "train.tsv").write_text("".join(f"{topic}\t{text}\n" for topic, text in lines))
        for seed in SEEDS:
            runs = {"fine-tuned": ["--init", model, "--lr", "1e-4"],
                    "from nothing": [*SIZES, "--tokenizer", f"{model}/tokenizer.json", "--lr", "3e-4"]}
            scores = {}
            for what, options in runs.items():
                output = train(program, folder / "train.tsv", folder / f"{what} {seed}", seed, *options)
                scores[what] = accuracy(program, output, known), accuracy(program, output, new)
                print(f"seed {seed}, {what:<12}: known words {scores[what][0]:5.1f} %, new words {scores[what][1]:5.1f} %",
                      flush=True)
            right &= scores["fine-tuned"][1] >= scores["from nothing"][1] + BETTER
            right &= scores["from nothing"][0] >= 100 / len(WORDS) + BETTER
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
