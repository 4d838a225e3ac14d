# SPDX-License-Identifier: MIT
# %% [markdown]
# # Your own model in ten lines
# Attention alone learns to reverse a sequence: output position $i$ must look at input position $n - 1 - i$.
# One layer, trained from scratch in seconds, and its weights show what it has learnt.

# %%
import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

LENGTH, VOCABULARY, WIDTH = 8, 12, 32
mh.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## The model
# Tokens and positions are embedded, attended, and compared with the tokens' embeddings again.

# %%
tokens_table = mh.Parameter(rng.normal(0, WIDTH**-0.5, (VOCABULARY, WIDTH)))
positions = mh.Parameter(rng.normal(0, 0.5, (LENGTH, WIDTH)))
attention = mh.MultiheadAttention(WIDTH, 2, batch_first=True)


def predict(tokens, tape=None):
    x = tokens_table.data[tokens] + positions.data
    hidden, weights = attention(x, x, x, tape=tape, average_attn_weights=False)
    return hidden, hidden @ tokens_table.data.T, weights


# %% [markdown]
# ## Training
# The gradient of attention is one call, `tape.backward`; that of the tables around it is three lines.

# %%
optimiser, tape, losses = mh.AdamW([attention, tokens_table, positions], lr=1e-2, max_norm=1.0), mh.Tape(), []
for step in range(400):
    tokens = rng.integers(0, VOCABULARY, (64, LENGTH))
    hidden, logits, _ = predict(tokens, tape)
    loss, dlogits = mh.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, ::-1].reshape(-1))
    optimiser.zero_grad()
    tokens_table.grad += dlogits.T @ hidden.reshape(-1, WIDTH)
    dx = tape.backward((dlogits @ tokens_table.data).reshape(hidden.shape))[0]
    np.add.at(tokens_table.grad, tokens, dx)
    positions.grad += dx.sum(0)
    optimiser.step()
    losses.append(loss)

tokens = rng.integers(0, VOCABULARY, (256, LENGTH))
_, logits, weights = predict(tokens)
right = (logits.argmax(-1) == tokens[:, ::-1]).mean()
print(f"loss {losses[0]:.2f} -> {losses[-1]:.3f}, {right:.1%} of the tokens are right")
assert right > 0.95

# %% [markdown]
# ## What it has learnt
# The loss, and the mean weights of both heads: the antidiagonal.

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
axes[0].semilogy(losses)
axes[0].set(title="loss", xlabel="step")
for head in range(2):
    axes[1 + head].imshow(weights[:, head].mean(0), vmin=0)
    axes[1 + head].set(title=f"head {head}", xlabel="input position", ylabel="output position")

# %% [markdown]
# `attention.save("reverse.safetensors")` writes the weights with PyTorch's names. Layers, norms and a whole
# Transformer train the same way: see `train_by_hand.py`.
