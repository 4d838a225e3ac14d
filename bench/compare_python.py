# SPDX-License-Identifier: MIT
"""Measures the Python package beside PyTorch and transformers, all through Python, in one run.

  calls      microseconds of a call that has next to nothing to compute, less those of the same
             call from C
  attention  torch.nn.functional.scaled_dot_product_attention and that of multihead.torch, over
             bench/shapes: without gradients, and forward and backward together
  modules    nn.MultiheadAttention and nn.TransformerEncoderLayer beside the same, accelerated
  models     transformers' attn_implementation "eager", "sdpa" and "multihead": a BERT of base size
             and a Llama of 135M's widths, forward, with attention weights, and a training step

Before a case is timed, results are compared with those of double precision (attention, on the first
head) or of eager attention. Then contenders take turns, and the best turn of each counts. Ratios
are time of the peer / time of multihead: above 1 multihead is faster.
"""

import argparse
import copy
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import multihead as mh
import multihead.torch as mht
from compare_run import Turns, cpu_model, positive_numbers, say, write_whole
from compare_timing import FULL, QUICK, interleave, time_calls

OURS = "multihead"
SHAPES = Path(__file__).resolve().parent / "shapes"
TUTORIALS = "tutorial", "b2-t10", "b32-t10", "b32-t10-h1", "toy"
LONGEST = 4096  # tokens of a case with --quick
TOLERANCE = 2e-5  # relative to the largest value


class Case(NamedTuple):
    """A call of each contender, and its result."""
    group: str
    name: str
    calls: dict  # contender: call
    error: float  # of ours


def relative(found, expected):
    """The largest error / the largest value."""
    found, expected = found.detach().double(), expected.detach().double()
    return ((found - expected).abs().max() / expected.abs().max()).item()


# ---- calls ---------------------------------------------------------------------------------------

def best_call(run, calls=2000, runs=9):
    """Microseconds of a call."""
    return 1e6 * min(time_calls(run, calls).seconds for _ in range(runs))


def call_costs(build):
    """[(call, microseconds, above C)], of (1, 1, 1, 8)."""
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
    q, k, v, out = x.copy(), x.copy(), x.copy(), x.copy()
    a, b, c = (torch.from_numpy(y) for y in (q, k, v))
    grad = a.clone().requires_grad_()
    program = Turns(build / "bench" / "call_turns")
    in_c = min(float(program.ask()[0]) for _ in range(3))
    program.close()
    with torch.inference_mode():
        quick = best_call(lambda: mht.scaled_dot_product_attention(a, b, c))
        theirs = best_call(lambda: F.scaled_dot_product_attention(a, b, c))
    calls = {
        "C": in_c,
        "NumPy, four arrays": best_call(lambda: mh.attention(q, k, v, out=out)),
        "NumPy, a new result": best_call(lambda: mh.attention(q, k, v)),
        "torch, inference_mode": quick,
        "torch, no gradient needed": best_call(
            lambda: mht.scaled_dot_product_attention(a, b, c)),
        "torch, gradient needed": best_call(
            lambda: mht.scaled_dot_product_attention(grad, b, c)),
        "PyTorch's own, inference_mode": theirs,
        "PyTorch's own, gradient needed": best_call(
            lambda: F.scaled_dot_product_attention(grad, b, c)),
    }
    return [{"call": name, "us": us, "above_c": us - in_c} for name, us in calls.items()]


# ---- attention -----------------------------------------------------------------------------------

def read_cases(file):
    """(name, sizes by letter, words) of a file of shapes."""
    lines = [line.split() for line in (SHAPES / file).read_text().splitlines()]
    head = next(line[2:] for line in lines if line[:2] == ["#", "name"])
    for name, *words in (line for line in lines if line and line[0] != "#"):
        row = dict(zip(head, words, strict=True))
        yield name, {key: int(x) for key, x in row.items() if x.isdigit()}, row


def attention_inputs(n, gradients):
    g = torch.Generator().manual_seed(1)
    shapes = [(n["B"], n["H"], n["T"], n["E"])] + 2 * [(n["B"], n["G"], n["S"], n["E"])]
    return [torch.randn(shape, generator=g).requires_grad_(gradients) for shape in shapes]


def attention_error(x, out, causal):
    """Of the last 64 queries of the first head."""
    q, k, v = (y[:1, :1].detach().double() for y in x)
    T, rows = q.shape[2], min(64, q.shape[2])
    scores = q[:, :, -rows:] @ k.mT * q.shape[-1] ** -0.5
    if causal:
        future = torch.arange(k.shape[2]) > torch.arange(T - rows, T).unsqueeze(1)
        scores = scores.masked_fill(future, -math.inf)
    return relative(out[:1, :1, -rows:], scores.softmax(-1) @ v)


