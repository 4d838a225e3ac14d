# SPDX-License-Identifier: MIT
"""Makes layers/: attention layers of models as they are published, for `multihead mha --layer`.

    VENV/bin/python make_layers.py          # packages of make_models.py

Families that make_models.py covers are taken from models/. For the others small random models are written to
layers/NAME: ViT under its names before and since transformers 5, CLIP, Whisper under Hugging Face's and OpenAI's names, a
timm block. layers/expected.safetensors has of each layer the input x (T, D), for cross-attention also the memory
(S, D), and y (T, D), the output projection's result in the model's own eager forward pass in float64, rounded to f32.
"""
import json
import pathlib

import torch
import transformers
from make_models import sort_header
from safetensors.torch import save_file
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "layers"
T, S = 7, 5


def scaled(model):
    """Random weights that make heads attend to something, and that are f16 in the file."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * (0.4 if p.ndim > 1 else 0.2))
            if p.ndim == 1 and "norm" in name and name.endswith("weight"):
                p.add_(1)
            p.copy_(p.half())
    return model.double().eval()


def captured(model, query, out, run, key=None):
    """What goes into a layer's projections, and what comes out of it."""
    found = {}
    modules = dict(model.named_modules())
    hooks = [modules[query].register_forward_hook(lambda m, i, o: found.update(x=i[0])),
             modules[out].register_forward_hook(lambda m, i, o: found.update(y=o))]
    if key:
        hooks.append(modules[key].register_forward_hook(lambda m, i, o: found.update(memory=i[0])))
    with torch.no_grad():
        run(model)
    for hook in hooks:
        hook.remove()
    return {name: t.detach().reshape(-1, t.shape[-1]).float().contiguous() for name, t in found.items()}


# ---- models of make_models.py: name, class, layer, stack, and the modules of q, of the output, and of a memory's k

L = "model.layers.1.self_attn."
KNOWN = [
    ("bert", "BertModel", 0, "", "encoder.layer.0.attention.self.query", "encoder.layer.0.attention.output.dense", None),
    ("roberta-mlm", "RobertaForMaskedLM", 0, "", "roberta.encoder.layer.0.attention.self.query",
     "roberta.encoder.layer.0.attention.output.dense", None),
    ("distilbert-mlm", "DistilBertForMaskedLM", 1, "", "distilbert.transformer.layer.1.attention.q_lin",
     "distilbert.transformer.layer.1.attention.out_lin", None),
    ("gpt2", "GPT2LMHeadModel", 1, "", "transformer.h.1.attn.c_attn", "transformer.h.1.attn.c_proj", None),
    *((name, kind, 1, "", L + "q_proj", L + "o_proj", None) for name, kind in [
        ("llama", "LlamaForCausalLM"), ("llama-scaled", "LlamaForCausalLM"), ("mistral", "MistralForCausalLM"),
        ("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM"), ("gemma2", "Gemma2ForCausalLM"),
        ("gemma3", "Gemma3ForCausalLM")]),
    ("gemma2", "Gemma2ForCausalLM", 0, "", L.replace("1", "0") + "q_proj", L.replace("1", "0") + "o_proj", None),
    ("gemma3", "Gemma3ForCausalLM", 0, "", L.replace("1", "0") + "q_proj", L.replace("1", "0") + "o_proj", None),
    ("gpt_neox", "GPTNeoXForCausalLM", 1, "", "gpt_neox.layers.1.attention.query_key_value",
     "gpt_neox.layers.1.attention.dense", None),
    *((name, kind, 1, stack, f"model.{base}.q_proj", f"model.{base}.out_proj",
       f"model.{base}.k_proj" if stack == "cross" else None)
      for name, kind in [("bart", "BartForConditionalGeneration"), ("marian", "MarianMTModel")]
      for stack, base in [("encoder", "encoder.layers.1.self_attn"), ("decoder", "decoder.layers.1.self_attn"),
                          ("cross", "decoder.layers.1.encoder_attn")]),
    *(("t5", "T5ForConditionalGeneration", 1, stack, base + ".q", base + ".o", base + ".k" if stack == "cross" else None)
      for stack, base in [("encoder", "encoder.block.1.layer.0.SelfAttention"),
                          ("decoder", "decoder.block.1.layer.0.SelfAttention"),
                          ("cross", "decoder.block.1.layer.1.EncDecAttention")]),
]


def run_text(model):
    ids = torch.arange(3, 3 + T)[None]
    if model.config.is_encoder_decoder:
        model(input_ids=torch.arange(3, 3 + S)[None], decoder_input_ids=ids)
    else:
        model(input_ids=ids)


def known():
    for name, kind, layer, stack, query, out, key in KNOWN:
        model = getattr(transformers, kind).from_pretrained(HERE / "models" / name, attn_implementation="eager",
                                                            dtype=torch.float64).eval()
        yield f"models/{name}", layer, stack, captured(model, query, out, run_text, key)


# ---- others, which are written


