# SPDX-License-Identifier: MIT
"""Models of `multihead train` in transformers: a GPT-2 and a Llama, each trained and then fine-tuned with --init, give the
same log-probabilities, and a classifier the same probabilities. So do models that transformers has made, with random
weights in f32 and f16, and `multihead train --init` has fine-tuned; and the language model that ships, whose logits are
compared, too. Not RoBERTa, whose padding token must be 1: tests/cli/train_init.sh has it.

    check_trained.py MULTIHEAD MODEL    # MODEL: models/en-lm
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

MOST_APART = 2e-4
PROMPT = "The cat sat"
SIZES = "--d-model 32 --heads 4 --layers 2 --ff 64 --merges 60 --dtype f32 -q".split()
LINES = ["The cat sat on the mat.", "A dog ran in the park.", "The dog sat.", "A cat ran away."]


# Of transformers: config and model class, and sizes; grouped heads and an odd feed-forward width, which ours do not have.
WIDE = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 72}
MADE = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", dict(WIDE, num_key_value_heads=2, max_position_embeddings=64)),
    **{name: (f"{kind}Config", f"{kind}ForCausalLM", dict(WIDE, num_key_value_heads=2, max_position_embeddings=64, **more))
       for name, kind, more in (("mistral", "Mistral", {"sliding_window": 8}), ("qwen2", "Qwen2", {}),
                                ("qwen3", "Qwen3", {"head_dim": 8}), ("gemma2", "Gemma2", {"head_dim": 8}))},
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", dict(WIDE, max_position_embeddings=64)),
    "bert": ("BertConfig", "BertModel", dict(WIDE, max_position_embeddings=64)),
    "distilbert": ("DistilBertConfig", "DistilBertModel",
                   {"n_layers": 2, "dim": 32, "n_heads": 4, "hidden_dim": 72, "max_position_embeddings": 64}),
}


CLASSIFIERS = "bert", "distilbert"


def run(*words):
    """What a command prints."""
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def check(what, apart):
    """Reports a difference; False if it is too large."""
    print(f"{what:<24} {apart:.2e} apart")
    return apart <= MOST_APART


def check_lm(program, folder, what, prompt=PROMPT):
    """Log-probabilities of the greedy continuation, by both."""
    ours = json.loads(run(program, "generate", "-m", folder, "-n", 12, "--json", "--dtype", "f32", prompt))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).float().eval()
    prompt = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        table = model(torch.tensor([prompt + ours["ids"]])).logits[0].float().log_softmax(-1)
    theirs = [float(table[len(prompt) - 1 + i, token]) for i, token in enumerate(ours["ids"])]
    return check(what, max(abs(a - b) for a, b in zip(ours["logprobs"], theirs)))


def check_labels(program, folder, what):
    """Probabilities of texts that have different lengths."""
    texts = ["The cat is here.", "A dog"]
    found = [json.loads(line) for line in run(program, "classify", "-m", folder, "--json", *texts).splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        table = model(**tokenizer(texts, return_tensors="pt", padding=True)).logits.float().softmax(-1)
    return check(what, max(abs(label["probability"] - float(row[model.config.label2id[label["label"]]]))
                                       for line, row in zip(found, table) for label in line["labels"]))


def make_model(name, dtype, tokenizer, folder):
    """A model with random weights, saved by transformers, with a tokenizer of ours."""
    config_class, model_class, sizes = MADE[name]
    torch.manual_seed(5)
    vocabulary = len(AutoTokenizer.from_pretrained(tokenizer))
    ends = {} if name in CLASSIFIERS else {"bos_token_id": 2, "eos_token_id": 2}
    config = getattr(transformers, config_class)(vocab_size=vocabulary, pad_token_id=0, **ends, **sizes)
    getattr(transformers, model_class)(config).to(dtype).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / file, folder / file)


def check_made(program, folder, name, dtype):
    """A model of transformers, fine-tuned here."""
    language = name not in CLASSIFIERS
    first, second = folder / f"{name}-{dtype}", folder / f"{name}-{dtype}-tuned"
    make_model(name, dtype, folder / ("gpt2" if language else "classifier"), first)
    run(program, "train", "--task", "lm" if language else "classification", "--init", first, "--data",
        folder / ("text" if language else "labels"), "--after", "10u", "--lr", 0.01, "-q", "--dtype", "f32", "-o", second)
    what = f"{name} in {str(dtype)[6:]}"
    return check_lm(program, second, what) if language else check_labels(program, second, what)


def main():
    """Returns 1 if any model differs."""
    program, right = sys.argv[1], True
    for prompt in (PROMPT, "Once upon a time there was"):
        right &= check_lm(program, sys.argv[2], "en-lm", prompt)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "text").write_text("\n\n".join(LINES * 30))
        (folder / "labels").write_text("".join(f"{'dog' if 'dog' in line else 'cat'}\t{line}\n" for line in LINES * 30))
        for arch in ("gpt2", "llama"):
            first, second = folder / arch, folder / (arch + "-tuned")
            run(program, "train", "--task", "lm", "--arch", arch, "--data", folder / "text", "--context", 16, "--lr", 0.01,
                "--after", "30u", *SIZES, "-o", first)
            run(program, "train", "--task", "lm", "--init", first, "--data", folder / "text", "--after", "5u", "-q",
                "--dtype", "f32", "-o", second)
            right &= check_lm(program, first, arch) and check_lm(program, second, arch + ", fine-tuned")
        run(program, "train", "--task", "classification", "--data", folder / "labels", "--lr", 0.01, "--after", "30u", *SIZES,
            "-o", folder / "classifier")
        right &= check_labels(program, folder / "classifier", "classification")
        for name in MADE:
            for dtype in (torch.float32, torch.float16):
                right &= check_made(program, folder, name, dtype)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
