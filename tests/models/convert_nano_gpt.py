# SPDX-License-Identifier: MIT
"""Converts nano-gpt's model.json (base64 of f32) into a GPT-2 folder: config.json, model.safetensors.

    python3 convert_nano_gpt.py MODEL_JSON DIR

minGPT's linear layers are (out, in), GPT-2's Conv1D (in, out), so c_* matrices are transposed. The
causal masks (attn.bias) are no parameters and left out. The head is not tied.
"""
import array
import base64
import json
import pathlib
import struct
import sys


def floats(entry):
    values = array.array("f", base64.b64decode(entry["data"]))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def transposed(values, rows, columns):
    return array.array("f", (values[i * columns + j] for j in range(columns) for i in range(rows)))


def convert(model):
    """(name, shape, values) of every parameter, as GPT-2 has them."""
    for name, entry in model.items():
        if name == "config" or name.endswith(".attn.bias"):
            continue
        shape, values = entry["shape"], floats(entry)
        if ".c_" in name and len(shape) == 2:
            values, shape = transposed(values, *shape), shape[::-1]
        yield name, shape, values


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape, values in tensors:
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main(source, folder):
    model = json.loads(pathlib.Path(source).read_text())
    given = model["config"]
    config = dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=given["vocab_size"],
                  n_positions=given["block_size"], n_embd=given["n_embd"], n_layer=given["n_layer"],
                  n_head=given["n_head"], activation_function="gelu_new", layer_norm_epsilon=1e-5,
                  tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, dtype="float32")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_safetensors(folder / "model.safetensors", convert(model))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: convert_nano_gpt.py MODEL_JSON DIR")
    main(*sys.argv[1:])
