#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes smollm2_expected.safetensors: what transformers and tokenizers compute for SmolLM2-135M-Instruct from the
weights and the vocabulary of its GGUF file, which the gguf package dequantises.

    python3 tests/goldens/make_smollm2.py $(python3 tools/fetch_models.py smollm2)

Needs torch, transformers 5, tokenizers, safetensors and gguf 0.19. It has token ids of texts, the ids of a greedy
answer to a question, and every 16th logit of the question's last token in float64, with the error of transformers
in float32 as metadata.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
PROMPT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n")
TEXTS = [PROMPT, "Gravity is", "", " ", "  two spaces\n\n\nlines\t", "3.14159 and 2,000,000", "I'll don't WE'VE it's",
         "na\u00efve caf\u00e9 \u4f60\u597d \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \U0001f600\u200d",
         "def f(x):\n    return x**2  # square", "<|im_end|>x<|endoftext|>", "\u00a0\u2003e\u0301"]
STEP = 16


def interleaved(weight, heads):
    """Undoes the permutation of q and k for pairs of neighbours."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def load_model(reader):
    def field(name):
        return reader.fields["llama." + name].contents()

    weights = {t.name: torch.from_numpy(np.array(gguf.quants.dequantize(t.data, t.tensor_type), np.float32).reshape(
        [int(n) for n in reversed(t.shape)])) for t in reader.tensors}
    heads, kv_heads, layers = field("attention.head_count"), field("attention.head_count_kv"), field("block_count")
    state = {"model.embed_tokens.weight": weights["token_embd.weight"],
             "model.norm.weight": weights["output_norm.weight"]}
    for layer in range(layers):
        for name, theirs in NAMES.items():
            weight = weights[f"blk.{layer}.{name}.weight"]
            if name in ("attn_q", "attn_k"):
                weight = interleaved(weight, heads if name == "attn_q" else kv_heads)
            state[f"model.layers.{layer}.{theirs}.weight"] = weight
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=field("embedding_length"), num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, intermediate_size=field("feed_forward_length"),
        vocab_size=weights["token_embd.weight"].shape[0], max_position_embeddings=field("context_length"),
        rms_norm_eps=field("attention.layer_norm_rms_epsilon"), tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": field("rope.freq_base")}))
    missing, surplus = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not surplus
    model.tie_weights()
    return model.eval()


def load_tokenizer(reader):
    """As the original tokenizer.json has it: digits one by one, then GPT-2's pattern."""
    def field(name):
        return reader.fields["tokenizer.ggml." + name].contents()

    assert field("pre") == "smollm"
    names = field("tokens")
    tokenizer = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)},
                                     merges=[tuple(merge.split(" ")) for merge in field("merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(names[i], special=True, normalized=False)
                                  for i, kind in enumerate(field("token_type")) if kind == gguf.TokenType.CONTROL])
    return tokenizer


def main():
    path = next(pathlib.Path(sys.argv[1]).glob("*.gguf"))
    reader = gguf.GGUFReader(path)
    tokenizer, model = load_tokenizer(reader), load_model(reader)
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    prompt = encoded[0]
    with torch.no_grad():
        ids = torch.tensor([prompt])
        single = model(ids).logits[0, -1].double()
        end = reader.fields["tokenizer.ggml.eos_token_id"].contents()
        answer = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=32,
                                eos_token_id=end, pad_token_id=end)[0, len(prompt):].tolist()
        logits = model.double()(ids).logits[0, -1]
    error = (single - logits).abs().max().item()
    print(repr(tokenizer.decode(answer)), answer, "error of f32:", error, "largest:", logits.abs().max().item())
    save_file({"ids": np.array([i for e in encoded for i in e], np.int64),
               "lengths": np.array([len(e) for e in encoded], np.int64), "answer": np.array(answer, np.int64),
               "logits": logits[::STEP].float().numpy()}, HERE / "smollm2_expected.safetensors",
              {"texts": json.dumps(TEXTS), "error.logits": repr(error), "step": str(STEP),
               "answer": tokenizer.decode(answer)})


if __name__ == "__main__":
    main()