def write(name, state, config):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: v.half().contiguous() for k, v in state.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    sort_header(folder / "model.safetensors")
    if config:
        (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


SIZES = dict(hidden_size=16, intermediate_size=8, num_hidden_layers=2, num_attention_heads=4)


def attention_only(state):
    """Layers' attention is all that is read."""
    return {k: v for k, v in state.items() if "attn" in k or "attention" in k}


def vit():
    config = transformers.ViTConfig(**SIZES, image_size=4, patch_size=2, num_channels=1, attn_implementation="eager")
    model = scaled(transformers.ViTModel(config))
    state = model.state_dict()
    query = next(n for n, _ in model.named_modules() if n.endswith("layers.1.attention.q_proj"))
    base = query[:-len("q_proj")]
    result = captured(model, query, base + "o_proj", lambda m: m(pixel_values=torch.randn(1, 1, 4, 4).double()))
    old = {"q_proj": "attention.query", "k_proj": "attention.key", "v_proj": "attention.value", "o_proj": "output.dense"}
    new_names, old_names = {}, {}
    for name, t in attention_only(state).items():
        number, stem, kind = name.split("layers.")[1].replace(".attention.", ".").split(".")
        new_names[f"vit.layers.{number}.attention.{stem}.{kind}"] = t
        old_names[f"vit.encoder.layer.{number}.attention.{old[stem]}.{kind}"] = t
    kept = dict(model_type="vit", **SIZES)
    write("vit", new_names, kept)
    write("vit-old", old_names, kept)
    yield "layers/vit", 1, "", result
    yield "layers/vit-old", 1, "", result


def clip():
    text = transformers.CLIPTextConfig(**SIZES, vocab_size=20, max_position_embeddings=16, eos_token_id=19)
    vision = transformers.CLIPVisionConfig(**{**SIZES, "num_attention_heads": 2}, image_size=4, patch_size=2)
    config = transformers.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=8,
                                     attn_implementation="eager")
    model = scaled(transformers.CLIPModel(config))

    def run(m):
        m(input_ids=torch.arange(3, 3 + T)[None], pixel_values=torch.randn(1, 3, 4, 4).double())

    write("clip", attention_only(model.state_dict()), dict(
        model_type="clip", text_config=dict(model_type="clip_text_model", **SIZES),
        vision_config=dict(model_type="clip_vision_model", **{**SIZES, "num_attention_heads": 2})))
    for stack in ("vision", "text"):
        base = f"{stack}_model.encoder.layers.1.self_attn."
        yield "layers/clip", 1, stack, captured(model, base + "q_proj", base + "out_proj", run)


def whisper():
    config = transformers.WhisperConfig(
        d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
        encoder_ffn_dim=8, decoder_ffn_dim=8, vocab_size=20, num_mel_bins=4, max_source_positions=S,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        attn_implementation="eager")
    model = scaled(transformers.WhisperModel(config))
    state = attention_only(model.state_dict())
    state = {k: v for k, v in state.items() if "layer_norm" not in k}
    write("whisper", {"model." + k: v for k, v in state.items()}, dict(
        model_type="whisper", d_model=64, encoder_attention_heads=1, decoder_attention_heads=1))
    names = [("layers.", "blocks."), ("encoder_attn.", "cross_attn."), ("self_attn.", "attn."), ("q_proj", "query"),
             ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out")]
    theirs = {}
    for name, t in state.items():
        for ours, other in names:
            name = name.replace(ours, other)
        theirs[name] = t
    write("whisper-openai", theirs, None)

    def run(m):
        m(input_features=torch.randn(1, 4, 2 * S).double(), decoder_input_ids=torch.arange(3, 3 + T)[None])

    for stack, base in [("encoder", "encoder.layers.0.self_attn."), ("decoder", "decoder.layers.0.self_attn."),
                        ("cross", "decoder.layers.0.encoder_attn.")]:
        result = captured(model, base + "q_proj", base + "out_proj", run, base + "k_proj" if stack == "cross" else None)
        yield "layers/whisper", 0, stack, result
        yield "layers/whisper-openai", 0, stack, result


def timm():
    """timm's Attention: one qkv matrix, stacked, without a config that has the heads."""
    D, H = 16, 4
    torch.manual_seed(2)
    qkv, proj = (nn.Linear(D, n).half().double() for n in (3 * D, D))
    x = torch.randn(T, D).double()
    with torch.no_grad():
        q, k, v = qkv(x).reshape(T, 3, H, D // H).permute(1, 2, 0, 3)
        y = proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(T, D))
    write("timm", {f"blocks.0.attn.{name}.{k}": t.detach() for name, m in [("qkv", qkv), ("proj", proj)]
                   for k, t in m.state_dict().items()}, None)
    yield "layers/timm", 0, "", dict(x=x.float(), y=y.float())


def main():
    OUT.mkdir(exist_ok=True)
    expected, cases = {}, []
    for source in (known, vit, clip, whisper, timm):
        torch.manual_seed(0)
        for folder, layer, stack, tensors in source():
            case = f"{folder}:{layer}:{stack}"
            cases.append(case)
            expected.update({f"{case}:{name}": t.clone() for name, t in tensors.items()})
    save_file(expected, OUT / "expected.safetensors",
              metadata={"cases": "\n".join(cases), "transformers": transformers.__version__, "torch": torch.__version__})
    sort_header(OUT / "expected.safetensors")
    print(f"{len(cases)} layers")


main()