def attention_cases(quick):
    for file, gradients in (("attention.txt", False), ("decode.txt", False),
                            ("attention.txt", True)):
        for name, n, words in read_cases(file):
            if n["S"] > LONGEST and (quick or gradients):
                continue
            causal = words["mask"] == "causal"
            x = attention_inputs(n, gradients)
            options = {"is_causal": causal, "enable_gqa": n["H"] != n["G"]}

            def run(function, x=x, options=options, gradients=gradients):
                out = function(*x, **options)
                if gradients:
                    torch.autograd.grad(out, x, out.detach())
                return out

            calls = {OURS: lambda run=run: run(mht.scaled_dot_product_attention),
                     "torch": lambda run=run: run(F.scaled_dot_product_attention)}
            group = "tutorials" if name in TUTORIALS else "shapes"
            yield Case(f"attention, {group}" + (", training" if gradients else ""), name, calls,
                       attention_error(x, calls[OURS](), causal))


# ---- modules -------------------------------------------------------------------------------------

def with_gradients(module, x, gradients, **call):
    """A call, or a call and its backward pass."""
    def run():
        if not gradients:
            with torch.inference_mode():
                found = module(*x, **call)
        else:
            module.zero_grad(set_to_none=True)
            found = module(*x, **call)
            (found[0] if isinstance(found, tuple) else found).sum().backward()
        return found[0] if isinstance(found, tuple) else found
    return run


def modules_of(n, words):
    """(name, module, arguments, options of a call) of nn's modules."""
    x = torch.randn(n["B"], n["T"], n["D"], generator=torch.Generator().manual_seed(1))
    causal = words["mask"] == "causal"
    mask = nn.Transformer.generate_square_subsequent_mask(n["T"]) if causal else None
    hint = {"is_causal": causal}
    mha = nn.MultiheadAttention(n["D"], n["H"], batch_first=True)
    layer = nn.TransformerEncoderLayer(n["D"], n["H"], n["F"], 0.0, words["activation"],
                                       batch_first=True)
    return [("mha", mha, (x, x, x), {"need_weights": False, "attn_mask": mask, **hint}),
            ("mha with weights", mha, (x, x, x), {"need_weights": True, "attn_mask": mask}),
            ("encoder layer", layer, (x,), {"src_mask": mask, **hint})]


def module_cases(_):
    for name, n, words in read_cases("modules.txt"):
        group = "tutorials" if name in TUTORIALS else "shapes"
        for what, module, x, call in modules_of(n, words):
            for gradients in (False, True):
                module.train(gradients)
                theirs = with_gradients(module, x, gradients, **call)
                expected = theirs()
                ours = mht.accelerate(copy.deepcopy(module))
                run = with_gradients(ours, x, gradients, **call)
                yield Case(f"{what}, {group}" + (", training" if gradients else ""), name,
                           {OURS: run, "torch": theirs}, relative(run(), expected))


# ---- models --------------------------------------------------------------------------------------

def bert_and_llama(layers):
    """(name, configuration, class, batch, tokens)"""
    import transformers
    return [
        ("bert-base", transformers.BertConfig(num_hidden_layers=layers), transformers.BertModel,
         8, 128),
        ("bert-base long", transformers.BertConfig(num_hidden_layers=layers),
         transformers.BertModel, 2, 512),
        ("llama-135m", transformers.LlamaConfig(
            vocab_size=8192, hidden_size=576, intermediate_size=1536, num_hidden_layers=layers,
            num_attention_heads=9, num_key_value_heads=3), transformers.LlamaModel, 2, 512),
    ]


