# SPDX-License-Identifier: MIT
"""The translator of `multihead train` in PyTorch, as its users write it: nn.Transformer over
padded batches of like lengths, one embedding for source, target and output, AdamW."""

import math
import warnings

import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2
SIZES = {"d_model": 256, "nhead": 4, "num_encoder_layers": 3, "num_decoder_layers": 3,
         "dim_feedforward": 1024, "dropout": 0.1}  # preset small


def positions(length, width):
    """sin and cos in turn: (length, width)"""
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Translator(nn.Module):
    """Logits (B, T, V) of source ids (B, S) and target ids (B, T)."""

    def __init__(self, vocabulary, max_length=256):
        super().__init__()
        self.width = SIZES["d_model"]
        self.embedding = nn.Embedding(vocabulary, self.width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=self.width ** -0.5)
        self.dropout = nn.Dropout(SIZES["dropout"])
        with warnings.catch_warnings():  # that nested tensors are not for norm_first
            warnings.simplefilter("ignore")
            self.transformer = nn.Transformer(**SIZES, norm_first=True, batch_first=True)
        self.register_buffer("positions", positions(max_length, self.width))

    def embed(self, ids):
        """Scaled embeddings and positions."""
        x = self.embedding(ids) * math.sqrt(self.width) + self.positions[:ids.shape[1]]
        return self.dropout(x)

    def forward(self, source, target):
        """As above; padding is not attended to."""
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        out = self.transformer(self.embed(source), self.embed(target), tgt_mask=causal,
                               tgt_is_causal=True, src_key_padding_mask=padding,
                               memory_key_padding_mask=padding)
        return out @ self.embedding.weight.T


def plan_batches(pairs, tokens, generator):
    """Lists of indices, `tokens` source and target tokens each: like lengths together, as in
    src/train/batches.c; batches in random order."""
    def key(i):
        source, target = pairs[i]
        return len(source), len(target) if len(source) % 2 else -len(target)

    order, batches, used = sorted(range(len(pairs)), key=key), [], math.inf
    for i in order:
        size = sum(map(len, pairs[i]))
        if used + size > tokens:
            batches.append([])
            used = 0
        batches[-1].append(i)
        used += size
    return [batches[i] for i in torch.randperm(len(batches), generator=generator)]


def pad(rows):
    """(B, longest)"""
    return nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True,
                                     padding_value=PAD)


class Training:
    """Updates, one at a time."""

    def __init__(self, pairs, vocabulary, batch_tokens, bf16, learning_rate=1e-3, warmup=100):
        torch.manual_seed(1)
        self.pairs, self.bf16, self.batch_tokens = pairs, bf16, batch_tokens
        self.model = Translator(vocabulary).train()
        self.loss = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), learning_rate,
                                           betas=(0.9, 0.98), eps=1e-9, weight_decay=0, fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda done: min((done + 1) / warmup, (warmup / (done + 1)) ** 0.5))
        self.generator = torch.Generator().manual_seed(1)
        self.batches = iter(())

    def next_batch(self):
        """The pairs of a batch; a new epoch begins where one ends."""
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(plan_batches(self.pairs, self.batch_tokens, self.generator))
            batch = next(self.batches)
        return [self.pairs[i] for i in batch]

    def update(self):
        """(target tokens, loss a token) of one update."""
        pairs = self.next_batch()
        source, target = pad([s for s, _ in pairs]), pad([t for _, t in pairs])
        given = torch.cat([torch.full((len(pairs), 1), BOS), target[:, :-1]], 1)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits = self.model(source, given)
            loss = self.loss(logits.flatten(0, 1), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return sum(len(t) for _, t in pairs), loss.item()
