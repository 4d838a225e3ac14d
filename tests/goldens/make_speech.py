# SPDX-License-Identifier: MIT
"""Makes the folders of models/ whose models hear, as make_models.py does for texts.

    VENV/bin/python make_speech.py [NAME...]        # the same packages as make_models.py, and openai-whisper==20250625

models/NAME/expected.safetensors has, in float64 stored as f32,

    in.input_features (B, mels, frames), in.decoder_input_ids (B, T)     none are padded
    out.encoder.hidden.I, out.encoder.attention.I, out.decoder.hidden.I, out.decoder.attention.I, out.cross.I, out.logits
    greedy.ids (B, N)           the likeliest tokens after the first

with errors and sabotage in its metadata as make_models.py describes them. "whisper-openai" is written as OpenAI's own
file, in f16; the results are of transformers, and are compared with those of the package openai-whisper.
"""
import base64
import json
import shutil
import sys

import torch
import transformers
import whisper as openai
from make_models import B, HERE, V, Watch, build, randomize, rescale, rms, sort_header
from safetensors.torch import save_file

T, STEPS = 8, 12
QK = r"[qk]_proj\."
WHISPER = dict(vocab_size=V, num_mel_bins=8, d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=40,
               decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=40, max_source_positions=18,
               max_target_positions=24, pad_token_id=1, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2,
               suppress_tokens=[], begin_suppress_tokens=[])
# of OpenAI's files sizes are those of the tensors, and heads are 64 wide
OPENAI = dict(WHISPER, vocab_size=280, d_model=64, encoder_layers=1, encoder_attention_heads=1, encoder_ffn_dim=256, decoder_layers=1,
              decoder_attention_heads=1, decoder_ffn_dim=256)
CLASS = "WhisperForConditionalGeneration"
MODELS = {"whisper": dict(cls=CLASS, config=WHISPER, scaled=QK), "whisper-openai": dict(cls=CLASS, config=OPENAI, scaled=QK)}
# Hugging Face's part of a name: OpenAI's
NAMES = [("model.", ""), (".layers.", ".blocks."), ("encoder_attn_layer_norm", "cross_attn_ln"),
         ("self_attn_layer_norm", "attn_ln"), ("encoder_attn", "cross_attn"), ("self_attn", "attn"),
         ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"), ("final_layer_norm", "mlp_ln"),
         ("fc1", "mlp.0"), ("fc2", "mlp.2"), ("embed_tokens", "token_embedding"),
         ("embed_positions.weight", "positional_embedding"), ("encoder.layer_norm", "encoder.ln_post"),
         ("decoder.layer_norm", "decoder.ln")]


def make_inputs(config):
    generator = torch.Generator().manual_seed(10)
    features = torch.randn(B, config["num_mel_bins"], 2 * config["max_source_positions"], generator=generator)
    ids = torch.randint(5, config["vocab_size"], (B, T), generator=generator)
    ids[:, 0] = config["decoder_start_token_id"]
    return dict(input_features=features, decoder_input_ids=ids)


def outputs_of(net, inputs):
    result = net(**inputs, output_attentions=True, output_hidden_states=True)
    groups = [("encoder.hidden", "encoder_hidden_states"), ("encoder.attention", "encoder_attentions"),
              ("decoder.hidden", "decoder_hidden_states"), ("decoder.attention", "decoder_attentions"),
              ("cross", "cross_attentions")]
    named = {f"out.{name}.{i}": values for name, key in groups for i, values in enumerate(getattr(result, key))}
    return named | {"out.logits": result.logits}


def run(net, inputs, **watch):
    with torch.no_grad(), Watch(**watch):
        return outputs_of(net, inputs)


def greedy(net, inputs):
    ids = inputs["decoder_input_ids"][:, :1]
    for _ in range(STEPS):
        with torch.no_grad(), Watch(double=True):
            best = net(input_features=inputs["input_features"], decoder_input_ids=ids).logits[:, -1].topk(2)
        if (best.values[:, 0] - best.values[:, 1]).min() < 1e-3:
            raise SystemExit(f"{best.values} are too close to tell")
        ids = torch.cat([ids, best.indices[:, :1]], 1)
    return ids[:, 1:]


