# SPDX-License-Identifier: MIT
# %% [markdown]
# # Multi-head attention, with every shape
#
# $$\mathrm{head}_i = \mathrm{Attention}(x W_i^Q, x W_i^K, x W_i^V), \qquad
# \mathrm{MultiHead}(x) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O$$

# %%
import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

# %% [markdown]
# ## PyTorch's module
# The arguments, parameters and results of `torch.nn.MultiheadAttention(512, 8)`: ten tokens, a batch
# of 32, width 512.

# %%
mh.manual_seed(0)
mha = mh.MultiheadAttention(512, 8)
x = np.random.default_rng(0).normal(size=(10, 32, 512)).astype(np.float32)
out, weights = mha(x, x, x)
print("out", out.shape, " weights, averaged over the heads", weights.shape)
for name, parameter in mha.named_parameters():
    print(f"{name:16} {parameter.shape}")

# %% [markdown]
# ## Inside, step by step
# Here T is the number of tokens, D = 512 the width, H = 8 the heads, and E = D / H = 64 the width of a head.

# %%
p = dict(mha.named_parameters())
one = x[:, 0]  # the first sequence: (T, D)
qkv = one @ p["in_proj_weight"].T + p["in_proj_bias"]
print("x", one.shape, "-> q, k, v side by side", qkv.shape)

q, k, v = (part.reshape(10, 8, 64).swapaxes(0, 1) for part in np.split(qkv, 3, axis=-1))
print("q, k, v, split into heads", q.shape)

heads, per_head = mh.attention(q, k, v, weights=True)
print("attention of each head: out", heads.shape, " weights", per_head.shape)

concatenated = heads.swapaxes(0, 1).reshape(10, 512)
print("concatenated", concatenated.shape)

by_hand = concatenated @ p["out_proj.weight"].T + p["out_proj.bias"]
print("projected by W^O", by_hand.shape, " difference from the module:", np.abs(by_hand - out[:, 0]).max())

# %% [markdown]
# ## Eight heads, eight patterns
# Each head has its own projections, so that it can attend to something else. These are untrained: what
# trained heads do is in `05_heads_of_a_model`.

# %%
_, weights = mha(x, x, x, average_attn_weights=False)  # (B, H, T, S)
figure, axes = plt.subplots(2, 4, figsize=(10, 5), layout="constrained")
for h, ax in enumerate(axes.flat):
    ax.imshow(weights[0, h], vmin=0)
    ax.set(title=f"head {h}", xticks=[], yticks=[])

# %% [markdown]
# ## The same numbers as PyTorch's
# `state_dict` and `load_state_dict` have PyTorch's names, so that weights move either way.

# %%
try:
    import torch
except ImportError:
    print("PyTorch is not installed")
else:
    theirs = torch.nn.MultiheadAttention(512, 8)
    theirs.load_state_dict({name: torch.from_numpy(a.copy()) for name, a in mha.state_dict().items()})
    with torch.no_grad():
        expected = theirs(*[torch.from_numpy(x)] * 3)[0].numpy()
    print("largest difference:", np.abs(expected - out).max())

# %% [markdown]
# ## Fewer heads for keys and values
# Grouped-query attention shares keys and values between query heads, and its cache is smaller. Rotary
# positions and others are options, too.

# %%
gqa = mh.MultiheadAttention(512, 8, kv_heads=2, rope=True, batch_first=True)
out, _ = gqa(x, x, x, need_weights=False)
print("out", out.shape, " in_proj_weight", dict(gqa.named_parameters())["in_proj_weight"].shape)
