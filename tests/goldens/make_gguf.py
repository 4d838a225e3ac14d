#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf/blocks.gguf and gguf/blocks_expected.safetensors: tensors of every supported type, and what the `gguf`
package (0.19.0, with numpy) makes of them in f32.

    pip install gguf==0.19.0 && python3 tests/goldens/make_gguf.py

Quantised blocks are random bits with finite scales, denormal ones and zeros among them, so that every bit of every
block matters; q6_k.row and q8_0.row have one row of several blocks.
"""
import json
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent / "gguf"
TYPES = gguf.GGMLQuantizationType
# where a block has scales in f16
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(rng, name, rows, blocks):
    _, size = gguf.GGML_QUANT_SIZES[TYPES[name]]
    data = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in SCALES[name]:
        scales = (rng.standard_normal((rows, blocks)) * 10.0 ** rng.integers(-4, 2, (rows, blocks))).astype(np.float16)
        scales.flat[0] = np.float16(-6e-8)  # the smallest denormal
        scales.flat[1] = 0
        data[..., at:at + 2] = scales[..., None].view(np.uint8)
    return data.reshape(rows, blocks * size)


def write_metadata(writer):
    writer.add_uint8("t.u8", 255)
    writer.add_int8("t.i8", -128)
    writer.add_uint16("t.u16", 65535)
    writer.add_int16("t.i16", -32768)
    writer.add_uint32("t.u32", 4294967295)
    writer.add_int32("t.i32", -2147483648)
    writer.add_uint64("t.u64", 18446744073709551615)
    writer.add_int64("t.i64", -9223372036854775808)
    writer.add_float32("t.f32", 9.999999747378752e-06)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "caf\u00e9\n")
    writer.add_array("t.strings", ["a", "", "\u0120the"])
    writer.add_array("t.numbers", [1, -2, 3])
    writer.add_array("t.many", list(range(10)))
    writer.add_array("t.bools", [True, False])


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def main():
    rng = np.random.default_rng(1)
    writer, expected = gguf.GGUFWriter(HERE / "blocks.gguf", "test"), {}
    write_metadata(writer)
    plain = {"F32": np.float32, "F16": np.float16, "F64": np.float64}
    for name, dtype in plain.items():
        values = rng.standard_normal((2, 3, 5)).astype(dtype)
        writer.add_tensor(name.lower(), values)
        expected[name.lower()] = values.astype(np.float32)
    for name, dtype in {"I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64}.items():
        values = rng.integers(-100, 100, 7).astype(dtype)
        writer.add_tensor(name.lower(), values)
        expected[name.lower()] = values.astype(np.float32)
    bf16 = gguf.quants.quantize(rng.standard_normal((3, 8)).astype(np.float32), TYPES.BF16)
    writer.add_tensor("bf16", bf16, raw_dtype=TYPES.BF16)
    expected["bf16"] = gguf.quants.dequantize(bf16, TYPES.BF16)
    for name in SCALES:
        for suffix, rows in [("", 3), (".row", 1)]:
            blocks = random_blocks(rng, name, rows, 2)
            writer.add_tensor(name.lower() + suffix, blocks, raw_dtype=TYPES[name])
            expected[name.lower() + suffix] = gguf.quants.dequantize(blocks, TYPES[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_safetensors(HERE / "blocks_expected.safetensors", expected)


if __name__ == "__main__":
    main()
