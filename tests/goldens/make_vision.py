# SPDX-License-Identifier: MIT
"""Makes the folders of models/ whose models read pictures, as make_models.py does for texts.

    VENV/bin/python make_vision.py [NAME...]        # the same packages as make_models.py, and pillow

models/NAME/expected.safetensors has, in float64 stored as f32,

    in.pixels (B, 3, S, S), in.wide (B, 3, H, W): of another size, whose positions are interpolated
    out.hidden.I, out.attention.I, out.last (after the final norm), out.logits, out.pooled
    out.wide   logits, or the last hidden states, of in.wide
    clip: in.input_ids, in.attention_mask, out.text.hidden.I, ..., out.image_embeds, out.text_embeds, out.logits

with errors and sabotage in its metadata as make_models.py describes them. "vit-renamed" is written with the names
that transformers 5 has in memory.
"""
import json
import shutil
import sys

import torch
import transformers
from make_models import B, HERE, LENGTHS, V, Watch, build, randomize, rescale, rms, sort_header
from safetensors.torch import load_file, save_file

VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, image_size=16, patch_size=4)
LABELS = dict(id2label={0: "cat", 1: "dog", 2: "ship"}, label2id={"cat": 0, "dog": 1, "ship": 2})
WIDE = (20, 28)
QK = r"[qk]_proj\.|query\.|key\."
CLIP = dict(vision_config=dict(VIT), projection_dim=24,
            text_config=dict(vocab_size=V, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                             intermediate_size=40, max_position_embeddings=20, eos_token_id=98, bos_token_id=97))

# name: class, options of its config, and
#   wrong     further kinds of sabotage, as options of the config
#   dropped   parameters that are set to 1 (a scale) or 0: kind -> regular expression, value
MODELS = {
    "vit": dict(cls="ViTForImageClassification", config=dict(VIT, **LABELS)),
    "vit-renamed": dict(cls="ViTModel", config=dict(VIT, qkv_bias=False, hidden_act="gelu_new", num_channels=1),
                        renamed=True),
    "deit": dict(cls="DeiTForImageClassificationWithTeacher", config=dict(VIT, **LABELS)),
    "deit-student": dict(cls="DeiTForImageClassification", config=dict(VIT, **LABELS, num_hidden_layers=1)),
    "dinov2": dict(cls="Dinov2ForImageClassification", config=dict(VIT, **LABELS, mlp_ratio=2),
                   dropped=dict(layer_scale=("lambda1", 1.0))),
    "dinov2-gated": dict(cls="Dinov2Model", config=dict(VIT, num_hidden_layers=1, use_swiglu_ffn=True),
                         dropped=dict(layer_scale=("lambda1", 1.0))),
    "clip": dict(cls="CLIPModel", config=CLIP),
}


def make_inputs(model):
    generator = torch.Generator().manual_seed(10)
    side, channels = VIT["image_size"], model["config"].get("num_channels", 3)
    inputs = dict(pixel_values=torch.randn(B, channels, side, side, generator=generator))
    wide = torch.randn(B, channels, *WIDE, generator=generator)
    if model["cls"] == "CLIPModel":
        ids = torch.full((B, 10), 98)
        for b, n in enumerate(LENGTHS):
            ids[b, :n - 1] = torch.randint(5, V - 3, (n - 1,), generator=generator)
        inputs |= dict(input_ids=ids, attention_mask=(torch.arange(10) < torch.tensor(LENGTHS)[:, None]).long())
    return inputs, wide


def tower_outputs(prefix, result, mask=None):
    named = {}
    for kind, values in (("hidden", result.hidden_states), ("attention", result.attentions)):
        for i, value in enumerate(values):
            named[f"out.{prefix}{kind}.{i}"] = value
    named[f"out.{prefix}last"] = result.last_hidden_state
    if mask is not None:
        for name, value in named.items():
            rows = mask[:, None, :, None] if value.dim() == 4 else mask[:, :, None]
            named[name] = torch.where(rows.bool(), value, torch.zeros((), dtype=value.dtype))
    return named


