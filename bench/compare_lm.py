# SPDX-License-Identifier: MIT
"""Trains the same language model by `multihead train --task lm` and by PyTorch, and compares what they have learnt.

Bytes of a text (by default Tiny Shakespeare of $MH_TEST_DATA), a GPT-2 of a few layers, the same initial weights,
updates, batches of as many tokens, AdamW and learning rates; the order of the batches is each one's own. It alone
changes the loss on the held-out text by some hundredths, so that means over several seeds are compared: they may differ
by 0.02 per character, or the exit status is 1. The ratio of their speeds is printed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from tokenizers import Tokenizer

from compare_run import cpu_model, say, tame_onednn

ROOT = Path(__file__).resolve().parent.parent
MOST_APART = 0.02
SIZES = {"width": 128, "heads": 4, "layers": 4, "context": 128}
RATE, WARMUP_PART, DECAY, BETAS, EPSILON, CLIP = 2e-3, 10, 0.1, (0.9, 0.95), 1e-9, 1.0


class Block(nn.Module):
    """One of GPT-2's blocks; names and layouts are those of its files, matrices as (in, out)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Matrix(width, 3 * width), Matrix(width, width)
        self.mlp.c_fc, self.mlp.c_proj = Matrix(width, 4 * width), Matrix(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.attn.c_attn(self.ln_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.attn.c_proj(heads.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp.c_proj(functional.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class Matrix(nn.Module):
    """x W + b."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, columns))
        self.bias = nn.Parameter(torch.empty(columns))

    def forward(self, x):
        return functional.linear(x, self.weight.t(), self.bias)


class Model(nn.Module):
    """A GPT-2 with tied embeddings."""

    def __init__(self, vocabulary, width, heads, layers, context):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte, self.transformer.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.transformer.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.transformer.ln_f = nn.LayerNorm(width)

    def loss(self, ids, wanted):
        """The mean over tokens."""
        at = self.transformer
        x = at.wte(ids) + at.wpe.weight[:ids.shape[1]]
        for block in at.h:
            x = block(x)
        logits = functional.linear(at.ln_f(x), at.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def documents(text):
    """The documents, and how many of them are for training: the last hundredth of the bytes is not."""
    whole = text.encode()
    found, lines = [], []
    for line in whole.split(b"\n") + [b""]:
        if line.strip(b" \t\r"):
            lines.append(line)
        elif lines:
            found.append(b"\n".join(lines))
            lines = []
    held, size = 0, 0
    while held + 1 < len(found) and size < 0.01 * len(whole):
        held += 1
        size += len(found[-held])
    return found, len(found) - held


def stream(parts, tokenizer):
    """Ids of </s>, and of each document and </s>."""
    end = tokenizer.token_to_id("</s>")
    ids = [end]
    for part in parts:
        ids += tokenizer.encode(part.decode(), add_special_tokens=False).ids + [end]
    return torch.tensor(ids)


def learning_rate(update, updates):
    """Linear, then half a cosine to 0 at the end, as --schedule cosine."""
    warmup = max(1, updates // WARMUP_PART)
    if update < warmup:
        return RATE * update / warmup
    return 0.0 if update >= updates else RATE * 0.5 * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def train_torch(first, text, updates, batch, seed):
    """(loss per character on the held-out text, tokens/s) of PyTorch, from the model in the directory `first`."""
    parts, trained = documents(text)
    tokenizer = Tokenizer.from_file(str(first / "tokenizer.json"))
    context = SIZES["context"]
    model = Model(259, SIZES["width"], SIZES["heads"], SIZES["layers"], context)
    model.load_state_dict(load_file(first / "model.safetensors"), strict=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    ids = stream(parts[:trained], tokenizer)
    count = (len(ids) - 1) // context
    sequences = ids[:count * context + 1].unfold(0, context + 1, context)
    generator, order, seconds = torch.Generator().manual_seed(seed), [], []
    for update in range(1, updates + 1):
        if len(order) < batch:
            order = torch.randperm(count, generator=generator).tolist()
        rows, order = sequences[order[:batch]], order[batch:]
        start = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(update, updates)
        loss = model.loss(rows[:, :-1], rows[:, 1:])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        seconds.append(time.perf_counter() - start)
    held, total = stream(parts[trained:], tokenizer), 0.0
    with torch.no_grad():
        for first in range(0, len(held) - 1, context):
            part = held[first:first + context + 1]
            total += float(model.loss(part[None, :-1], part[None, 1:])) * (len(part) - 1)
    seconds.sort()
    return total / sum(map(len, parts[trained:])), batch * context / seconds[len(seconds) // 2]


def train_ours(build, data, folder, updates, threads, batch, dtype, seed, rate=RATE):
    """The same of `multihead train`, in a directory."""
    sizes = ["--d-model", SIZES["width"], "--heads", SIZES["heads"], "--layers", SIZES["layers"], "--ff",
             4 * SIZES["width"], "--context", SIZES["context"], "--merges", 0]
    learning = ["--lr", rate, "--schedule", "cosine", "--weight-decay", DECAY, "--beta1", BETAS[0], "--beta2", BETAS[1],
                "--batch-tokens", batch * (SIZES["context"] + 1), "--warmup", max(1, updates // WARMUP_PART)]
    command = [build / "multihead", "train", "-q", "--task", "lm", "--data", data, "-o", folder, "--after",
               f"{updates}u", "--valid-freq", "100Ku", "--save-freq", "100Ku", "--seed", seed, "--threads", threads,
               *sizes, *learning]
    if dtype != "auto":
        command += ["--dtype", dtype]
    subprocess.run([str(word) for word in command], check=True)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = [line for line in lines if "bits_per_byte" in line]
    steps = [line for line in lines if "gradient_norm" in line]
    first, last = steps[len(steps) // 4], steps[-1]
    speed = (last["tokens"] - first["tokens"]) / max(last["seconds"] - first["seconds"], 1e-9)
    return losses[-1]["bits_per_byte"] * math.log(2), speed


def parse_arguments():
    """The command line."""
    shared = os.environ.get("MH_TEST_DATA")
    parser = argparse.ArgumentParser(prog="compare-lm", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, metavar="FILE",
                        default=Path(shared) / "text" / "tinyshakespeare.txt" if shared else None,
                        help="a text (default: text/tinyshakespeare.txt of $MH_TEST_DATA)")
    parser.add_argument("--updates", type=int, default=500, metavar="N", help="of each run (default: 500)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each (default: 3)")
    parser.add_argument("--batch", type=int, default=32, metavar="N",
                        help="sequences of 128 bytes in an update (default: 32)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="threads (default: all CPUs)")
    parser.add_argument("--dtype", default="auto", help="of our products: auto (default), f32 or bf16")
    parser.add_argument("--quick", action="store_true", help="150 updates")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR", help="where multihead is")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.updates = 150
    if not arguments.data or not arguments.data.is_file():
        parser.error("--data is missing: a text of a megabyte or so, such as Tiny Shakespeare")
    return arguments


def compare_seed(arguments, folder, seed):
    """((loss, tokens/s) of multihead, the same of PyTorch)."""
    a = arguments
    train_ours(a.build, a.data, folder / "first", 1, a.threads, a.batch, "f32", seed, 1e-30)
    found = (train_ours(a.build, a.data, folder / "ours", a.updates, a.threads, a.batch, a.dtype, seed),
             train_torch(folder / "first", a.data.read_text(), a.updates, a.batch, seed))
    say(f"seed {seed}: loss {found[0][0]:.4f}, PyTorch {found[1][0]:.4f}")
    return found


def main():
    """Returns 1 if the losses are apart."""
    arguments = parse_arguments()
    note = tame_onednn()
    torch.set_num_threads(arguments.threads)
    say(f"{arguments.updates} updates of {arguments.batch} x {SIZES['context']} bytes, {arguments.seeds} seeds, "
        f"{arguments.threads} threads")
    found = []
    for seed in range(1, arguments.seeds + 1):
        with tempfile.TemporaryDirectory() as place:
            found.append(compare_seed(arguments, Path(place), seed))
    (ours, our_speed), (theirs, their_speed) = ((statistics.mean(values) for values in zip(*runs))
                                                for runs in zip(*found))
    print(f"multihead          loss per character {ours:.4f}  {our_speed:9.0f} tokens/s")
    print(f"PyTorch {torch.__version__:<10} loss per character {theirs:.4f}  {their_speed:9.0f} tokens/s")
    print(f"difference {ours - theirs:+.4f}, speed ratio {our_speed / their_speed:.2f}; {cpu_model()}"
          + (f"; {note}" if note else ""))
    if abs(ours - theirs) > MOST_APART:
        say(f"WRONG: the losses are more than {MOST_APART} apart")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
