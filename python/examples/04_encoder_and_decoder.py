# SPDX-License-Identifier: MIT
# %% [markdown]
# # Encoder and decoder
# A Transformer is multi-head attention with a residual connection and a norm, then a small network of
# two products with a residual connection and a norm, several times. The decoder has a third part: its
# queries attend to the encoder's output.

# %%
import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

mh.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## An encoder layer, by hand
# $x_1 = \mathrm{Norm}(x + \mathrm{MHA}(x))$, then $\mathrm{Norm}(x_1 + W_2\,\mathrm{relu}(W_1 x_1))$. Width 4,
# two heads, five tokens, as in the smallest examples of tutorials.

# %%
layer = mh.TransformerEncoderLayer(4, 2, dim_feedforward=16).eval()
x = rng.normal(size=(5, 1, 4)).astype(np.float32)  # (tokens, batch, width)
p = dict(layer.named_parameters())


def norm(x, name):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


mha = mh.MultiheadAttention(4, 2)
mha.load_state_dict({name[len("self_attn."):]: a for name, a in p.items() if name.startswith("self_attn.")})
attended, weights = mha(x, x, x)
x1 = norm(x + attended, "norm1")
hidden = np.maximum(x1 @ p["linear1.weight"].T + p["linear1.bias"], 0)
by_hand = norm(x1 + hidden @ p["linear2.weight"].T + p["linear2.bias"], "norm2")
print("largest difference from the layer:", np.abs(by_hand - layer(x)).max())

# %%
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for ax, (title, a) in zip(axes, {"x": x, "attention": attended, "Add & Norm": x1, "layer's output": by_hand}.items()):
    ax.imshow(a[:, 0], cmap="coolwarm", vmin=-2, vmax=2)
    ax.set(title=title, xlabel="width", ylabel="token")

# %% [markdown]
# ## Stacks
# `torch.nn`'s names and arguments: an encoder of two layers, and a decoder over its output (the memory).

# %%
encoder = mh.TransformerEncoder(mh.TransformerEncoderLayer(64, 4, 128), 2).eval()
decoder = mh.TransformerDecoder(mh.TransformerDecoderLayer(64, 4, 128), 2).eval()
source, target = (rng.normal(size=(n, 3, 64)).astype(np.float32) for n in (9, 7))
memory = encoder(source)
out = decoder(target, memory, tgt_is_causal=True)
print("memory", memory.shape, " out", out.shape)

# %% [markdown]
# ## The decoder does not look ahead
# Another token at position 4 changes the outputs from there on; those before it keep every bit. That is
# why a decoder can generate token by token.

# %%
changed = target.copy()
changed[4] += 1
difference = np.abs(decoder(changed, memory, tgt_is_causal=True) - out).max((1, 2))
figure, ax = plt.subplots(figsize=(6, 2.5), layout="constrained")
ax.bar(range(7), difference)
ax.set(xlabel="position", ylabel="largest change", title="after a change of position 4")
assert (difference[:4] == 0).all() and (difference[4:] > 0).all()

# %% [markdown]
# ## The whole

# %%
model = mh.Transformer(64, 4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=128).eval()
print(model(source, target, tgt_is_causal=True).shape, f"{len(model.values):,} parameters")
