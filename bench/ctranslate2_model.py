# SPDX-License-Identifier: MIT
"""A model folder of ours as one of CTranslate2: the same weights under its names."""

import json
from pathlib import Path

import ctranslate2
import numpy as np
import safetensors.torch
from ctranslate2.specs import TransformerSpec, common_spec

ACTIVATIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU,
               "gelu_tanh": common_spec.Activation.GELUTanh, "silu": common_spec.Activation.SWISH}


def positions(length, width):
    """sin and cos in turn: (length, width)"""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width).astype(np.float32)


class Converter:
    """Fills a TransformerSpec; `weights` has PyTorch's names."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.config = json.loads((self.folder / "config.json").read_text())
        self.weights = {name: tensor.float().numpy() for name, tensor in
                        safetensors.torch.load_file(self.folder / "model.safetensors").items()}

    def set_linear(self, spec, weight, bias, rows=slice(None)):
        """These rows of a linear layer."""
        spec.weight = np.ascontiguousarray(self.weights[weight][rows])
        spec.bias = np.ascontiguousarray(self.weights[bias][rows])

    def set_norm(self, spec, name):
        """A layer norm."""
        spec.gamma, spec.beta = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def set_attention(self, spec, name, norm):
        """Queries, keys and values are one matrix; for cross-attention queries are apart."""
        weight, bias, width = f"{name}.in_proj_weight", f"{name}.in_proj_bias", self.config["d_model"]
        if len(spec.linear) == 2:
            self.set_linear(spec.linear[0], weight, bias)
        else:
            self.set_linear(spec.linear[0], weight, bias, slice(0, width))
            self.set_linear(spec.linear[1], weight, bias, slice(width, None))
        self.set_linear(spec.linear[-1], f"{name}.out_proj.weight", f"{name}.out_proj.bias")
        self.set_norm(spec.layer_norm, norm)

    def set_feed_forward(self, spec, name, norm):
        """Both layers."""
        self.set_linear(spec.linear_0, f"{name}.linear1.weight", f"{name}.linear1.bias")
        self.set_linear(spec.linear_1, f"{name}.linear2.weight", f"{name}.linear2.bias")
        self.set_norm(spec.layer_norm, norm)

    def set_stack(self, spec, embeddings, name):
        """What encoder and decoder have in common."""
        embeddings.weight = self.weights["embedding.weight"]
        spec.position_encodings.encodings = positions(self.config["max_length"],
                                                      self.config["d_model"])
        if self.config["norm_first"]:
            self.set_norm(spec.layer_norm, f"{name}.norm")
        for i, layer in enumerate(spec.layer):
            at = f"{name}.layers.{i}"
            norms = [f"{at}.norm1", f"{at}.norm2", f"{at}.norm3"]
            self.set_attention(layer.self_attention, f"{at}.self_attn", norms[0])
            if name == "decoder":
                self.set_attention(layer.attention, f"{at}.multihead_attn", norms[1])
            self.set_feed_forward(layer.ffn, at, norms[2 if name == "decoder" else 1])

    def spec(self):
        """The whole model."""
        config = self.config
        spec = TransformerSpec.from_config(
            (config["num_encoder_layers"], config["num_decoder_layers"]), config["nhead"],
            pre_norm=config["norm_first"], activation=ACTIVATIONS[config["activation"]])
        self.set_stack(spec.encoder, spec.encoder.embeddings[0], "encoder")
        self.set_stack(spec.decoder, spec.decoder.embeddings, "decoder")
        spec.decoder.projection.weight = self.weights["embedding.weight"]
        spec.decoder.projection.bias = np.zeros(len(self.weights["embedding.weight"]), np.float32)
        spec.config.unk_token = "<pad>"  # there are no unknown tokens; disable_unk keeps it out
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = 1e-5
        return spec


def vocabulary(tokenizer):
    """Tokens in the order of their ids."""
    return [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]


def convert(folder, tokenizer, out):
    """Writes the model in `folder` to the new folder `out`."""
    spec, tokens = Converter(folder).spec(), vocabulary(tokenizer)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize()
    out.mkdir()
    spec.save(str(out))
    return ctranslate2.__version__
