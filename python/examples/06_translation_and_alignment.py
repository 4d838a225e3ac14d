# SPDX-License-Identifier: MIT
# %% [markdown]
# # Translation and alignment
# A decoder's queries attend to the source sentence: cross-attention shows which words each translated word
# was made from.

# %%
import matplotlib.pyplot as plt
import numpy as np

import multihead as mh

model = mh.load("fr-en")

# %%
sentences = ["Bonjour !", "Où est la gare ?", "Le chat noir dort sur le lit."]
for sentence, translation in zip(sentences, model.translate(sentences)):
    print(f"{sentence:32} {translation}")

# %% [markdown]
# ## Alignment
# With `attention=True` a translation has its cross-attention, averaged over the heads of the layer that
# aligns best. *Chat noir* becomes *black cat*: the two cross.

# %%
found = model.translate("Le chat noir dort sur le lit.", attention=True)
figure, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
ax.imshow(found.attention, vmin=0, cmap="Blues")
ax.set_xticks(range(len(found.source_tokens)), found.source_tokens, rotation=45, ha="right")
ax.set_yticks(range(len(found.tokens)), found.tokens)
ax.set(title=str(found), xlabel="French", ylabel="English")
for row, column in enumerate(found.attention.argmax(-1)):
    ax.text(column, row, f"{found.attention[row, column]:.0%}", ha="center", va="center",
            color="white" if found.attention[row, column] > 0.5 else "black", fontsize=8)

# %% [markdown]
# ## How sure is it?
# Beam search keeps several hypotheses; scores are log-probabilities per token.

# %%
for hypothesis in model.translate("La banque a approuvé le prêt hier.", n_best=4):
    print(f"{hypothesis.score:7.3f}  {hypothesis}")

# %% [markdown]
# A translation of your own gets scores, too, token by token.

# %%
given = model.translate("Il fait beau.", "The weather is fine.")
figure, ax = plt.subplots(figsize=(7, 2.5), layout="constrained")
ax.bar(range(len(given.token_logprobs)), np.exp(given.token_logprobs))
ax.set_xticks(range(len(given.token_logprobs)), [*given.tokens, "</s>"])
ax.set(ylabel="probability", ylim=(0, 1), title="P(token | what came before)")
plt.show()

# %% [markdown]
# ## All of it at once

# %%
model.look("Le chat noir dort sur le lit.")

# %% [markdown]
# ## Quality
# BLEU and chrF with sacreBLEU's digits.

# %%
references = ["Hello!", "Where is the station?", "The black cat sleeps on the bed."]
found = model.translate(sentences)
print(f"BLEU {mh.bleu(found, references).score:.1f}, chrF {mh.chrf(found, references):.1f}")
