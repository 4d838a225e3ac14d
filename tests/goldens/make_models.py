# SPDX-License-Identifier: MIT
"""Makes models/: tiny random Hugging Face models and what transformers computes with them.

    python3 -m venv VENV && VENV/bin/pip install torch==2.13.0 transformers==5.23.0 safetensors numpy
    VENV/bin/python make_models.py [NAME...]        # all of MODELS, or these

models/NAME/ is what save_pretrained writes, config.json and model.safetensors (f32), besides
expected.safetensors: inputs and results of the same parameters in float64, stored as f32.

    in.input_ids (B, T), in.attention_mask, in.token_type_ids, in.position_ids, in.decoder_*   I64
    out.hidden.I (B, T, D)      I = 0 the embeddings, I = L the last layer, after a final norm if any
    out.attention.I (B, H, T, S)     softmax weights of layer I
    out.encoder.hidden.I ... out.cross.I     in place of these for encoder-decoder models
    out.logits, out.pooled
    greedy.ids (B, N)           the likeliest tokens, one after the other; of decoders, those after the input   I64
    loss.logits, loss.hidden, loss.pooled    weights w of the loss, sum(w * output); 0 at padding
    grad.NAME       its gradient with respect to the tensor NAME of model.safetensors

Rows of padding are 0 in all of them. Encoders are padded on the right, decoders on the left, with
position_ids that start at 0 at the first token. A model at default initialisation has scores near 0
and proves little, so queries and keys are scaled until the largest score is near SCORE; biases and
norms are random, too. Metadata and models/index.json have per tensor the error of transformers'
own eager f32 run against float64 ("max rms", and the tensor's own "max"; of decoders the largest
of ORDERS runs whose products sum in other orders, as a single one may be lucky), and under
"sabotage" by how much out.logits (RMS; out.hidden.L where there are none) moves when the scale is
25 % off, the mask is dropped, heads are permuted, a softcap, a window or RoPE's scaling is dropped:
a test's tolerance must be far below.
"""
import json
import math
import pathlib
import re
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode

HERE = pathlib.Path(__file__).parent / "models"
B, T, LENGTHS = 3, 10, (10, 7, 4)
V = 99
GREEDY = 12  # tokens
ORDERS = 8
SCORE = 8.0  # the largest score before softmax; transformers' defaults give less than 0.01
LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}

BERT = dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
            max_position_embeddings=40)
