# SPDX-License-Identifier: MIT
"""Converts a model of llama2.c into a Llama folder: config.json, model.safetensors, tokenizer.model.

    python3 convert_llama2c.py MODEL_BIN TOKENIZER_BIN DIR

model.bin has seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len; a
negative vocab_size: the head is not tied), then f32 matrices, each for all layers. It rotates pairs
(2i, 2i + 1) of a head, transformers (i, i + E / 2), so rows of q and k change places.

tokenizer.bin has one int32 and per piece a f32 score, an int32 size and its bytes, as SentencePiece
has them, but for spaces and the line ends around <s> and </s>.
"""
import json
import pathlib
import struct
import sys

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # types of SentencePiece's pieces
SPECIAL = ["<unk>", "<s>", "</s>"]


# ---- weights

def halves(matrix, rows, columns, width):
    """Rows of heads of this width: those with even numbers, then the others."""
    row = 4 * columns
    order = [h + i for h in range(0, rows, width) for i in (*range(0, width, 2), *range(1, width, 2))]
    return b"".join(matrix[r * row:(r + 1) * row] for r in order)


def read_tensors(data):
    """The config and (name, shape, bytes) of all tensors."""
    D, F, L, H, G, V, S = struct.unpack_from("<7i", data)
    tied, V, E = V > 0, abs(V), D // H
    at = 28

    def take(*shape):
        nonlocal at
        size = 4
        for n in shape:
            size *= n
        at += size
        if at > len(data):
            raise SystemExit(f"model.bin: found {len(data)} bytes, expected more")
        return shape, data[at - size:at]

    def layers(name, rows, columns=None, rotated=False):
        for i in range(L):
            shape, raw = take(rows) if columns is None else take(rows, columns)
            yield f"model.layers.{i}.{name}.weight", shape, halves(raw, rows, columns, E) if rotated else raw

    tensors = [("model.embed_tokens.weight", *take(V, D))]
    tensors += layers("input_layernorm", D)
    tensors += layers("self_attn.q_proj", H * E, D, rotated=True)
    tensors += layers("self_attn.k_proj", G * E, D, rotated=True)
    tensors += layers("self_attn.v_proj", G * E, D)
    tensors += layers("self_attn.o_proj", D, H * E)
    tensors += layers("post_attention_layernorm", D)
    tensors += layers("mlp.gate_proj", F, D)
    tensors += layers("mlp.down_proj", D, F)
    tensors += layers("mlp.up_proj", F, D)
    tensors += [("model.norm.weight", *take(D))]
    take(2, S, E // 2)  # cosines and sines
    if not tied:
        tensors += [("lm_head.weight", *take(V, D))]
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=V, hidden_size=D,
                  intermediate_size=F, num_hidden_layers=L, num_attention_heads=H, num_key_value_heads=G,
                  max_position_embeddings=S, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0,
                  tie_word_embeddings=tied, bos_token_id=1, eos_token_id=2, dtype="float32")
    return config, tensors


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, raw in tensors:
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(b"".join([struct.pack("<Q", len(text)), text, *(raw for _, _, raw in tensors)]))


# ---- tokenizer

def read_pieces(data, count):
    at = 4
    for i in range(count):
        score, size = struct.unpack_from("<fi", data, at)
        text = data[at + 8:at + 8 + size].decode()
        at += 8 + size
        if i < len(SPECIAL):
            yield SPECIAL[i], score, CONTROL if i else UNKNOWN
        elif text.startswith("<0x"):
            yield text, score, BYTE
        else:
            yield text.replace(" ", "\u2581"), score, NORMAL


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A member of a protobuf message: bytes, a float or an integer."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def sentencepiece_model(pieces):
    """sentencepiece_model.proto: pieces, then the trainer's and the normalizer's settings."""
    model = b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, kind)) for text, score, kind in pieces)
    trainer = field(3, 2) + field(35, 1)  # model_type BPE, byte_fallback
    normalizer = field(1, b"identity") + field(3, 1) + field(4, 0)  # add_dummy_prefix, remove_extra_whitespaces
    return model + field(2, trainer) + field(3, normalizer)


def main(model, tokenizer, folder):
    config, tensors = read_tensors(pathlib.Path(model).read_bytes())
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    pieces = read_pieces(pathlib.Path(tokenizer).read_bytes(), config["vocab_size"])
    (folder / "tokenizer.model").write_bytes(sentencepiece_model(pieces))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(
        tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", model_max_length=config["max_position_embeddings"]), indent=2) + "\n")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: convert_llama2c.py MODEL_BIN TOKENIZER_BIN DIR")
    main(*sys.argv[1:])
