# SPDX-License-Identifier: MIT
"""Makes modules.safetensors: what PyTorch's modules give, and every gradient.

    python3 make_modules.py        # needs torch==2.13.0 and safetensors from PyPI

Inputs, masks and parameters are not stored: both sides compute them, exactly, from their names by
numbers() below. PyTorch then runs in float64. Case i is one row of floats, "i": the output, the
attention weights asked for, the inputs' gradients, and those of the parameters in the order of
their names. Its options are the metadata entry i, "kind key=value ...", with the keys of DEFAULTS.
What nn.MultiheadAttention cannot do is attend(), a few lines; the two are compared here, too.

train.sgd and train.adam are the losses of ten steps in float32, their options the entries "train.*".
test_modules_torch.c runs the same cases.
"""
import itertools
import math
import pathlib
import warnings

import numpy
import torch
from safetensors.torch import save_file
from torch import nn

warnings.filterwarnings("ignore")  # about masks of two kinds

DEFAULTS = dict(
    D=8, H=2, B=2, T=4, S=5, bias=1, bf=0,  # B=0: unbatched; bf: batch first
    # multi-head attention
    G=0, I=0, kdim=0, vdim=0, bias_kv=0, zero=0, interleaved=0, rope=0, alibi=0, sinks=0, base=10000,
    same=0,  # 0: three inputs; 1: key is value; 2: all one; 3: query is key; 4: query is value
    padding=0,  # key_padding_mask: 1 bool, 2 float
    mask=0,  # attn_mask: 1 bool (T, S); 2 float; 3 bool (B*H, T, S); 4 float
    empty=0,  # 1: the first query's mask, 2: the first sequence's padding leaves no key
    causal=0,  # 1: top left; 2: bottom right
    weights=1,  # 0: none; 1: averaged; 2: per head
    # layers and stacks
    F=12, L=2, M=2, norm_first=0, gelu=0, final=1, eps=1e-5, src_mask=0, tgt_mask=0, memory_mask=0,
    src_padding=0, tgt_padding=0, memory_padding=0, src_causal=0, tgt_causal=0, taps=0, recompute=0,
    disabled=0,  # 1: attention a (encoder's, decoder's, cross) lacks head a % H
    sequences=0,  # packed: sequence b has 1 + (3 b + 2) % S rows and 1 + (2 b + 1) % T
)


# ---- inputs and parameters ------------------------------------------------------------------

def bits(name, count):
    """count hashes of 32 bits, by name."""
    salt = 2166136261
    for byte in name.encode():
        salt = (salt ^ byte) * 16777619 & 0xFFFFFFFF
    x = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(salt)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> numpy.uint32(shift))) * numpy.uint32(factor)
    return x ^ (x >> numpy.uint32(16))


def numbers(name, shape, amplitude):
    """Multiples of amplitude/1024 in [-amplitude, amplitude)."""
    k = (bits(name, math.prod(shape)) % 2048).astype(numpy.float64) - 1024
    return torch.from_numpy(k * (amplitude / 1024)).reshape(shape)


def parameter(name, shape):
    if "norm" in name and name.endswith("weight"):
        return 1 + numbers(name, shape, 0.5)
    if len(shape) == 2:
        return numbers(name, shape, 0.5 if shape[1] <= 16 else 0.125)
    return numbers(name, shape, 0.25)


def fill(module):
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(parameter(name, p.shape))


def make_mask(name, shape, is_float, empty=0):
    """Leaves the first key to every query; but `empty` numbers get none."""
    drop = torch.from_numpy(bits(name, math.prod(shape)) % 4 == 0).reshape(shape)
    drop[..., 0] = False
    drop.view(-1)[:empty] = True
    if not is_float:
        return drop
    return numbers(name + ".add", shape, 1).masked_fill(drop, -math.inf)


# ---- attention --------------------------------------------------------------------------------

