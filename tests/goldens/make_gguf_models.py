#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gguf/NAME.gguf: small models of models/ as GGUF files, in f32, as llama.cpp's converter writes them.

    pip install gguf==0.19.0 safetensors && python3 tests/goldens/make_gguf_models.py

Rows of q and k are permuted for architecture llama, Gemma's norms are stored as 1 + w, GPT-2's matrices as (out, in),
and GPT-NeoX's q, k and v stacked. What they compute is in models/NAME/expected.safetensors.
"""
import json
import math
import pathlib

import gguf
import numpy as np
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).parent
MODELS = {"llama": "llama", "llama-scaled": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
          "gemma2": "gemma2", "gemma3": "gemma3", "gpt2": "gpt2", "gpt_neox": "gptneox",
          "bert-mlm": "bert"}
LLAMA = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GEMMA = LLAMA | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                 "post_feedforward_layernorm": "post_ffw_norm"}
GPT2 = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
NEOX = {"input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
        "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
BERT = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
NAMES = {"llama": LLAMA, "qwen2": LLAMA, "qwen3": LLAMA, "gemma2": GEMMA, "gemma3": GEMMA, "gpt2": GPT2,
         "gptneox": NEOX, "bert": BERT}
ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
        "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
        "bert.embeddings.word_embeddings": "token_embd", "bert.embeddings.position_embeddings": "position_embd",
        "bert.embeddings.token_type_embeddings": "token_types", "bert.embeddings.LayerNorm": "token_embd_norm"}


def new_name(architecture, name):
    stem, suffix = name.rsplit(".", 1)
    if stem in ENDS:
        return f"{ENDS[stem]}.{suffix}"
    parts = stem.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    known = None if at is None else NAMES[architecture].get(".".join(parts[at + 1:]))
    return known and f"blk.{parts[at]}.{known}.{suffix}"


def convert(architecture, name, values, config):
    heads = config.get("num_attention_heads", config.get("n_head"))
    if architecture == "llama" and (".attn_q." in name or ".attn_k." in name):
        count = heads if ".attn_q." in name else config["num_key_value_heads"]
        return values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:]).swapaxes(1, 2).reshape(
            values.shape)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return values + 1
    if architecture == "gpt2" and values.ndim == 2 and name.startswith("blk."):
        return np.ascontiguousarray(values.T)
    if architecture == "gptneox" and ".attn_qkv." in name:
        return values.reshape(heads, 3, -1, *values.shape[1:]).swapaxes(0, 1).reshape(values.shape)
    return values


def llama3_divisors(rope, width):
    divisors = []
    for i in range(width // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * i / width)
        original, low, high = (rope[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                                 "high_freq_factor"))
        smooth = (original / wavelength - low) / (high - low)
        divisors.append(1 if wavelength < original / high else rope["factor"] if wavelength > original / low
                        else 1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(divisors, np.float32)


def write_settings(writer, architecture, config):
    def get(*names):
        return next((config[n] for n in names if config.get(n) is not None), None)

    width, heads = get("hidden_size", "n_embd"), get("num_attention_heads", "n_head")
    head = get("head_dim") or width // heads
    writer.add_block_count(get("num_hidden_layers", "n_layer"))
    writer.add_context_length(get("max_position_embeddings", "n_positions"))
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(get("intermediate_size", "n_inner") or 4 * width)
    writer.add_head_count(heads)
    if get("num_key_value_heads"):
        writer.add_head_count_kv(get("num_key_value_heads"))
    if get("head_dim"):
        writer.add_key_length(head)
        writer.add_value_length(head)
    if get("rms_norm_eps"):
        writer.add_layer_norm_rms_eps(get("rms_norm_eps"))
    if get("layer_norm_eps", "layer_norm_epsilon"):
        writer.add_layer_norm_eps(get("layer_norm_eps", "layer_norm_epsilon"))
    if get("sliding_window"):
        writer.add_sliding_window(get("sliding_window"))
    if architecture.startswith("gemma"):
        writer.add_float32(f"{architecture}.attention.scale", get("query_pre_attn_scalar") ** -0.5)
        writer.add_array(f"{architecture}.attention.sliding_window_pattern",
                         [kind == "sliding_attention" for kind in config["layer_types"]])
        if get("attn_logit_softcapping"):
            writer.add_attn_logit_softcapping(get("attn_logit_softcapping"))
            writer.add_final_logit_softcapping(get("final_logit_softcapping"))
    if architecture == "gptneox":
        writer.add_parallel_residual(get("use_parallel_residual"))
    rope = config.get("rope_parameters")
    if not rope:
        return
    full = rope.get("full_attention", rope)
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_dimension_count(int(head * full.get("partial_rotary_factor", 1)))
    if rope.get("rope_type") == "llama3":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope, head))


def main():
    for model, architecture in MODELS.items():
        config = json.loads((HERE / "models" / model / "config.json").read_text())
        writer = gguf.GGUFWriter(HERE / "gguf" / f"{model}.gguf", architecture)
        write_settings(writer, architecture, config)
        for name, values in load_file(HERE / "models" / model / "model.safetensors").items():
            theirs = new_name(architecture, name)
            if theirs:
                writer.add_tensor(theirs, convert(architecture, theirs, values.astype(np.float32), config))
            else:
                print(model, "leaves out", name)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


if __name__ == "__main__":
    main()
