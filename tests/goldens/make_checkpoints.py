#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/goldens/checkpoints/: what torch.save makes of the same tensors in every format.

usage: make_checkpoints.py [DIRECTORY]          needs torch 2.13.0 and safetensors

    expected.safetensors    the tensors under the names that the reader gives them, contiguous
    zip.pt                  torch.save as it is
    zip-protocol-N.pt       with pickle_protocol N
    deflated.pt             the same archive, compressed by another program
    unaligned.pt            the same archive, its members at odd offsets
    legacy.pt               _use_new_zipfile_serialization=False
    legacy-protocol-4.pt    the same with pickle_protocol 4
    tensor.pt               one tensor, without a name
    script.pt               torch.jit.save, which is rejected
    pytorch_model.bin.index.json and its two shards
"""
import collections
import io
import json
import pathlib
import sys
import zipfile

import torch
from safetensors.torch import save_file

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool, torch.uint16, torch.uint32,
          torch.uint64]


def numbers(shape, dtype=torch.float32):
    """0, 1/4, 2/4 ... modulo 61, which every type but the integers has exactly."""
    count = 1
    for n in shape:
        count *= n
    values = (torch.arange(count) * 7 % 61).reshape(shape)
    return (values / 4).to(dtype) if dtype.is_floating_point else values.to(dtype)


def make_object(legacy):
    """A checkpoint with everything that tensors may be, wrapped as training scripts do."""
    torch.manual_seed(1)
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(numbers((2, 3)))
        layer.bias.copy_(numbers((2,)))
    state = layer.state_dict()  # an OrderedDict with _metadata
    base = numbers((4, 6))
    state["transposed"] = base.t()
    state["rows"] = base[1:3]
    state["columns"] = base[:, 2:5:2]
    state["tied"] = state["weight"]
    state["alias"] = state["weight"].view(3, 2)
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 4)
    state["parameter"] = torch.nn.Parameter(numbers((2, 2)))
    state["frozen"] = torch.nn.Parameter(numbers((1,)), requires_grad=False)
    state["name with \u00e9"] = numbers((1, 1, 1, 1, 1, 1, 1, 2))
    types = {}
    for dtype in DTYPES:
        if not (legacy and dtype in (torch.uint16, torch.uint32, torch.uint64)):
            types[str(dtype).split(".")[1]] = numbers((5,), dtype)
    return {"state_dict": state, "epoch": 3, "loss": 0.5, "big": 1 << 40, "negative": -7,
            "done": True, "none": None, "args": ("text", [1, 2.0]),
            "shape": torch.Size([2, 3]), "dtype": torch.float32, "types": types,
            "optimizer": {"state": {0: {"exp_avg": numbers((2, 3)), "step": 1}}},
            "list": [numbers((2,)), (numbers((3,)), "no tensor")]}


def flatten(value, name=""):
    """Every tensor under its dotted name."""
    if isinstance(value, torch.Tensor):
        return {name: value.detach().clone().contiguous()}
    if not isinstance(value, (dict, list, tuple)):
        return {}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = {}
    for key, item in items:
        found.update(flatten(item, f"{name}.{key}" if name else str(key)))
    return found


def save(value, path, **options):
    """torch.save with "archive" as the name in the archive. The keys of legacy files are addresses."""
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    path.write_bytes(stream.getvalue())


def rewrite(source, path, compression, pad):
    """The same members as another program writes them."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", compression) as new:
        for member in old.infolist():
            info = zipfile.ZipInfo(member.filename, (1980, 1, 1, 0, 0, 0))
            stored = "byteorder" in member.filename
            info.compress_type = zipfile.ZIP_STORED if stored else compression
            if pad:
                offset = new.fp.tell() + 30 + len(member.filename)
                info.extra = b"\xca\xfe\1\0\0" if offset % 2 == 0 else b"\xca\xfe\0\0"
            new.writestr(info, old.read(member))


def main():
    root = pathlib.Path(__file__).parent / "checkpoints"
    if len(sys.argv) > 1:
        root = pathlib.Path(sys.argv[1])
    root.mkdir(exist_ok=True)
    whole = make_object(legacy=False)
    save_file(flatten(whole), root / "expected.safetensors")
    save(whole, root / "zip.pt")
    for protocol in (3, 4, 5):
        save(whole, root / f"zip-protocol-{protocol}.pt", pickle_protocol=protocol)
    rewrite(root / "zip.pt", root / "deflated.pt", zipfile.ZIP_DEFLATED, False)
    rewrite(root / "zip.pt", root / "unaligned.pt", zipfile.ZIP_STORED, True)
    old = make_object(legacy=True)
    save(old, root / "legacy.pt", _use_new_zipfile_serialization=False)
    save(old, root / "legacy-protocol-4.pt", _use_new_zipfile_serialization=False,
         pickle_protocol=4)
    save(numbers((2, 3)).t(), root / "tensor.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), root / "script.pt")
    save(collections.OrderedDict(a=numbers((2, 3)), surplus=numbers((1,))), root / "part-1.bin")
    save({"b": {"c": numbers((4,), torch.bfloat16)}}, root / "part-2.bin",
         _use_new_zipfile_serialization=False)
    index = {"metadata": {"total_size": 32}, "weight_map": {"a": "part-1.bin", "b.c": "part-2.bin"}}
    (root / "pytorch_model.bin.index.json").write_text(json.dumps(index) + "\n")


if __name__ == "__main__":
    main()