def rope(x, interleaved, base):
    """x (B, H, T, E)"""
    T, E = x.shape[2:]
    angle = torch.arange(T).double()[:, None] * base ** (-torch.arange(0, E, 2).double() / E)
    pair = (slice(0, E, 2), slice(1, E, 2)) if interleaved else (slice(0, E // 2), slice(E // 2, E))
    a, b = x[..., pair[0]], x[..., pair[1]]
    y = torch.empty_like(x)
    y[..., pair[0]] = a * angle.cos() - b * angle.sin()
    y[..., pair[1]] = b * angle.cos() + a * angle.sin()
    return y


def slopes(H):
    def power_of_two(n):
        return [2.0 ** (-8 * (i + 1) / n) for i in range(n)]
    lower = 2 ** int(math.log2(H))
    return torch.tensor(power_of_two(lower) + power_of_two(2 * lower)[::2][:H - lower]).double()


def attend(c, p, query, key, value, padding, mask):
    """Everything that multi-head attention can do; inputs are (B, T, width)."""
    H, G = c["H"], c["G"] or c["H"]
    E, B, T, S = c["D"] // c["H"], query.shape[0], query.shape[1], key.shape[1]
    bias = p.get("in_proj_bias", torch.zeros((H + 2 * G) * E).double())
    if c["interleaved"]:
        def project(x, i):
            y = x @ p["in_proj_weight"].T + bias
            return y.reshape(B, -1, H, 3, E)[..., i, :].transpose(1, 2)
        q, k, v = (project(x, i) for i, x in enumerate((query, key, value)))
    else:
        rows = (H * E, G * E, G * E)
        if "in_proj_weight" in p:
            weights = p["in_proj_weight"].split(rows)
        else:
            weights = [p[f"{n}_proj_weight"] for n in "qkv"]
        q, k, v = ((x @ w.T + b).reshape(B, -1, w.shape[0] // E, E).transpose(1, 2)
                   for x, w, b in zip((query, key, value), weights, bias.split(rows)))
    if c["rope"]:
        q, k = (rope(x, c["rope"] == 2, c["base"]) for x in (q, k))
    extra = 0
    if c["bias_kv"]:
        k, v = (torch.cat([x, p[n].reshape(1, G, 1, E).expand(B, -1, -1, -1)], 2)
                for x, n in ((k, "bias_k"), (v, "bias_v")))
        extra += 1
    if c["zero"]:
        k, v = (torch.cat([x, torch.zeros(B, G, 1, E).double()], 2) for x in (k, v))
        extra += 1
    k, v = (x.repeat_interleave(H // G, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(E)
    place = torch.arange(T)[:, None] + (S - T if c["causal"] == 2 else 0) - torch.arange(S)
    if c["alibi"]:
        scores = scores - slopes(H)[:, None, None] * place.abs()
    live = torch.ones(B, H, T, S, dtype=torch.bool)
    add = torch.zeros(B, H, T, S).double()
    if c["causal"]:
        live = live & (place >= 0)
    for m in (None if padding is None else padding.reshape(B, 1, 1, S),
              None if mask is None else mask.reshape(-1, H if mask.dim() == 3 else 1, T, S)):
        if m is not None and m.dtype == torch.bool:
            live = live & ~m
        elif m is not None:
            live, add = live & (m != -math.inf), add + m.masked_fill(m == -math.inf, 0)
    live, add = (nn.functional.pad(x, (0, extra), value=1 if x is live else 0) for x in (live, add))
    scores = (scores + add).masked_fill(~live, -1e300)
    if c["sinks"]:
        sink = p["sinks"].reshape(1, H, 1, 1).expand(B, -1, T, 1)
        w = torch.cat([scores, sink], 3).softmax(3)[..., :-1]
    else:
        w = scores.softmax(3)
    w = w * live
    out = (w @ v).transpose(1, 2).reshape(B, T, H * E) @ p["out_proj.weight"].T
    return out + p.get("out_proj.bias", 0), w


def mha_shapes(c):
    D, H = c["D"], c["H"]
    G, I = c["G"] or H, c["I"] or D
    kv = G * (D // H)
    kdim, vdim = c["kdim"] or I, c["vdim"] or I
    shapes = {"in_proj_weight": (D + 2 * kv, I)}
    if kdim != I or vdim != I:
        shapes = {"q_proj_weight": (D, I), "k_proj_weight": (kv, kdim), "v_proj_weight": (kv, vdim)}
    shapes["out_proj.weight"] = (D, D)
    if c["bias"]:
        shapes.update({"in_proj_bias": (D + 2 * kv,), "out_proj.bias": (D,)})
    if c["bias_kv"]:
        shapes.update({"bias_k": (1, 1, kv), "bias_v": (1, 1, kv)})
    if c["sinks"]:
        shapes["sinks"] = (H,)
    return shapes, (I, kdim, vdim)


def torch_mha(c, padding, mask):
    """nn.MultiheadAttention for (B, T, width), if it can do this case."""
    if (c["G"] or c["I"] or c["interleaved"] or c["rope"] or c["alibi"] or c["sinks"] or c["causal"] == 2):
        return None
    if c["causal"]:  # a mask, not the hint is_causal: that one forgets the keys of bias_kv and zero
        if mask is not None or padding is not None or c["same"] < 2:
            return None
        mask = torch.ones(c["T"], c["T"]).triu(1).bool()
    m = nn.MultiheadAttention(c["D"], c["H"], bias=bool(c["bias"]), add_bias_kv=bool(c["bias_kv"]),
                              add_zero_attn=bool(c["zero"]), kdim=c["kdim"] or None,
                              vdim=c["vdim"] or None, batch_first=bool(c["bf"])).double()
    fill(m)

    def turn(x):
        return x[0] if not c["B"] else x if c["bf"] else x.transpose(0, 1)

    def run(query, key, value):
        x = [turn(t) for t in (query, key, value)]
        options = dict(key_padding_mask=padding if padding is None or c["B"] else padding[0],
                       attn_mask=mask)
        out = m(*x, need_weights=False, **options)[0]
        w = m(*x, average_attn_weights=False, **options)[1]
        out = out[None] if not c["B"] else out if c["bf"] else out.transpose(0, 1)
        return out, (w if c["B"] else w[None]).nan_to_num()
    return m, run


def mha_case(c):
    B, H, T = c["B"] or 1, c["H"], c["T"]
    S = T if c["same"] >= 2 else c["S"]
    shapes, widths = mha_shapes(c)
    given = [0, 0 if c["same"] in (2, 3) else 1, {0: 2, 1: 1, 2: 0, 3: 2, 4: 0}[c["same"]]]
    names = ("query", "key", "value")
    x = [numbers(names[g], (B, T if i == 0 else S, widths[i]), 2) for i, g in enumerate(given)]
    leaves = [x[i].requires_grad_() if g == i else None for i, g in enumerate(given)]
    inputs = [leaves[g] for g in given]
    padding = mask = None
    if c["padding"]:
        padding = make_mask("padding", (B, S), c["padding"] == 2, S if c["empty"] == 2 else 0)
    if c["mask"]:
        shape = (T, S) if c["mask"] <= 2 else (B * H, T, S)
        mask = make_mask("mask", shape, c["mask"] % 2 == 0, S if c["empty"] == 1 else 0)
    dout = numbers("doutput", (B, T, c["D"]), 1)
    p = {name: parameter(name, shape).requires_grad_() for name, shape in shapes.items()}
    out, w = attend(c, p, *inputs, padding, mask)
    out.backward(dout)
    both = torch_mha(c, padding, mask)
    results = [x.grad for x in leaves if x is not None] + [p[n].grad for n in sorted(p)]
    if both:  # the module's numbers are taken; ours must be the same
        ours, own_w = [out, w] + [r.clone() for r in results], w
        for leaf in leaves:
            if leaf is not None:
                leaf.grad = None
        out, w = both[1](*inputs)
        out.backward(dout)
        grads = {n: q.grad for n, q in both[0].named_parameters()}
        assert sorted(grads) == sorted(p)
        results = [x.grad for x in leaves if x is not None] + [grads[n] for n in sorted(grads)]
        for a, b in zip(ours, [out, w] + results):
            error = (a - b).abs().max().item()
            if not error < 1e-12:
                raise SystemExit(f"{c}: attend() and nn.MultiheadAttention differ by {error}")
    if c["weights"]:
        results.insert(0, w.mean(1) if c["weights"] == 1 else w)
    return [out] + results


# ---- layers and stacks ----------------------------------------------------------------------------

def make_module(c):
    layer = dict(d_model=c["D"], nhead=c["H"], dim_feedforward=c["F"], dropout=0.0,
                 activation="gelu" if c["gelu"] else "relu", layer_norm_eps=c["eps"],
                 batch_first=True, norm_first=bool(c["norm_first"]), bias=bool(c["bias"]))
    norm = nn.LayerNorm(c["D"], eps=c["eps"], bias=bool(c["bias"])) if c["final"] else None
    kind = c["kind"]
    if kind == "encoder_layer":
        return nn.TransformerEncoderLayer(**layer)
    if kind == "decoder_layer":
        return nn.TransformerDecoderLayer(**layer)
    if kind == "encoder":
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), c["L"], norm, False)
    if kind == "decoder":
        return nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), c["M"], norm)
    return nn.Transformer(num_encoder_layers=c["L"], num_decoder_layers=c["M"], **layer)


TAPPED = []  # weights of all attentions, as they run
plain_forward = nn.MultiheadAttention.forward


def tapped_forward(self, query, key, value, **options):
    options.pop("need_weights")
    weights = plain_forward(self, query, key, value, need_weights=True, average_attn_weights=False,
                            **options)[1]
    TAPPED.append(weights.detach().nan_to_num())
    return plain_forward(self, query, key, value, need_weights=False, **options)


def run_module(c, module, src, tgt, masks):
    def causal(n):
        return torch.ones(n, n).triu(1).bool()
    encoder = {"mask": "src_mask", "src_key_padding_mask": "src_padding"}
    decoder = {"tgt_mask": "tgt_mask", "memory_mask": "memory_mask",
               "tgt_key_padding_mask": "tgt_padding", "memory_key_padding_mask": "memory_padding"}
    masks = dict(masks)
    if c["src_causal"]:
        masks["src_mask"] = causal(src.shape[1])
    if c["tgt_causal"] and tgt is not None:
        masks["tgt_mask"] = causal(tgt.shape[1])
    kind = c["kind"]
    if kind.startswith("encoder"):
        if kind == "encoder_layer":
            encoder["src_mask"] = encoder.pop("mask")
        return module(src, **{k: masks.get(v) for k, v in encoder.items()})
    if kind.startswith("decoder"):
        return module(tgt, src, **{k: masks.get(v) for k, v in decoder.items()})
    encoder["src_mask"] = encoder.pop("mask")
    return module(src, tgt, **{k: masks.get(v) for k, v in (encoder | decoder).items()})


def starts(c, length, a, b):
    at = [0]
    for i in range(c["sequences"]):
        at.append(at[-1] + 1 + (a * i + b) % length)
    return at


def disable_heads(c, module):
    attentions = [m for n, m in module.named_modules() if n.endswith("self_attn")]
    attentions += [m for n, m in module.named_modules() if n.endswith("multihead_attn")]
    for a, m in enumerate(attentions):
        columns = torch.ones(c["D"]).double()
        columns[a % c["H"] * (c["D"] // c["H"]):][:c["D"] // c["H"]] = 0
        weight = m.out_proj.weight
        del m.out_proj.weight
        m.out_proj.weight = weight * columns


def module_case(c):
    B, H, S, T, D = c["B"] or 1, c["H"], c["S"], c["T"], c["D"]
    module = make_module(c).double()
    fill(module)
    leaves = dict(module.named_parameters())
    if c["disabled"]:  # a head whose columns of the output projection are 0
        disable_heads(c, module)
    decodes = not c["kind"].startswith("encoder")
    if c["sequences"]:
        src_at, tgt_at = starts(c, S, 3, 2), starts(c, T, 2, 1)
        B, S, T = 1, src_at[-1], tgt_at[-1]
    src = numbers("src", (B, S, D), 2).requires_grad_()
    tgt = numbers("tgt", (B, T, D), 2).requires_grad_() if decodes else None
    masks = {}
    for name, rows, columns in (("src", S, S), ("tgt", T, T), ("memory", T, S)):
        m = c[name + "_mask"]
        if m:
            shape = (rows, columns) if m <= 2 else (B * H, rows, columns)
            masks[name + "_mask"] = make_mask(name + "_mask", shape, m % 2 == 0,
                                              columns if c["empty"] == 1 else 0)
        m = c[name + "_padding"]
        if m:
            masks[name + "_padding"] = make_mask(name + "_padding", (B, columns), m == 2,
                                                 columns if c["empty"] == 2 else 0)
    TAPPED.clear()
    nn.MultiheadAttention.forward = tapped_forward if c["taps"] else plain_forward
    if c["sequences"]:
        out = torch.cat([run_module(c, module, src[:, src_at[b]:src_at[b + 1]],
                                    tgt[:, tgt_at[b]:tgt_at[b + 1]] if decodes else None, {})
                         for b in range(c["sequences"])], 1)
    else:
        out = run_module(c, module, src, tgt, masks)
    nn.MultiheadAttention.forward = plain_forward
    out.backward(numbers("doutput", out.shape, 1))
    grads = {name: p.grad for name, p in leaves.items()}
    return ([out] + TAPPED + [src.grad] + ([tgt.grad] if decodes else []) +
            [grads[name] for name in sorted(grads)])


def train(c, optimiser):
    """Losses of ten steps: cross-entropy with the output as logits."""
    module = make_module(c)
    fill(module)
    src, tgt = (numbers(n, (c["B"], c[k], c["D"]), 2).float() for n, k in (("src", "S"), ("tgt", "T")))
    targets = torch.from_numpy(bits("targets", c["B"] * c["T"]).astype(numpy.int64) % c["D"])
    masks = {"src_padding": make_mask("src_padding", (c["B"], c["S"]), False),
             "memory_padding": make_mask("src_padding", (c["B"], c["S"]), False)}
    step = optimiser(module.parameters())
    losses = []
    for _ in range(10):
        step.zero_grad()
        out = run_module(c, module, src, tgt, masks)
        loss = nn.functional.cross_entropy(out.reshape(-1, c["D"]), targets)
        loss.backward()
        step.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


# ---- the cases ----------------------------------------------------------------------------------

def mha_cases():
    yield {}
    for same, bf, weights in itertools.product(range(5), (0, 1), (0, 1, 2)):
        yield dict(same=same, bf=bf, weights=weights)
    for bias, bias_kv, zero in itertools.product((0, 1), repeat=3):
        yield dict(bias=bias, bias_kv=bias_kv, zero=zero, same=2)
        yield dict(bias=bias, bias_kv=bias_kv, zero=zero, weights=2, padding=1, mask=2, bf=1)
    for padding, mask in itertools.product(range(3), range(5)):
        yield dict(padding=padding, mask=mask)
        yield dict(padding=padding, mask=mask, same=2, bf=1, weights=2, bias_kv=1, zero=1)
    for kdim, vdim in ((6, 0), (0, 6), (5, 7), (6, 6), (12, 3)):
        yield dict(kdim=kdim, vdim=vdim)
        yield dict(kdim=kdim, vdim=vdim, bias=0, bias_kv=1, mask=1, bf=1)
    yield dict(kdim=6, vdim=6, same=1)
    for same in range(5):
        yield dict(B=0, same=same)
    for extra in (dict(padding=1), dict(padding=2, mask=2), dict(mask=3, weights=2), dict(bias_kv=1, zero=1),
                  dict(mask=4, weights=0), dict(kdim=5, vdim=7)):
        yield dict(B=0, **extra)
    for empty, extra in itertools.product((1, 2), (dict(), dict(same=2, weights=2), dict(weights=0, bf=1),
                                                   dict(bias_kv=1), dict(zero=1, weights=2))):
        yield dict(empty=empty, mask=1, padding=1, **extra)
        yield dict(empty=empty, mask=4, padding=2, **extra)
    for D, H, B, T, S in ((1, 1, 1, 1, 1), (3, 1, 2, 3, 2), (3, 3, 2, 5, 7), (5, 1, 3, 4, 4), (6, 3, 1, 9, 2),
                          (14, 2, 2, 3, 3), (15, 5, 1, 2, 17), (12, 12, 2, 3, 3), (20, 4, 1, 33, 5),
                          (16, 2, 1, 2, 130), (8, 4, 5, 1, 6), (8, 8, 1, 6, 1)):
        yield dict(D=D, H=H, B=B, T=T, S=S)
        yield dict(D=D, H=H, B=B, T=T, S=S, same=2, weights=0, mask=1, bias=0)
    # beyond nn.MultiheadAttention
    for same in range(5):
        yield dict(interleaved=1, same=same)
        yield dict(interleaved=1, same=same, bf=1, bias=0, weights=2, mask=1)
        yield dict(G=1, same=same, weights=2)
        yield dict(I=5, same=same)
    yield dict(I=5, kdim=6, vdim=7, bf=1)
    yield dict(I=12, kdim=12, vdim=3, G=1)
    yield dict(I=6, interleaved=1, same=2, causal=1)
    for H, G in ((4, 1), (4, 2), (6, 3), (6, 2)):
        yield dict(D=12, H=H, G=G, padding=1, mask=1) if 12 % H == 0 else {}
        yield dict(D=12, H=H, G=G, bias_kv=1, zero=1, bf=1, same=2)
    for kind, same in itertools.product((1, 2), (0, 2)):
        yield dict(rope=kind, same=same)
        yield dict(rope=kind, same=same, base=100, G=1, bf=1, causal=1)
        yield dict(rope=kind, same=same, interleaved=1)
        yield dict(rope=kind, same=same, bias_kv=1, zero=1)
        yield dict(rope=kind, same=same, B=0, sinks=1)
    for H in (1, 2, 3, 4, 6, 12):
        yield dict(D=12, H=H, alibi=1)
        yield dict(D=12, H=H, alibi=1, same=2, causal=1, bf=1)
    for extra in (dict(), dict(same=2), dict(G=1), dict(mask=1, empty=1), dict(padding=2, empty=2), dict(bias_kv=1),
                  dict(causal=1, same=2, weights=2), dict(alibi=1, rope=1, interleaved=1, same=2)):
        yield dict(sinks=1, **extra)
    for causal, same, T in itertools.product((1, 2), (0, 2), (3, 5, 7)):
        yield dict(causal=causal, same=same, T=T)
    yield dict(causal=2, T=7, S=3, padding=1, bf=1, weights=2)
    for bias_kv, zero, same in ((1, 0, 2), (0, 1, 2), (1, 1, 2), (1, 1, 0)):
        yield dict(causal=1, bias_kv=bias_kv, zero=zero, same=same, weights=2)
        yield dict(causal=2, bias_kv=bias_kv, zero=zero, same=same, bf=1, padding=1, mask=2)
    yield dict(causal=1, bias_kv=1, rope=1, G=1, sinks=1, B=0, same=2)


def module_cases():
    kinds = ("encoder_layer", "decoder_layer", "encoder", "decoder", "transformer")
    small = dict(L=1, M=1)
    for kind, norm_first, gelu in itertools.product(kinds, (0, 1), (0, 1)):
        yield kind, dict(norm_first=norm_first, gelu=gelu, bf=gelu, taps=1)
    for kind in kinds:
        yield kind, dict(bias=0)
        yield kind, dict(bias=0, norm_first=1, bf=1, eps=0.01)
        yield kind, dict(B=0, norm_first=1, **small)
        yield kind, dict(D=9, H=3, F=7, B=1, T=3, S=6, **small)
        yield kind, dict(D=5, H=1, F=3, B=3, T=6, S=2, gelu=1, eps=0.1, bf=1, **small)
        yield kind, dict(src_causal=1, tgt_causal=1, taps=1, **small)
        yield kind, dict(sequences=3, src_causal=1, tgt_causal=1)
        yield kind, dict(sequences=4, norm_first=1, tgt_causal=1, **small)
        yield kind, dict(recompute=1)
        yield kind, dict(recompute=1, norm_first=1, gelu=1, tgt_causal=1, src_padding=1, memory_padding=1)
        yield kind, dict(recompute=1, sequences=3, tgt_causal=1)
        yield kind, dict(src_padding=1, tgt_padding=1, memory_padding=1, tgt_causal=1, bf=1, taps=1, **small)
    for final, norm_first in itertools.product((0, 1), repeat=2):
        yield "encoder", dict(final=final, norm_first=norm_first, L=3)
        yield "decoder", dict(final=final, norm_first=norm_first, M=1)
    for mask in (1, 2, 3, 4):
        yield "encoder_layer", dict(src_mask=mask, bf=1)
        yield "encoder", dict(src_mask=mask, src_padding=1 + mask % 2, L=1)
        yield "decoder_layer", dict(tgt_mask=mask, memory_mask=5 - mask)
        yield "decoder", dict(tgt_mask=mask, memory_mask=mask, tgt_padding=1 + mask % 2, memory_padding=2 - mask % 2,
                              M=1, bf=1)
        yield "transformer", dict(src_mask=mask, tgt_mask=mask, memory_mask=mask, src_padding=1, tgt_padding=2,
                                  memory_padding=1, **small)
    for empty in (1, 2):
        yield "encoder_layer", dict(src_mask=1, src_padding=1, empty=empty, taps=1)
        yield "decoder_layer", dict(tgt_mask=2, tgt_padding=2, memory_mask=4, memory_padding=1, empty=empty, taps=1)
        yield "transformer", dict(src_mask=1, src_padding=1, tgt_padding=1, memory_mask=1, empty=empty, norm_first=1,
                                  **small)
    for kind in kinds:
        yield kind, dict(disabled=1, D=12, H=3)
        yield kind, dict(disabled=1, recompute=1, norm_first=1, bf=1)
    yield "transformer", dict(L=1, M=2)
    yield "transformer", dict(L=3, M=1, norm_first=1, bf=1, D=4, F=5)


def all_cases():
    seen = set()
    for kind, options in itertools.chain((("mha", o) for o in mha_cases()), module_cases()):
        text = " ".join([kind] + [f"{k}={v}" for k, v in sorted(options.items()) if v != DEFAULTS[k]])
        if text not in seen:
            seen.add(text)
            yield text, {**DEFAULTS, **options, "kind": kind}


def main():
    torch.use_deterministic_algorithms(True)
    tensors, metadata = {}, {"torch": torch.__version__.split("+")[0]}
    for i, (text, c) in enumerate(all_cases()):
        results = mha_case(c) if c["kind"] == "mha" else module_case(c)
        row = torch.cat([r.detach().reshape(-1) for r in results])
        if not row.isfinite().all():
            raise SystemExit(f"{text}: not finite")
        tensors[str(i)] = row.float()
        metadata[str(i)] = text
    metadata["cases"] = str(len(tensors))
    options = dict(D=32, H=4, F=64, B=3, S=9, T=8, bf=1, tgt_causal=1)
    c = {**DEFAULTS, **options, "kind": "transformer"}
    for name, optimiser in (("sgd", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
                            ("adam", lambda p: torch.optim.Adam(p, lr=1e-3))):
        tensors[f"train.{name}"] = train(c, optimiser)
        metadata[f"train.{name}"] = "transformer " + " ".join(f"{k}={v}" for k, v in options.items())
        print(name, tensors[f"train.{name}"].tolist())
    path = pathlib.Path(__file__).with_name("modules.safetensors")
    save_file(tensors, path, metadata)
    print(len(tensors) - 2, "cases,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
