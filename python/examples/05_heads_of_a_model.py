# SPDX-License-Identifier: MIT
# %% [markdown]
# # What heads of a real model do
# The French-English translator that comes with multihead has 3 + 3 layers with 4 heads each, trained on
# sentence pairs. `look` records what all of them attend to.

# %%
import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

model = mh.load("fr-en")
model

# %% [markdown]
# In a notebook a trace is the viewer: all heads, lines, heatmaps, the computation step by step. It needs no
# network; `trace.save("page.html")` writes it to a file.

# %%
trace = model.look("La banque a approuvé le prêt hier.")
trace

# %% [markdown]
# ## As arrays
# Weights are (layers, heads, queries, keys).

# %%
encoder = trace["encoder"]
print(encoder.weights.shape, encoder.key_tokens)
figure, axes = plt.subplots(*encoder.weights.shape[:2], figsize=(11, 9), layout="constrained")
for layer, row in enumerate(axes):
    for head, ax in enumerate(row):
        ax.imshow(encoder.weights[layer, head], vmin=0, vmax=1)
        ax.set(title=f"layer {layer}, head {head}", yticks=[])
        ax.set_xticks(range(len(encoder.key_tokens)), encoder.key_tokens, rotation=90, fontsize=7)

# %% [markdown]
# ## Patterns
# Most heads do something that has a name: look at the previous token, at the next, at the same one, at the end.

# %%
for head in trace.heads("encoder"):
    print(f"layer {head.layer} head {head.head}  {head.pattern:14} entropy {head.entropy:4.2f} bits, "
          f"{head.distance:3.1f} tokens away")

# %% [markdown]
# ## Which head links two words?
# The strongest in either direction; `trace.links("banque", "prêt")` does the same for words of several tokens.

# %%
i, j = (next(n for n, t in enumerate(encoder.key_tokens) if word in t) for word in ("banque", "prêt"))
link = np.maximum(encoder.weights[:, :, i, j], encoder.weights[:, :, j, i])
for layer, head in sorted(np.ndindex(link.shape), key=lambda at: -link[at])[:3]:
    print(f"layer {layer}, head {head}: {link[layer, head]:.2f}")

# %% [markdown]
# ## If one head fails
# Heads are partly redundant: the translation with one cross-attention head switched off.

# %%
sentence = "La banque a approuvé le prêt hier."
print(f"{'all heads':12} {model.translate(sentence)}")
for layer in range(3):
    for head in range(4):
        print(f"cross {layer}.{head:<4} {model.translate(sentence, disabled_heads=[('cross', layer, head)])}")

# %% [markdown]
# Without all cross-attention heads of a layer, words begin to get lost: without those of layer 0, the loan.

# %%
for layer in range(3):
    off = [("cross", layer, head) for head in range(4)]
    print(f"cross {layer}, all {model.translate(sentence, disabled_heads=off)}")