def model_cases(quick):
    import multihead.transformers  # noqa: F401 (registers the name)
    for name, config, kind, batch, tokens in bert_and_llama(2 if quick else 12):
        torch.manual_seed(0)
        model = kind._from_config(config, attn_implementation="eager")
        ids = torch.randint(5, config.vocab_size, (batch, tokens))
        padding = torch.ones_like(ids)
        padding[::2, tokens * 3 // 4:] = 0
        for what, call in (("forward", {}), ("forward, padded", {"attention_mask": padding}),
                           ("with weights", {"output_attentions": True}), ("training step", {})):
            training = what == "training step"
            model.train(training)
            if training:
                optimizer = torch.optim.SGD(model.parameters(), 1e-6)

            def run(attention, call=call, training=training, model=model, ids=ids):
                model.set_attn_implementation(attention)
                if not training:
                    with torch.inference_mode():
                        return model(ids, **call).last_hidden_state
                optimizer.zero_grad()
                out = model(ids, **call).last_hidden_state
                out.square().mean().backward()
                optimizer.step()
                return out

            peers = ["eager"] if call.get("output_attentions") else ["eager", "sdpa"]
            live = call.get("attention_mask", torch.ones_like(ids)).bool()
            error = 0.0 if training else relative(run(OURS)[live], run("eager")[live])
            yield Case(f"transformers, {what}", name,
                       {a: lambda a=a, run=run: run(a) for a in (OURS, *peers)}, error)


PARTS = {"attention": attention_cases, "modules": module_cases, "models": model_cases}


# ---- tables --------------------------------------------------------------------------------------

def measure(case, threads, effort):
    """A row: milliseconds of each contender, and the peers' ratios."""
    first = {name: time_calls(run) for name, run in case.calls.items()}
    best = interleave(case.calls, first, effort)
    ms = {name: 1e3 * timing.seconds for name, timing in best.items()}
    return {"operation": case.group, "case": case.name, "threads": threads, "ms": ms,
            "ratio": {name: ms[name] / ms[OURS] for name in ms if name != OURS},
            "error": case.error, "wrong": not case.error <= TOLERANCE,
            "disturbed": [name for name, timing in best.items() if timing.disturbed]}


def print_row(row):
    ratios = "".join(f"   {ratio:5.2f}x {peer}" for peer, ratio in row["ratio"].items())
    print(f"{row['operation']:<34} {row['case']:<15} x{row['threads']} "
          f"{'~' if row['disturbed'] else ' '}{row['ms'][OURS]:10.4f} ms{ratios}"
          f"   error {row['error']:.1e}{'  WRONG' if row['wrong'] else ''}", flush=True)


def means(rows):
    """(operation, threads, peer): geometric mean, worst ratio and its case."""
    found = {}
    for row in rows:
        for peer, ratio in row["ratio"].items():
            found.setdefault((row["operation"], row["threads"], peer), []).append(
                (ratio, row["case"]))
    return [{"operation": operation, "threads": threads, "peer": peer, "worst": min(ratios)[0],
             "worst_case": min(ratios)[1],
             "mean": math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))}
            for (operation, threads, peer), ratios in found.items()]


def markdown(costs, rows, about):
    lines = [about, ""]
    if costs:
        lines += ["| call | us | above C |", "|---|---|---|"]
        lines += [f"| {c['call']} | {c['us']:.2f} | {c['above_c']:.2f} |" for c in costs] + [""]
    if rows:
        lines += ["| | threads | peer | geometric mean | worst |", "|---|---|---|---|---|"]
        lines += [f"| {m['operation']} | {m['threads']} | {m['peer']} | {m['mean']:.2f} | "
                  f"{m['worst']:.2f} ({m['worst_case']}) |" for m in means(rows)]
    return "\n".join(lines) + "\n"


def parse():
    parser = argparse.ArgumentParser(prog="compare_python", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"), help="where `make` built")
    parser.add_argument("--out", type=Path, help="where compare-python.* go (--build)")
    parser.add_argument("--part", default="calls,attention,modules,models",
                        help="some of calls, attention, modules, models")
    parser.add_argument("--case", help="only cases whose names contain one of these words")
    parser.add_argument("--threads", type=positive_numbers, default=[mh.get_num_threads()],
                        help="numbers of threads, such as 1,2 (all)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, layers and tokens")
    arguments = parser.parse_args()
    arguments.part = arguments.part.split(",")
    wrong = set(arguments.part) - {"calls", *PARTS}
    if wrong:
        parser.error(f"--part: found {', '.join(sorted(wrong))}, expected calls, "
                     f"{', '.join(PARTS)}")
    return arguments


def main():
    arguments = parse()
    rows, costs = [], []
    about = (f"{cpu_model()}, {mh.isa()}; multihead {mh.__version__}, PyTorch {torch.__version__}, "
             f"Python {sys.version.split()[0]}")
    print(about)
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        mh.set_num_threads(threads)
        if "calls" in arguments.part and not costs:
            costs = call_costs(arguments.build)
            for c in costs:
                print(f"{c['call']:<34} {c['us']:8.2f} us   {c['above_c']:+6.2f} beside C",
                      flush=True)
        for part, cases in PARTS.items():
            if part not in arguments.part:
                continue
            for case in cases(arguments.quick):
                if arguments.case and not any(w in case.name for w in arguments.case.split(",")):
                    continue
                rows.append(measure(case, threads, QUICK if arguments.quick else FULL))
                print_row(rows[-1])
    for m in means(rows):
        print(f"{m['operation']:<34} x{m['threads']} {m['mean']:6.2f}x {m['peer']}, worst "
              f"{m['worst']:.2f} ({m['worst_case']})")
    out = arguments.out or arguments.build
    report = {"about": about, "calls": costs, "rows": rows, "means": means(rows)}
    write_whole(out / "compare-python.json", json.dumps(report, indent=1) + "\n")
    write_whole(out / "compare-python.md", markdown(costs, rows, about))
    say(f"wrote {out}/compare-python.json and .md")
    return any(row["wrong"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
