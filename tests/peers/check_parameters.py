# SPDX-License-Identifier: MIT
"""Weights from PyTorch to a file, through multihead, to a file and back into PyTorch: no bit changes.

usage: check_parameters.py PEER_PARAMETERS
"""
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file
from torch import nn


def modules(D, heads):
    """(kind as peer_parameters has it, a function that makes the module)"""
    layer = dict(d_model=D, nhead=heads, dim_feedforward=2 * D + 1, batch_first=True)
    yield "mha", lambda: nn.MultiheadAttention(D, heads)
    yield "mha-kv", lambda: nn.MultiheadAttention(D, heads, add_bias_kv=True)
    yield "mha-widths", lambda: nn.MultiheadAttention(D, heads, kdim=D + 1, vdim=D + 2)
    yield "0", lambda: nn.Transformer(num_encoder_layers=2, num_decoder_layers=3, **layer)
    yield "1", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), 2, nn.LayerNorm(D))
    yield "2", lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), 3, nn.LayerNorm(D))
    yield "3", lambda: nn.TransformerEncoderLayer(**layer)
    yield "4", lambda: nn.TransformerDecoderLayer(**layer)


def check(peer, folder, kind, make, D, heads):
    module, copy = make(), make()
    there, back = folder / "there.safetensors", folder / "back.safetensors"
    state = module.state_dict()
    save_file({name: t.contiguous() for name, t in state.items()}, there)
    subprocess.run([peer, kind, str(D), str(heads), there, back], check=True)
    copy.load_state_dict(load_file(back))  # strict: the names, too
    for name, t in copy.state_dict().items():
        if not torch.equal(t.view(torch.int32), state[name].view(torch.int32)):
            raise SystemExit(f"parameters: {kind}, {name} has changed")
    return sum(t.numel() for t in state.values())


def main():
    warnings.filterwarnings("ignore", "enable_nested_tensor")  # a matter of speed
    peer = sys.argv[1]
    torch.manual_seed(1)
    count = numbers = 0
    with tempfile.TemporaryDirectory() as folder:
        for D, heads in ((8, 2), (15, 5), (64, 8)):
            for kind, make in modules(D, heads):
                numbers += check(peer, pathlib.Path(folder), kind, make, D, heads)
                count += 1
    print(f"parameters: {count} modules, {numbers} numbers, there and back: equal to the bit")


if __name__ == "__main__":
    main()