ONE_LAYER = dict(num_hidden_layers=1, id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
ROBERTA = dict(BERT, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
DISTIL = dict(vocab_size=V, dim=32, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=40)
GPT2 = dict(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=40, n_inner=40, bos_token_id=98, eos_token_id=98)
QK_BERT = r"self\.(query|key)\."
QK_DISTIL = r"\.[qk]_lin\."

# name: class, options of its config, and
#   kind       encoder, decoder or both
#   scaled     names of the parameters that are scaled for the scores
#   embedding  standard deviation of embeddings, 0.5
#   offset     norm weights are offset + w
#   softcap    options of the config that turn soft caps off
#   untied     True: the head has values of its own, though the class ties it to the token table
#   wrong      further kinds of sabotage, as options of the config
MODELS = {
    "bert-mlm": dict(cls="BertForMaskedLM", config=BERT, kind="encoder", scaled=QK_BERT),
    "bert": dict(cls="BertModel", config=dict(BERT, num_hidden_layers=1, hidden_act="gelu_new"), kind="encoder",
                 scaled=QK_BERT),
    "bert-classifier": dict(cls="BertForSequenceClassification", config=dict(BERT, **ONE_LAYER, hidden_act="relu"),
                            kind="encoder", scaled=QK_BERT),
    "roberta-mlm": dict(cls="RobertaForMaskedLM", config=ROBERTA, kind="encoder", scaled=QK_BERT),
    "roberta-classifier": dict(cls="RobertaForSequenceClassification", config=dict(ROBERTA, **ONE_LAYER),
                               kind="encoder", scaled=QK_BERT),
    "xlm-roberta-mlm": dict(cls="XLMRobertaForMaskedLM", config=ROBERTA, kind="encoder", scaled=QK_BERT),
    "distilbert-mlm": dict(cls="DistilBertForMaskedLM", config=DISTIL, kind="encoder", scaled=QK_DISTIL),
    "distilbert-classifier": dict(
        cls="DistilBertForSequenceClassification",
        config=dict(DISTIL, n_layers=1, activation="relu", id2label=LABELS, label2id=ONE_LAYER["label2id"]),
        kind="encoder", scaled=QK_DISTIL),
    "gpt2": dict(cls="GPT2LMHeadModel", config=GPT2, kind="decoder", scaled=r"c_attn\."),
    "gpt2-untied": dict(cls="GPT2LMHeadModel", config=dict(GPT2, activation_function="relu", tie_word_embeddings=False),
                        kind="decoder", scaled=r"c_attn\."),
}


class Watch(TorchFunctionMode):
    """Keeps float64 where transformers asks for float32, notes the largest scores, spoils softmax.

    Norms, softmax and RoPE are computed in float32 by many models, whatever their type."""

    def __init__(self, double=False, scale=1.0, roll=0, order=None):
        super().__init__()
        self.double, self.scale, self.roll, self.order, self.scores = double, scale, roll, order, []

    def shuffled(self, func, args):
        """The factors of a product with the dimension that is summed over in another order."""
        order = torch.randperm(args[0].shape[-1], generator=self.order)
        if func is torch.matmul:
            return args[0][..., order], args[1][..., order, :]
        return args[0][..., order], args[1][..., order], *args[2:]

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if self.double:
            if func is torch.Tensor.float:
                func = torch.Tensor.double
            args = tuple(torch.float64 if a is torch.float32 else a for a in args)
            kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        if self.order and func in (torch.matmul, torch.nn.functional.linear):
            args = self.shuffled(func, args)
        if func is not torch.nn.functional.softmax:
            return func(*args, **kwargs)
        scores = args[0]
        allowed = scores > -1e30
        self.scores.append(scores.detach()[allowed].abs().max().item())
        weights = func(torch.where(allowed, scores * self.scale, scores), *args[1:], **kwargs)
        return weights.roll(self.roll, 1) if self.roll else weights


def build(model, dtype, **changes):
    """The model with eager attention, its parameters not yet set."""
    cls = getattr(transformers, model["cls"])
    config = cls.config_class(**dict(model["config"], **changes))
    config._attn_implementation = "eager"
    torch.set_default_dtype(dtype)
    with Watch(double=dtype == torch.float64):
        net = cls(config).to(dtype).eval()
    if model.get("untied"):
        net.lm_head.weight = torch.nn.Parameter(net.lm_head.weight.detach().clone())
    torch.set_default_dtype(torch.float32)
    return net


def randomize(net, offset, embedding):
    """Parameters of the size that trained models have: matrices keep variances, norms are near 1."""
    generator = torch.Generator().manual_seed(20)
    for name, parameter in sorted(net.named_parameters()):
        if not parameter.requires_grad:  # Marian's sinusoids
            continue
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            embeds = re.search(r"embed|wte|wpe|shared", name) is not None
            fan_in = parameter.shape[0 if "Conv1D" in type(owner(net, name)).__name__ else 1]
            values = values * (embedding if embeds else 1 / math.sqrt(fan_in))
        elif name.endswith("weight"):
            values = values * 0.3 + (1 - offset)
        else:
            values = values * 0.3
        parameter.data.copy_(values)


def owner(net, name):
    return net.get_submodule(name.rpartition(".")[0])


def rescale(net, model, inputs):
    """Scales queries and keys until the largest score of every attention is near SCORE."""
    offset = model.get("offset", 0)
    plain = model.get("softcap") and build(model, torch.float32, **model["softcap"])
    for _ in range(20):
        if plain:
            plain.load_state_dict(net.state_dict())
        watch = Watch()
        with torch.no_grad(), watch:
            (plain or net)(**inputs)
        if SCORE * 0.6 <= max(watch.scores) <= SCORE * 1.5 and min(watch.scores) >= 3:
            break
        factor = (SCORE / math.sqrt(max(watch.scores) * min(watch.scores))) ** 0.5
        for name, parameter in net.named_parameters():
            if re.search(model["scaled"], name):
                norm = offset if parameter.dim() == 1 and "norm" in name else 0
                parameter.data.copy_((parameter.data + norm) * factor - norm)
    if not (min(watch.scores) >= 3 and max(watch.scores) <= 20):
        raise SystemExit(f"scores {watch.scores}, expected 3 to 20")
    return watch.scores


def make_inputs(model, config):
    generator = torch.Generator().manual_seed(10)
    pad = config.pad_token_id if getattr(config, "pad_token_id", None) is not None else 0
    left = model["kind"] == "decoder"
    valid = torch.stack([torch.arange(T) >= T - n if left else torch.arange(T) < n for n in LENGTHS])
    ids = torch.where(valid, torch.randint(5, V - 1, (B, T), generator=generator), pad)
    inputs = dict(input_ids=ids, attention_mask=valid.long())
    if getattr(config, "type_vocab_size", 1) > 1:
        inputs["token_type_ids"] = (valid & (torch.arange(T) >= 3)).long()
    if left:
        inputs["position_ids"] = (valid.long().cumsum(1) - 1).clamp(min=0)
    if model["kind"] == "both":
        S = 8
        target = torch.stack([torch.arange(S) < n for n in (5, 8, 3)])
        ids = torch.where(target, torch.randint(5, V - 1, (B, S), generator=generator), pad)
        ids[:, 0] = config.decoder_start_token_id
        inputs.update(decoder_input_ids=ids, decoder_attention_mask=target.long())
    return inputs


def outputs_of(net, inputs):
    """All results by their names in expected.safetensors, rows of padding set to 0."""
    result = net(**inputs, output_attentions=True, output_hidden_states=True)
    source = inputs["attention_mask"].bool()
    target = inputs.get("decoder_attention_mask", inputs["attention_mask"]).bool()
    named = {}

    def add(name, values, rows):
        if values is not None and rows is not None:
            rows = rows[:, None, :, None] if values.dim() == 4 else rows[:, :, None]
            values = torch.where(rows, values, torch.zeros((), dtype=values.dtype))
        if values is not None:
            named[name] = values

    groups = [("hidden", "hidden_states", source), ("attention", "attentions", source),
              ("encoder.hidden", "encoder_hidden_states", source),
              ("encoder.attention", "encoder_attentions", source),
              ("decoder.hidden", "decoder_hidden_states", target),
              ("decoder.attention", "decoder_attentions", target), ("cross", "cross_attentions", target)]
    for name, key, rows in groups:
        for i, values in enumerate(getattr(result, key, None) or ()):
            add(f"out.{name}.{i}", values, rows)
    logits = getattr(result, "logits", None)
    add("out.logits", logits, target if logits is not None and logits.dim() == 3 else None)
    add("out.pooled", getattr(result, "pooler_output", None), None)
    return named


def last_hidden(named):
    return max((k for k in named if re.match(r"out\.(decoder\.)?hidden", k)), key=lambda k: int(k.rsplit(".")[-1]))


def loss_weights(named):
    """Fixed weights for the outputs that the loss adds up: logits, or hidden and pooled."""
    generator = torch.Generator().manual_seed(30)
    names = {"logits": "out.logits"} if "out.logits" in named else {"hidden": last_hidden(named), "pooled": "out.pooled"}
    names = {kind: name for kind, name in names.items() if name in named}
    weights = {}
    for kind, name in names.items():
        w = torch.randn(named[name].shape, generator=generator)
        if w.dim() == 3:
            w = w * (named[name].detach().abs().sum(-1, keepdim=True) > 0)
        weights[f"loss.{kind}"] = (w, name)
    return weights


def run(net, inputs, weights, **watch):
    """Outputs and gradients by name."""
    net.zero_grad()
    with Watch(**watch):
        named = outputs_of(net, inputs)
        weights = weights or loss_weights(named)
        loss = sum((w.to(named[name].dtype) * named[name]).sum() for w, name in weights.values())
    loss.backward()
    named = {k: v.detach() for k, v in named.items()}
    for name, parameter in net.named_parameters(remove_duplicate=False):  # tied ones by both names
        if parameter.grad is not None:
            named["grad." + name] = parameter.grad.detach().clone()
    return named, weights


def rms(values):
    return values.double().pow(2).mean().sqrt().item()


def greedy(net, inputs, steps=10):
    """The likeliest tokens (B, steps) after the decoder's start token, and the smallest lead of one over the next."""
    ids, lead = inputs["decoder_input_ids"][:, :1], math.inf
    for _ in range(steps):
        with torch.no_grad(), Watch(double=True):
            logits = net(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
                         decoder_input_ids=ids).logits[:, -1]
        best = logits.topk(2)
        lead = min(lead, (best.values[:, 0] - best.values[:, 1]).min().item())
        ids = torch.cat([ids, best.indices[:, :1]], 1)
    if lead < 1e-3:
        raise SystemExit(f"greedy tokens lead by {lead}, expected more than any float32 error")
    return ids[:, 1:]


def sabotage(model, state, inputs, expected):
    """By how much (RMS) the results move when something is wrong."""
    name = "out.logits" if "out.logits" in expected else last_hidden(expected)
    net = build(model, torch.float64)
    net.load_state_dict(state)

    def moved(other, inputs, **watch):
        with torch.no_grad(), Watch(double=True, **watch):
            return rms(outputs_of(other, inputs)[name] - expected[name])

    def without(key):  # the prepared mask of (B, 1, T, T) is used as it is
        rows = inputs[key].shape[1]
        result = dict(inputs)
        return dict(result, **{key: torch.zeros(B, 1, rows, rows, dtype=torch.float64)})

    def no_mask(key):
        with torch.no_grad(), Watch(double=True):
            result = net(**without(key), output_hidden_states=True)
            got = result.logits if name == "out.logits" else result.hidden_states[-1]
        mask = inputs.get("decoder_attention_mask", inputs["attention_mask"]).bool()
        if got.dim() == 3:
            got = torch.where(mask[:, :, None], got, torch.zeros((), dtype=got.dtype))
        return rms(got - expected[name])

    found = {"scale": moved(net, inputs, scale=1.25), "heads": moved(net, inputs, roll=1)}
    found["mask"] = no_mask("decoder_attention_mask" if model["kind"] == "both" else "attention_mask")
    if model["kind"] != "encoder":  # causal, but padding is attended to
        found["padding"] = moved(net, dict(inputs, attention_mask=torch.ones_like(inputs["attention_mask"])))
    if "softcap" in model:
        other = build(model, torch.float64, **model["softcap"])
        other.load_state_dict(state)
        found["softcap"] = moved(other, inputs)
    for kind, changes in model.get("wrong", {}).items():
        other = build(model, torch.float64, **changes)
        other.load_state_dict(state)
        found[kind] = moved(other, inputs)
    return found


def continuation(net, inputs):
    """The likeliest continuation of each sequence by itself; ties within f32's error are refused."""
    rows = []
    for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"]):
        sequence = ids[mask.bool()]
        for _ in range(GREEDY):
            with torch.no_grad(), Watch(double=True):
                best = net(input_ids=sequence[None]).logits[0, -1].topk(2)
            if best.values[0] - best.values[1] < 2e-5:
                raise SystemExit(f"{best.values} are too close to tell")
            sequence = torch.cat([sequence, best.indices[:1]])
        rows.append(sequence[-GREEDY:])
    return torch.stack(rows)


def f32_errors(net, model, inputs, weights, expected, name_of):
    """Largest, RMS and relative error of f32 runs, by the names of expected.safetensors."""
    found = {}
    for order in range(ORDERS if model["kind"] == "decoder" else 1):
        generator = torch.Generator().manual_seed(order) if order else None
        named, _ = run(net, inputs, weights, order=generator)
        for key, values in named.items():
            exact = expected[name_of(key)]
            difference = values.double() - exact
            error = dict(max=difference.abs().max().item(), rms=rms(difference), size=exact.abs().max().item())
            before = found.get(name_of(key), error)
            found[name_of(key)] = {k: max(v, before[k]) for k, v in error.items()}
    return found


def names_on_disk(key, net, stored):
    """Tied parameters are stored once, and some under older names: the tensor with the same values."""
    name = key.removeprefix("grad.")
    if name == key or name in stored:
        return key
    parameter = net.get_parameter(name)
    for other, values in stored.items():
        if torch.equal(values, parameter):
            return "grad." + other
    raise SystemExit(f"{name} has no tensor in model.safetensors")


def make(name, model):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    single = build(model, torch.float32)
    inputs = make_inputs(model, single.config)
    randomize(single, model.get("offset", 0), model.get("embedding", 0.5))
    scores = rescale(single, model, inputs)
    single.save_pretrained(folder)
    if (folder / "generation_config.json").exists() and model["kind"] == "decoder":
        (folder / "generation_config.json").unlink()

    double = build(model, torch.float64)
    double.load_state_dict(single.state_dict())
    expected, weights = run(double, inputs, None, double=True)
    moved = sabotage(model, single.state_dict(), inputs, expected)

    stored = load_file(folder / "model.safetensors")
    expected = {names_on_disk(k, single, stored): v for k, v in expected.items()}
    errors = f32_errors(single, model, inputs, weights, expected, lambda k: names_on_disk(k, single, stored))
    idle = sorted(n for n in stored if "grad." + n not in expected)

    tensors = {"in." + k: v for k, v in inputs.items()}
    tensors |= {k: w for k, (w, _) in weights.items()}
    tensors |= {k: v.float() for k, v in expected.items()}
    if model["kind"] == "both":
        tensors["greedy.ids"] = greedy(double, inputs)
    if model["kind"] == "decoder":
        tensors["greedy.ids"] = continuation(double, inputs)
    metadata = {"family": single.config.model_type, "class": model["cls"], "scores": " ".join(f"{s:.3g}" for s in scores)}
    metadata |= {f"sabotage.{k}": f"{v:.3e}" for k, v in moved.items()}
    metadata |= {f"error.{k}": f"{e['max']:.3e} {e['rms']:.3e} {e['size']:.3e}" for k, e in errors.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "expected.safetensors", metadata)
    sort_header(folder / "expected.safetensors")
    return dict(
        name=name, family=single.config.model_type, **{"class": model["cls"]}, kind=model["kind"],
        files=sorted(p.name for p in folder.iterdir()), parameters=single.num_parameters(),
        scores=[round(s, 3) for s in scores], no_gradient=idle,
        sabotage={k: float(f"{v:.3e}") for k, v in moved.items()},
        loss={k: n for k, (_, n) in weights.items()}, tensors={k: list(v.shape) for k, v in tensors.items()},
        errors={k: {n: float(f"{v:.3e}") for n, v in e.items()} for k, e in errors.items()})


def sort_header(path):
    """safetensors writes metadata in random order; the same bytes every time need another."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(data[:8] + text.ljust(end - 8) + data[end:])


def check(name):
    """The folder as transformers reads it gives the stored results."""
    expected = load_file(HERE / name / "expected.safetensors")
    config = json.loads((HERE / name / "config.json").read_text())
    cls = getattr(transformers, config["architectures"][0])
    net = cls.from_pretrained(HERE / name, attn_implementation="eager").eval()
    inputs = {k[3:]: v for k, v in expected.items() if k.startswith("in.")}
    with torch.no_grad():
        named = outputs_of(net, inputs)
    for key, values in named.items():
        if not torch.allclose(values, expected[key], rtol=0, atol=2e-4 * max(1, expected[key].abs().max().item())):
            raise SystemExit(f"{name}: {key} differs after loading by {(values - expected[key]).abs().max():.2e}")


def main(models, wanted):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    path = HERE / "index.json"
    index = {e["name"]: e for e in json.loads(path.read_text())["models"]} if path.exists() else {}
    for name in wanted or models:
        index[name] = make(name, models[name])
        check(name)
        entry = index[name]
        size = sum(p.stat().st_size for p in (HERE / name).iterdir())
        worst = entry["errors"].get("out.logits") or entry["errors"][last_hidden(entry["errors"])]
        print(f"{name:24} {size / 1024:4.0f} KiB, scores {entry['scores']}, f32 error {worst}, moved {entry['sabotage']}")
    entries = [index[name] for name in sorted(index) if (HERE / name).is_dir()]
    lines = ",\n".join(json.dumps(e) for e in entries)
    path.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}", "transformers": "{transformers.__version__}",\n'
                    f'"models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(MODELS, sys.argv[1:])
