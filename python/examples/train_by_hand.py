# SPDX-License-Identifier: MIT
"""Training by hand: an encoder learns to reverse a sequence, in a few seconds.

    tokens -> embedding + positions -> encoder layer -> logits (the embedding again) -> loss

A module's backward pass is one call, tape.backward(); what is around it, an embedding and a product
with it, is differentiated in NumPy, line by line below its forward pass.
"""
import numpy as np

import multihead as mh

LENGTH, VOCABULARY, WIDTH, BATCH, STEPS = 8, 12, 32, 64, 200

mh.manual_seed(0)
rng = np.random.default_rng(0)
embedding = mh.Parameter(rng.normal(0, WIDTH**-0.5, (VOCABULARY, WIDTH)))
positions = mh.Parameter(rng.normal(0, 0.5, (LENGTH, WIDTH)))
encoder = mh.TransformerEncoderLayer(
    WIDTH, nhead=4, dim_feedforward=64, dropout=0.05, norm_first=True, batch_first=True
)
optimiser = mh.AdamW([encoder, embedding, positions], lr=3e-3, max_norm=1.0)
tape = mh.Tape()


def batch():
    tokens = rng.integers(0, VOCABULARY, (BATCH, LENGTH))
    return tokens, tokens[:, ::-1]


def predict(tokens, tape=None):
    """Hidden states (B, T, D) and logits (B, T, V)."""
    hidden = encoder(embedding.data[tokens] + positions.data, tape=tape)
    return hidden, hidden @ embedding.data.T


for step in range(STEPS + 1):
    tokens, targets = batch()
    hidden, logits = predict(tokens, tape)
    loss, dlogits = mh.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))

    # The chain rule, from the loss back to the tables.
    optimiser.zero_grad()
    rows = hidden.reshape(-1, WIDTH)
    embedding.grad += dlogits.T @ rows  # of logits = hidden embedding^T
    dhidden = (dlogits @ embedding.data).reshape(hidden.shape)
    dx = tape.backward(dhidden)  # and the encoder's own gradients
    np.add.at(embedding.grad, tokens, dx)  # of x = embedding[tokens] + positions
    positions.grad += dx.sum(0)
    optimiser.step()

    if step % 20 == 0:
        accuracy = (logits.argmax(-1) == targets).mean()
        print(f"step {step:4}  loss {loss:.4f}  right {accuracy:6.1%}")

encoder.eval()
tokens, _ = batch()
print("sequence  ", tokens[0])
print("reversed  ", predict(tokens[:1])[1].argmax(-1)[0])