def outputs_of(net, inputs, wide):
    """All results by their names in expected.safetensors."""
    more = dict(output_attentions=True, output_hidden_states=True)
    if isinstance(net, transformers.CLIPModel):
        mask = inputs["attention_mask"]
        result = net(**inputs)
        named = tower_outputs("", net.vision_model(pixel_values=inputs["pixel_values"], **more))
        named |= tower_outputs("text.", net.text_model(input_ids=inputs["input_ids"], attention_mask=mask, **more), mask)
        large = net.get_image_features(pixel_values=wide, interpolate_pos_encoding=True)
        return named | {
            "out.image_embeds": net.get_image_features(pixel_values=inputs["pixel_values"]).pooler_output,
            "out.text_embeds": net.get_text_features(input_ids=inputs["input_ids"], attention_mask=mask).pooler_output,
            "out.logits": result.logits_per_image, "out.wide": large.pooler_output}
    bare = net.base_model
    named = tower_outputs("", bare(**inputs, **more))
    interpolates = {} if "Dinov2" in type(net).__name__ else dict(interpolate_pos_encoding=True)
    large = net(pixel_values=wide, **interpolates)
    if hasattr(large, "logits"):
        named["out.logits"] = net(**inputs).logits
        named["out.wide"] = large.logits
    else:
        named["out.wide"] = large.last_hidden_state
        if "ViT" in type(net).__name__:
            named["out.pooled"] = bare(**inputs).pooler_output
    return named


def run(net, inputs, wide, **watch):
    with torch.no_grad(), Watch(**watch):
        return outputs_of(net, inputs, wide)


def main_output(named):
    return "out.logits" if "out.logits" in named else "out.last"


def sabotage(model, state, inputs, wide, expected):
    name = main_output(expected)

    def moved(change=None, **watch):
        net = build(model, torch.float64)
        net.load_state_dict(state)
        for key, parameter in net.named_parameters():
            if change and change[0] in key:
                parameter.data.fill_(change[1])
        return rms(run(net, inputs, wide, double=True, **watch)[name] - expected[name])

    found = {"scale": moved(scale=1.25), "heads": moved(roll=1), "positions": moved(("position_embedding", 0.0))}
    for kind, change in model.get("dropped", {}).items():
        found[kind] = moved(change)
    return found


def make(name, model):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    single = build(model, torch.float32)
    (inputs, wide) = make_inputs(model)
    randomize(single, 0, 0.5)
    scores = rescale(single, dict(model, scaled=QK), inputs)
    single.save_pretrained(folder)
    if model.get("renamed"):
        save_file({k: v.contiguous() for k, v in single.state_dict().items()}, folder / "model.safetensors",
                  {"format": "pt"})
    double = build(model, torch.float64)
    double.load_state_dict(single.state_dict())
    wide64 = wide.double()
    inputs64 = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    expected = run(double, inputs64, wide64, double=True)
    moved = sabotage(model, single.state_dict(), inputs64, wide64, expected)
    errors = {}
    for key, values in run(single, inputs, wide).items():
        off = values.double() - expected[key]
        errors[key] = (off.abs().max().item(), rms(off), expected[key].abs().max().item())
    tensors = {"in.pixels": inputs["pixel_values"], "in.wide": wide}
    tensors |= {"in." + k: v for k, v in inputs.items() if k != "pixel_values"}
    tensors |= {k: v.float() for k, v in expected.items()}
    metadata = {"family": single.config.model_type, "class": model["cls"], "scores": " ".join(f"{s:.3g}" for s in scores)}
    metadata |= {f"sabotage.{k}": f"{v:.3e}" for k, v in moved.items()}
    metadata |= {f"error.{k}": "%.3e %.3e %.3e" % e for k, e in errors.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "expected.safetensors", metadata)
    sort_header(folder / "expected.safetensors")
    worst = errors[main_output(expected)]
    size = sum(p.stat().st_size for p in folder.iterdir())
    print(f"{name:14} {size / 1024:4.0f} KiB, scores {min(scores):.3g} to {max(scores):.3g}, f32 error {worst[0]:.2e}, "
          f"moved {json.dumps({k: float(f'{v:.3g}') for k, v in moved.items()})}")


def main(wanted):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    for name in wanted or MODELS:
        make(name, MODELS[name])


if __name__ == "__main__":
    main(sys.argv[1:])