def sabotage(model, state, inputs, expected):
    """By how much (RMS) logits move when something is wrong."""
    net = build(model, torch.float64)
    net.load_state_dict(state)

    def moved(**watch):
        return rms(run(net, inputs, double=True, **watch)["out.logits"] - expected["out.logits"])

    found = {"scale": moved(scale=1.25)}
    if model["config"]["encoder_attention_heads"] > 1:
        found["heads"] = moved(roll=1)
    with torch.no_grad(), Watch(double=True):  # a mask of (B, 1, T, T) is used as it is
        seen = net(**inputs, decoder_attention_mask=torch.zeros(B, 1, T, T, dtype=torch.float64)).logits
    found["mask"] = rms(seen - expected["out.logits"])
    for part in ("encoder", "decoder"):
        other = build(model, torch.float64)
        other.load_state_dict(state)
        getattr(other.model, part).embed_positions.weight.data.zero_()
        found[f"positions.{part}"] = rms(run(other, inputs, double=True)["out.logits"] - expected["out.logits"])
    return found


def save_openai(net, config, folder):
    """OpenAI's file; what its own package computes with it must be the same."""
    folder.mkdir()
    state = {}
    for name, values in net.state_dict().items():
        for theirs, other in NAMES:
            name = name.replace(theirs, other)
        if name != "proj_out.weight":
            state[name] = values.half()
    dims = dict(n_mels=config["num_mel_bins"], n_audio_ctx=config["max_source_positions"], n_audio_state=config["d_model"],
                n_audio_head=config["encoder_attention_heads"], n_audio_layer=config["encoder_layers"], n_vocab=config["vocab_size"],
                n_text_ctx=config["max_target_positions"], n_text_state=config["d_model"],
                n_text_head=config["decoder_attention_heads"], n_text_layer=config["decoder_layers"])
    torch.save(dict(dims=dims, model_state_dict=state), folder / "whisper.pt")
    lines = [f"{base64.b64encode(bytes([i])).decode()} {i}\n" for i in range(256)]
    (folder / "bytes.tiktoken").write_text("".join(lines))
    other = openai.model.Whisper(openai.model.ModelDimensions(**dims))
    other.load_state_dict({k: v.float() for k, v in state.items()})
    inputs = make_inputs(config)
    with torch.no_grad():
        ours = net(**inputs).logits
        theirs = other.eval()(inputs["input_features"], inputs["decoder_input_ids"])
    if not torch.allclose(ours, theirs, atol=1e-3):
        raise SystemExit(f"openai-whisper: logits differ by {(ours - theirs).abs().max()}")


def make(name, model):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    single = build(model, torch.float32)
    for parameter in single.parameters():
        parameter.requires_grad = True  # the encoder's positions, too
    inputs = make_inputs(model["config"])
    randomize(single, 0, 0.5)
    for key, parameter in single.named_parameters():
        if "conv" in key and parameter.dim() == 3:  # randomize() has its input channels only
            parameter.data /= 3 ** 0.5
    scores = rescale(single, model, inputs)
    if name.endswith("openai"):
        for parameter in single.parameters():
            parameter.data = parameter.data.half().float()
        save_openai(single, model["config"], folder)
    else:
        single.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
    double = build(model, torch.float64)
    double.load_state_dict(single.state_dict())
    inputs64 = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    expected = run(double, inputs64, double=True)
    moved = sabotage(model, single.state_dict(), inputs64, expected)
    errors = {}
    for key, values in run(single, inputs).items():
        off = values.double() - expected[key]
        errors[key] = (off.abs().max().item(), rms(off), expected[key].abs().max().item())
    tensors = {"in." + k: v for k, v in inputs.items()} | {k: v.float() for k, v in expected.items()}
    tensors["greedy.ids"] = greedy(double, inputs64)
    metadata = {"family": single.config.model_type, "class": model["cls"], "scores": " ".join(f"{s:.3g}" for s in scores)}
    metadata |= {f"sabotage.{k}": f"{v:.3e}" for k, v in moved.items()}
    metadata |= {f"error.{k}": "%.3e %.3e %.3e" % e for k, e in errors.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "expected.safetensors", metadata)
    sort_header(folder / "expected.safetensors")
    size = sum(p.stat().st_size for p in folder.iterdir())
    print(f"{name:14} {size / 1024:4.0f} KiB, scores {min(scores):.3g} to {max(scores):.3g}, "
          f"f32 error {errors['out.logits'][0]:.2e}, moved {json.dumps({k: float(f'{v:.3g}') for k, v in moved.items()})}")


def main(wanted):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    for name in wanted or MODELS:
        make(name, MODELS[name])


if __name__ == "__main__":
    main(sys.argv[1:])
