# SPDX-License-Identifier: MIT
# %% [markdown]
# # Masks
# Which keys a query may attend to. Masks are descriptions that can be combined freely; tiles without any
# key are skipped, so that a mask makes a call faster, not slower.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

rng = np.random.default_rng(0)
q, k, v = rng.normal(size=(3, 1, 1, 12, 16)).astype(np.float32)


def show(**masks):
    """The weights under each mask."""
    figure, axes = plt.subplots(1, len(masks), figsize=(3 * len(masks), 3.4), layout="constrained")
    for ax, (title, options) in zip(axes, masks.items()):
        _, weights = mh.attention(q, k, v, weights=True, **options)
        ax.imshow(np.where(weights[0, 0] > 0, weights[0, 0], np.nan), vmin=0)
        ax.set(title=title.replace("_", " "), xlabel="key", ylabel="query", facecolor="lightgrey",
               xticks=range(0, 12, 4), yticks=range(0, 12, 4))


# %% [markdown]
# ## Causal, windows, prefixes
# Grey: not attended to. A decoder's query sees itself and what came before; a window limits how far back.

# %%
show(causal=dict(causal=True), window=dict(causal=True, window=(3, 0)),
     local=dict(window=(2, 2)), prefix=dict(causal=True, prefix_lengths=np.array([5])))

# %% [markdown]
# ## Padding and packed documents
# Sequences of a batch have different lengths; or several documents are packed into one sequence and must
# not see each other.

# %%
documents = np.array([[0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]])
show(lengths=dict(key_lengths=np.array([7])),
     documents=dict(query_documents=documents, key_documents=documents),
     both=dict(causal=True, query_documents=documents, key_documents=documents))

# %% [markdown]
# ## Arrays
# True means *may attend*; a float array is added to the scores. (`MultiheadAttention` keeps PyTorch's
# meaning: there, True means *may not*.)

# %%
stripes = (np.arange(12)[:, None] + np.arange(12)) % 3 == 0
distance = -0.5 * np.abs(np.arange(12)[:, None] - np.arange(12)).astype(np.float32)
show(keep=dict(mask=stripes), added=dict(mask=distance), ALiBi=dict(alibi=True, causal=True),
     all_three=dict(mask=(stripes, distance), causal=True))

# %% [markdown]
# ## A query without any key
# Its output is 0, or NaN as in PyTorch if you ask for that.

# %%
none = np.zeros((12, 12), bool)
for row in ("zero", "nan"):
    print(mh.attention(q, k, v, mask=none, empty_row=row)[0, 0, 0, :3])

# %% [markdown]
# ## What a mask saves

# %%
q, k, v = rng.normal(size=(3, 1, 8, 2048, 64)).astype(np.float32)
calls = dict(full={}, causal=dict(causal=True), window=dict(causal=True, window=(128, 0)))
for name, options in calls.items():
    mh.attention(q, k, v, **options)
    start = time.perf_counter()
    mh.attention(q, k, v, **options)
    plan = mh.explain(q, k, v, **options)
    print(f"{name:8} {1000 * (time.perf_counter() - start):6.1f} ms, "
          f"{plan['dead_tiles']} of {plan['tiles']} tiles skipped")
