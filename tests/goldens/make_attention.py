# SPDX-License-Identifier: MIT
"""Makes attention.safetensors: what PyTorch's scaled_dot_product_attention gives, and its gradients.

    python3 make_attention.py        # needs torch==2.13.0 and safetensors from PyPI

Inputs are float32; PyTorch computes in float64, so the results are exact to the last float32 bit or
so. test_torch.c runs the same cases. Case i has tensors i.q, i.k, i.v, i.dout, i.out, i.dq, i.dk,
i.dv and, with a mask, i.mask and, if that is float, i.dmask; its options are the metadata entry i.
"""
import pathlib

import torch
from safetensors.torch import save_file

# name, (B, H, G, T, S, E, Ev), is_causal, scale, mask: None or (shape, float?)
CASES = [
    ("plain", (2, 2, 2, 5, 7, 8, 8), False, None, None),
    ("one head", (2, 1, 1, 6, 6, 16, 16), False, None, None),
    ("eight heads", (2, 8, 8, 10, 10, 64, 64), False, None, None),
    ("value width", (1, 2, 2, 5, 9, 8, 12), False, None, None),
    ("odd widths", (1, 3, 3, 7, 13, 5, 3), False, None, None),
    ("scale", (1, 2, 2, 5, 7, 8, 8), False, 0.3, None),
    ("negative scale", (1, 2, 2, 5, 7, 8, 8), False, -0.5, None),
    ("causal", (2, 2, 2, 9, 9, 8, 8), True, None, None),
    ("causal, more keys", (1, 2, 2, 5, 9, 8, 8), True, None, None),
    ("causal, fewer keys", (1, 2, 2, 9, 5, 8, 8), True, None, None),
    ("grouped queries", (2, 4, 2, 5, 7, 8, 8), False, None, None),
    ("one key head", (1, 6, 1, 5, 7, 8, 8), True, None, None),
    ("two tiles", (1, 2, 1, 70, 130, 16, 16), True, None, None),
    ("two chunks", (1, 1, 1, 3, 600, 8, 8), False, None, None),
    ("bool mask", (2, 2, 2, 5, 7, 8, 8), False, None, ((5, 7), False)),
    ("bool mask, batch", (2, 2, 2, 5, 7, 8, 8), False, None, ((2, 1, 1, 7), False)),
    ("float mask", (2, 2, 2, 5, 7, 8, 8), False, None, ((5, 7), True)),
    ("float mask, heads", (2, 2, 2, 5, 7, 8, 8), False, None, ((2, 5, 7), True)),
    ("float mask, all", (2, 2, 2, 5, 7, 8, 8), False, None, ((2, 2, 5, 7), True)),
    ("float mask, keys", (2, 2, 2, 5, 7, 8, 8), False, None, ((2, 1, 1, 7), True)),
    ("float mask, grouped", (2, 4, 2, 66, 70, 8, 8), False, None, ((1, 1, 66, 70), True)),
    ("float mask, chunks", (1, 1, 1, 3, 600, 8, 8), False, None, ((3, 600), True)),
]


def make_mask(shape, is_float):
    """A mask that leaves the first key to every query."""
    if not is_float:
        mask = torch.rand(shape) < 0.6
        mask[..., 0] = True
        return mask
    mask = torch.randn(shape)
    mask[torch.rand(shape) < 0.2] = -float("inf")
    mask[..., 0] = 0.5
    return mask


def add_case(tensors, index, sizes, causal, scale, mask):
    """Computes one case and puts its tensors into the dictionary."""
    B, H, G, T, S, E, Ev = sizes
    inputs = {"q": torch.randn(B, H, T, E), "k": torch.randn(B, G, S, E),
              "v": torch.randn(B, G, S, Ev), "dout": torch.randn(B, H, T, Ev)}
    if mask is not None:
        inputs["mask"] = make_mask(*mask)
    exact = {name: t if t.dtype == torch.bool else t.double().requires_grad_(name != "dout")
             for name, t in inputs.items()}
    out = torch.nn.functional.scaled_dot_product_attention(
        exact["q"], exact["k"], exact["v"], attn_mask=exact.get("mask"), is_causal=causal,
        scale=scale, enable_gqa=H != G)
    out.backward(exact["dout"])
    results = {"out": out, "dq": exact["q"].grad, "dk": exact["k"].grad, "dv": exact["v"].grad}
    if mask is not None and mask[1]:
        results["dmask"] = exact["mask"].grad
    for name, t in {**inputs, **results}.items():
        t = t.detach()
        tensors[f"{index}.{name}"] = (t if t.dtype == torch.bool else t.float()).contiguous()


def main():
    torch.manual_seed(20170612)
    tensors, metadata = {}, {"torch": torch.__version__.split("+")[0], "cases": str(len(CASES))}
    for index, (name, sizes, causal, scale, mask) in enumerate(CASES):
        add_case(tensors, index, sizes, causal, scale, mask)
        metadata[str(index)] = name
        metadata[f"{index}.causal"] = str(int(causal))
        metadata[f"{index}.scale"] = "" if scale is None else repr(scale)
    save_file(tensors, pathlib.Path(__file__).with_name("attention.safetensors"), metadata)


if __name__ == "__main__":
    main()
