# SPDX-License-Identifier: MIT
# requires: torch transformers
# %% [markdown]
# # PyTorch and Hugging Face on our attention

# %%
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

import multihead.torch as mht

torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 8, 512, 64)

# %% [markdown]
# ## A call
# `scaled_dot_product_attention` with PyTorch's arguments, gradients, and under `torch.compile`.

# %%
ours = mht.scaled_dot_product_attention(q, k, v, is_causal=True)
theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
print("largest difference:", (ours - theirs).abs().max().item())
qg = q.clone().requires_grad_()
mht.scaled_dot_product_attention(qg, k, v, is_causal=True).sum().backward()
print("gradient", tuple(qg.grad.shape))

# %% [markdown]
# And what PyTorch's does not have: weights, windows, soft caps, ALiBi, sinks, packed batches.

# %%
_, weights = mht.scaled_dot_product_attention(
    q[:, :, :24], k[:, :, :24], v[:, :, :24], is_causal=True, window=(8, 0), weights=True)
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for head, ax in enumerate(axes):
    ax.imshow(weights[0, head], vmin=0)
    ax.set(title=f"head {head}", xticks=[], yticks=[])


# %% [markdown]
# ## Programs as they are
# `activate` puts our kernels below PyTorch's own function, `accelerate` replaces the layers of a module; both
# share its parameters.


# %%
def seconds(function, repeats=5):
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True).eval()
fast = mht.accelerate(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)).eval()
x = torch.randn(4, 128, 256)
with torch.no_grad():
    print(type(fast.layers[0]).__module__, tuple(fast(x).shape))
    times = {"PyTorch": seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
             "multihead": seconds(lambda: mht.scaled_dot_product_attention(q, k, v, is_causal=True))}
figure, ax = plt.subplots(figsize=(6, 1.8), layout="constrained")
ax.barh(list(times), [1000 * t for t in times.values()])
ax.set(xlabel="ms, causal attention (2, 8, 512, 64)")
plt.show()

# %% [markdown]
# ## Hugging Face
# Importing `multihead.transformers` registers the implementation; `attn_implementation="multihead"` selects
# it. Weights are there on request, which "sdpa" cannot do. The model here is tiny and random, so that nothing
# is downloaded.

# %%
import warnings

warnings.filterwarnings("ignore", message="IProgress not found")  # transformers has no bar to show here
from transformers import BertConfig, BertModel

import multihead as mh
import multihead.transformers

config = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                    vocab_size=100, initializer_range=0.3)
ids = torch.randint(0, 100, (1, 12))
model = BertModel(config).eval()
with torch.no_grad():
    expected = model(ids).last_hidden_state
    model.set_attn_implementation("multihead")
    found = model(ids, output_attentions=True)
print("largest difference:", (found.last_hidden_state - expected).abs().max().item())
mh.view(found.attentions, [f"token {i}" for i in ids[0].tolist()], title="BERT with random weights")
