# SPDX-License-Identifier: MIT
"""The models of bench/compare_generation.py, in the formats that its contenders read.

SmolLM2-135M-Instruct comes as a GGUF file in Q4_1; GPT-2 small has the weights that transformers
gives a new model. All formats have the same weights: dequantised for f32, and rounded from that for
bf16 and f16. They are made once, in a folder:

    gpt2/, smollm2/                   Hugging Face: config.json, model.safetensors in f32, tokenizer
    gpt2-ct2/, smollm2-ct2/           CTranslate2, f32; it quantises when it loads
    gpt2-f32.gguf, -bf16, -f16        llama.cpp; also smollm2-...
"""

import shutil

import ctranslate2
import gguf
import numpy as np
import tokenizers
import torch
import transformers

from compare_run import say

TYPES = {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16,
         "f16": gguf.GGMLQuantizationType.F16}
MODELS = ["smollm2", "gpt2"]


# ---- Hugging Face ----------------------------------------------------------------------------

def save_smollm2(source, folder):
    """The GGUF file, dequantised."""
    read = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32)
    del read.config.quantization_config  # or it would not be saved
    model = type(read)(read.config)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(
        source.parent, gguf_file=source.name).save_pretrained(folder)


def save_gpt2(folder):
    """GPT-2 small with random weights; its tokens are numbers, the last one ends a text."""
    torch.manual_seed(0)
    config = transformers.GPT2Config()
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    words = {str(i): i for i in range(config.vocab_size)}
    last = str(config.vocab_size - 1)
    model = tokenizers.models.WordLevel(words, unk_token=last)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model), bos_token=last, eos_token=last,
        unk_token=last, model_max_length=config.n_positions).save_pretrained(folder)


# ---- GGUF ------------------------------------------------------------------------------------

def write_gguf(path, architecture, fields, tensors, kind):
    """Matrices in `kind`, vectors in f32; `fields` adds the metadata."""
    writer = gguf.GGUFWriter(str(path), architecture)
    fields(writer)
    for name, tensor in tensors:
        tensor = np.ascontiguousarray(tensor, np.float32)
        as_type = TYPES[kind] if tensor.ndim > 1 else TYPES["f32"]
        writer.add_tensor(name, gguf.quants.quantize(tensor, as_type), raw_dtype=as_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def copy_fields(reader, writer):
    """The metadata of a GGUF file, but for what the writer adds itself."""
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kinds = field.types
        writer.add_key_value(field.name, field.contents(), kinds[0],
                             kinds[-1] if len(kinds) > 1 else None)


def smollm2_gguf(source, path, kind):
    """The GGUF file, dequantised to f32 and rounded to `kind`."""
    reader = gguf.GGUFReader(str(source))
    write_gguf(path, "llama", lambda writer: copy_fields(reader, writer),
               ((t.name, gguf.quants.dequantize(t.data, t.tensor_type)) for t in reader.tensors),
               kind)


GPT2_NAMES = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
              "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def gpt2_tensors(weights, layers):
    """(llama.cpp's name, tensor); GPT-2 stores matrices as (in, out)."""
    yield "token_embd.weight", weights["transformer.wte.weight"]
    yield "position_embd.weight", weights["transformer.wpe.weight"]
    for i in range(layers):
        for theirs, name in GPT2_NAMES.items():
            for part in ("weight", "bias"):
                yield f"blk.{i}.{name}.{part}", weights[f"transformer.h.{i}.{theirs}.{part}"].T
    for part in ("weight", "bias"):
        yield f"output_norm.{part}", weights[f"transformer.ln_f.{part}"]


def gpt2_gguf(folder, path, kind):
    """The Hugging Face folder as GGUF, without tokenizer."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    config = model.config

    def fields(writer):
        writer.add_context_length(config.n_positions)
        writer.add_embedding_length(config.n_embd)
        writer.add_feed_forward_length(4 * config.n_embd)
        writer.add_block_count(config.n_layer)
        writer.add_head_count(config.n_head)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        writer.add_vocab_size(config.vocab_size)
        writer.add_tokenizer_model("none")

    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    write_gguf(path, "gpt2", fields, gpt2_tensors(weights, config.n_layer), kind)


# ---- all of them -----------------------------------------------------------------------------

def make_once(path, make):
    """Calls make(part) and renames what it makes, unless `path` is there."""
    if path.exists():
        return path
    say(f"making {path.name}")
    part = path.with_name("part-" + path.name)
    if part.is_dir():
        shutil.rmtree(part)
    make(part)
    part.rename(path)
    return path


class Files:
    """Where the formats of a model are; each is made when it is first asked for."""

    def __init__(self, name, source, folder):
        self.name, self.source, self.folder = name, source, folder
        folder.mkdir(parents=True, exist_ok=True)

    def hugging_face(self):
        """A directory."""
        if self.name == "smollm2":
            return make_once(self.folder / "smollm2", lambda to: save_smollm2(self.source, to))
        return make_once(self.folder / "gpt2", save_gpt2)

    def ours(self):
        """What multihead loads: the published file, or the directory."""
        return self.source if self.name == "smollm2" else self.hugging_face()

    def ctranslate2(self):
        """A directory."""
        convert = ctranslate2.converters.TransformersConverter(str(self.hugging_face())).convert
        return make_once(self.folder / f"{self.name}-ct2", lambda to: convert(str(to), force=True))

    def gguf(self, kind):
        """A file."""
        path = self.folder / f"{self.name}-{kind}.gguf"
        if self.name == "smollm2":
            return make_once(path, lambda to: smollm2_gguf(self.source, to, kind))
        return make_once(path, lambda to: gpt2_gguf(self.hugging_face(), to, kind))
