# SPDX-License-Identifier: MIT
# %% [markdown]
# # Scaled dot-product attention
#
# From the formula to one fused call:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^T}{\sqrt{d_k}}\right) V$$

# %%
import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

# %% [markdown]
# ## The formula, line by line
# Five tokens, each with a query, a key and a value of width 4.

# %%
rng = np.random.default_rng(0)
tokens = "The quick brown fox jumps".split()
q, k, v = rng.normal(size=(3, 5, 4)).astype(np.float32)

scores = q @ k.T / np.sqrt(4)  # (5, 5): how well each query fits each key
weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)  # every row sums to 1
out = weights @ v  # (5, 4): weighted means of the values
print("scores", scores.shape, " weights", weights.shape, " out", out.shape)


# %%
def heatmap(ax, weights, title, rows=tokens, columns=tokens):
    ax.imshow(weights, cmap="viridis", vmin=0)
    ax.set(title=title, xticks=range(len(columns)), yticks=range(len(rows)))
    ax.set_xticklabels(columns, rotation=45, ha="right")
    ax.set_yticklabels(rows)


figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
heatmap(axes[0], scores - scores.min(), "scores (shifted)")
heatmap(axes[1], weights, "weights: each row attends")

# %% [markdown]
# ## The same as one call
# `mh.attention` never stores the scores: tiles of them stay in registers and cache, so that memory
# grows with T + S, not with T x S. Weights are returned when they are asked for.

# %%
fused, fused_weights = mh.attention(q, k, v, weights=True)
print("largest difference:", np.abs(fused - out).max(), np.abs(fused_weights - weights).max())

# %% [markdown]
# ## Why divide by $\sqrt{d_k}$?
# Dot products of random vectors grow with $\sqrt{d_k}$. Without the division softmax saturates: nearly
# all of the weight goes to one key, and gradients vanish.

# %%
wide_q, wide_k = rng.normal(size=(2, 5, 256)).astype(np.float32)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, scale, title in ((axes[0], 1.0, "scale 1: saturated"), (axes[1], None, "scale 1 / sqrt(256)")):
    _, w = mh.attention(wide_q, wide_k, wide_k, scale=scale, weights=True)
    heatmap(ax, w, f"{title}\nlargest weight {w.max(-1).mean():.2f} on average")

# %% [markdown]
# ## Any size, any dimensions in front
# Batches and heads are further dimensions: (batch, heads, tokens, width). `mh.explain` tells which
# kernels a call uses, and why.

# %%
q, k, v = rng.normal(size=(3, 2, 8, 1000, 64)).astype(np.float32)
out, lse = mh.attention(q, k, v, causal=True, lse=True)
print("out", out.shape, " log-sum-exp", lse.shape)
plan = mh.explain(q, k, v, causal=True)
print(f"{plan['isa']}, {plan['threads']} threads, {plan['dead_tiles']} of {plan['tiles']} tiles are skipped")
