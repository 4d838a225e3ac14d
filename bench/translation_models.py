# SPDX-License-Identifier: MIT
"""The models of bench/compare_translating.py: what CTranslate2 needs of them.

A model has `tokens(texts)`, lists of tokens as CTranslate2 takes them; `ids`, {token: id}; and
`convert(out)`, which writes it to a new folder and returns CTranslate2's version.
"""

import json

import ctranslate2
import tokenizers

import ctranslate2_model


class OwnModel:
    """A folder of `multihead train`."""

    def __init__(self, folder):
        self.folder = folder
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.ids = self.tokenizer.get_vocab()

    def tokens(self, texts):
        """Without the end of sentence, which the converted model appends."""
        return [e.tokens for e in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def convert(self, out):
        """By names of tensors."""
        return ctranslate2_model.convert(self.folder, self.tokenizer, out)


class MarianModel:
    """A published folder, through transformers."""

    def __init__(self, folder):
        import transformers  # only in the environment of `make compare-marian`
        self.folder = folder
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.ids = self.tokenizer.get_vocab()

    def tokens(self, texts):
        """With the end of sentence."""
        return [self.tokenizer.convert_ids_to_tokens(self.tokenizer.encode(text))
                for text in texts]

    def convert(self, out):
        """By CTranslate2's own converter."""
        ctranslate2.converters.TransformersConverter(str(self.folder)).convert(str(out))
        return ctranslate2.__version__


def open_model(folder):
    """The one or the other."""
    config = json.loads((folder / "config.json").read_text())
    return MarianModel(folder) if config.get("model_type") == "marian" else OwnModel(folder)
