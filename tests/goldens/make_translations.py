# SPDX-License-Identifier: MIT
"""Makes translations/: what transformers generates with the tiny encoder-decoders of models/.

    VENV/bin/python make_translations.py        # the same packages as make_models.py

translations/NAME/ has links to the model, a generation_config.json with rules for tokens, a tokenizer
whose token 17 is the word w17, and expected.json: per text its target ids without the start and </s>,
by greedy search and for the 3 best of a beam of 4, with their scores, log-probability / tokens.
A random model hardly ever chooses its </s>, so that another token, which it does choose, ends targets.
"""
import json
import os
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
V, LONGEST, TEXTS = 99, 20, 12

# name: class, special tokens, what the tokenizer adds before and after a text, rules beside those in config.json
MODELS = {
    "marian": ("MarianMTModel", {"</s>": 0, "<unk>": 3, "<pad>": 98}, [], ["</s>"],
               dict(bad_words_ids=[[98], [41]], renormalize_logits=True, forced_eos_token_id=0)),
    "bart": ("BartForConditionalGeneration", {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}, ["<s>"], ["</s>"],
             dict(forced_bos_token_id=0, forced_eos_token_id=2, suppress_tokens=[1, 17])),
    "t5": ("T5ForConditionalGeneration", {"<pad>": 0, "</s>": 1, "<unk>": 3}, [], ["</s>"], dict(forced_eos_token_id=1)),
}


def tokenizer(special, before, after):
    names = {i: name for name, i in special.items()}
    vocabulary = {names.get(i, f"w{i}"): i for i in range(V)}
    piece = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    single = [piece(n) for n in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [piece(n) for n in after]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": n, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, n in sorted(names.items())],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {n: {"id": n, "ids": [special[n]], "tokens": [n]} for n in before + after}},
        "decoder": None, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}}


def generate(net, ids, beams, keep):
    """Ids without the start and the end, and scores."""
    with torch.no_grad():
        out = net.generate(input_ids=torch.tensor([ids]), num_beams=beams, num_return_sequences=keep,
                           return_dict_in_generate=True, output_scores=True)
    scores = out.sequences_scores.tolist() if beams > 1 else [None] * keep
    end = net.generation_config.eos_token_id
    found = []
    for row, score in zip(out.sequences.tolist(), scores):
        row = row[1:]  # Bart starts with the token that ends
        found.append(dict(ids=row[:row.index(end)] if end in row else row, score=score))
    return found


def choose_end(net, sources):
    """The token after which targets have the most different lengths: 20 that beams contain are tried."""
    rules = net.generation_config
    seen = [i for ids in sources[:4] for found in generate(net, ids, 4, 3) for i in found["ids"]]
    excluded = {i for word in rules.bad_words_ids or [] for i in word} | set(rules.suppress_tokens or []) | {0, 1, 2}
    best = None
    for end in [i for i in dict.fromkeys(seen) if i not in excluded][:20]:
        rules.eos_token_id = rules.forced_eos_token_id = end
        lengths = [len(found["ids"]) for ids in sources for found in generate(net, ids, 4, 3)]
        different = len({n for n in lengths if n < LONGEST - 2})
        best = max(best or (0, 0), (different, end))
    return best[1]


def make(name):
    cls, special, before, after, rules = MODELS[name]
    folder, model = HERE / "translations" / name, HERE / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "model.safetensors"):
        link = folder / file
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(model / file, folder))
    base = json.loads((model / "generation_config.json").read_text())
    config = {k: v for k, v in base.items() if k.endswith("token_id")} | rules | {"max_length": LONGEST}
    (folder / "generation_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(special, before, after)) + "\n")
    net = getattr(transformers, cls).from_pretrained(folder).eval()
    generator = torch.Generator().manual_seed(7)
    words = [torch.randint(5, V - 1, (1 + i * 2 % 17,), generator=generator).tolist() for i in range(TEXTS)]
    sources = [[special[n] for n in before] + w + [special[n] for n in after] for w in words]
    end = choose_end(net, sources)
    config["eos_token_id"] = config["forced_eos_token_id"] = end
    net.generation_config.eos_token_id = net.generation_config.forced_eos_token_id = end
    (folder / "generation_config.json").write_text(json.dumps(config, indent=2) + "\n")
    cases = [dict(text=" ".join(f"w{i}" for i in w), greedy=generate(net, ids, 1, 1)[0]["ids"],
                  beam=generate(net, ids, 4, 3)) for w, ids in zip(words, sources)]
    (folder / "expected.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(name, [len(c["greedy"]) for c in cases], [[len(b["ids"]) for b in c["beam"]] for c in cases])


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in MODELS:
        make(name)
