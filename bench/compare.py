# SPDX-License-Identifier: MIT
"""Measures multihead beside PyTorch and ONNX Runtime: one run, same inputs, same threads.

Everything that is measured stands in one table, OPERATIONS: an operation has cases, inputs,
an expected result in double precision, and contenders, the first of which is ours. A further
operation (backward, decoding) is one more entry, a further peer one more function.

Contenders take turns, A B C A B C ..., and the best turn of each counts, so that a noisy
neighbour hits all of them. Before that, each result is compared with the expected one. Times
of different runs cannot be compared on a shared machine; the ratio peer / ours within a run
can. The table goes to stdout, progress to stderr, compare.json and compare.svg to --out.
"""

import argparse
import json
import math
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Callable, NamedTuple

import numpy as np
import torch

import compare_chart
import multihead_ctypes as mh

try:
    import onnx
    import onnxruntime
except ImportError:
    onnxruntime = None

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ROOT / "bench" / "shapes" / "attention.txt"
OURS = "multihead"
DTYPES = {"f32": (torch.float32, mh.F32), "bf16": (torch.bfloat16, mh.BF16)}
# Largest error allowed, relative to the largest expected value: about twice what was seen.
TOLERANCE = {"f32": 9e-6, "bf16": 7e-3}


class Unsupported(Exception):
    """This contender does not do this case; the text says why."""


class Case(NamedTuple):
    """One shape of an operation."""
    name: str
    size: dict

    def shape(self):
        """The sizes as one word, such as 1x16x16x2048x2048x64."""
        return "x".join(str(n) for key, n in self.size.items() if key != "causal")


class Job(NamedTuple):
    """A case, and how it is to be run."""
    operation: str
    case: Case
    dtype: str
    threads: int


class Effort(NamedTuple):
    """How much is measured; seconds."""
    rounds: int
    turn: float        # how long a contender's turn takes at least
    repetition: float  # calls shorter than this are timed several at once
    pause: float       # before a turn: the previous contender's threads stop spinning


FULL = Effort(5, 0.1, 0.005, 0.02)
QUICK = Effort(3, 0.03, 0.002, 0.01)


# ---- attention -------------------------------------------------------------------------------

def attention_cases():
    """The cases of the file that `multihead bench attention` is built with."""
    lines = [line.split() for line in SHAPES.read_text().splitlines()]
    return [Case(f[0], dict(zip("BHGTSE", map(int, f[1:7])), causal=f[7] == "causal"))
            for f in lines if f and not f[0].startswith("#")]


def attention_inputs(size, dtype):
    """q (B, H, T, E), k and v (B, G, S, E), contiguous."""
    n = SimpleNamespace(**size)
    shapes = {"q": (n.B, n.H, n.T, n.E), "k": (n.B, n.G, n.S, n.E), "v": (n.B, n.G, n.S, n.E)}
    tensors = {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    return SimpleNamespace(**size, **tensors)


def attention_expected(x):
    """64 rows of the last batch's last head, in double precision."""
    rows = torch.linspace(0, x.T - 1, min(x.T, 64)).long()
    q, k, v = x.q[-1, -1, rows].double(), x.k[-1, -1].double(), x.v[-1, -1].double()
    scores = q @ k.T / math.sqrt(x.E)
    if x.causal:
        dead = torch.arange(x.S) > rows[:, None] + x.S - x.T
        scores = scores.masked_fill(dead, -math.inf)
    return (-1, -1, rows), torch.softmax(scores, -1) @ v


def our_attention(job, x, context, library):
    """mh_attention_forward"""
    out = torch.empty_like(x.q)
    views = [tensor_view(t) for t in (x.q, x.k, x.v, out)]
    return context.attention(library.attention_options(x.causal), *views), lambda: out


def torch_attention(job, x, *_):
    """scaled_dot_product_attention, which picks its fused CPU kernel"""
    if x.causal and x.T != x.S:
        raise Unsupported("is_causal aligns the first query with the first key")
    keep = {}

    def run():
        keep["out"] = torch.nn.functional.scaled_dot_product_attention(
            x.q, x.k, x.v, is_causal=x.causal, enable_gqa=x.H != x.G)
    return run, lambda: keep["out"]


def onnx_attention(job, x, *_):
    """com.microsoft's MultiHeadAttention, or GroupQueryAttention; (B, T, H*E) in and out"""
    if x.H != x.G and not x.causal:
        raise Unsupported("GroupQueryAttention is always causal")
    feeds = {name: numpy_rows(t) for name, t in (("q", x.q), ("k", x.k), ("v", x.v))}
    if x.H == x.G:
        node = onnx_node("MultiHeadAttention", feeds, ["out"], num_heads=x.H,
                         unidirectional=int(x.causal))
    else:
        feeds["last_key"] = np.full(x.B, x.S - 1, np.int32)
        feeds["key_count"] = np.array(x.S, np.int32)
        names = ["q", "k", "v", "", "", "last_key", "key_count"]
        node = onnx_node("GroupQueryAttention", names, ["out", "new_k", "new_v"],
                         num_heads=x.H, kv_num_heads=x.G)
    out = np.empty((x.B, x.T, x.H * x.E), np.float32)
    result = torch.from_numpy(out).view(x.B, x.T, x.H, x.E).transpose(1, 2)
    return onnx_session(node, feeds, out, job.threads), lambda: result


# ---- matrix products -------------------------------------------------------------------------

def matrix_cases():
    """(M, K) times (K, N): a square, BERT-Base's feed-forward layer, one token of it."""
    sizes = {"square": (1024, 1024, 1024), "ffn-up": (512, 768, 3072),
             "ffn-down": (512, 3072, 768), "one-token": (1, 768, 3072)}
    return [Case(name, dict(zip("MKN", size))) for name, size in sizes.items()]


def matrix_inputs(size, dtype):
    """a (M, K), b (K, N), and weight (N, K), which is b's transpose as nn.Linear keeps it."""
    a, b = (torch.randn(size[r], size[c]).to(dtype) for r, c in ("MK", "KN"))
    return SimpleNamespace(**size, a=a, b=b, weight=b.T.contiguous())


def matrix_expected(x):
    """64 rows of the product, in double precision."""
    rows = torch.linspace(0, x.M - 1, min(x.M, 64)).long()
    return (rows,), x.a[rows].double() @ x.b.double()


def our_matmul(job, x, context, *_):
    """mh_matmul"""
    out = torch.empty(x.M, x.N, dtype=x.a.dtype)
    views = [tensor_view(t) for t in (x.a, x.b, out)]
    return context.matmul(*views), lambda: out


def torch_mm(job, x, *_):
    """torch.mm into a tensor that is there already"""
    out = torch.empty(x.M, x.N, dtype=x.a.dtype)
    return lambda: torch.mm(x.a, x.b, out=out), lambda: out


def our_linear(job, x, context, *_):
    """mh_matmul_packed, the weights packed beforehand"""
    out = torch.empty(x.M, x.N, dtype=x.a.dtype)
    views = [tensor_view(t) for t in (x.a, x.weight.T, out)]
    return context.matmul_packed(*views), lambda: out


def torch_linear(job, x, *_):
    """torch.nn.Linear without bias"""
    layer = torch.nn.Linear(x.K, x.N, bias=False, dtype=x.a.dtype).eval()
    layer.weight.copy_(x.weight)
    keep = {}

    def run():
        keep["out"] = layer(x.a)
    return run, lambda: keep["out"]


def torch_prepacked(job, x, *_):
    """What torch.compile makes of a Linear with frozen weights: oneDNN's layout, kept"""
    packed = torch.ops.mkldnn._reorder_linear_weight(x.weight, x.M)
    keep = {}

    def run():
        keep["out"] = torch.ops.mkldnn._linear_pointwise(x.a, packed, None, "none", [], "")
    return run, lambda: keep["out"]


# ---- the table -------------------------------------------------------------------------------

class Operation(NamedTuple):
    """A contender is make(job, inputs, context, library) -> (call, result)."""
    title: str
    cases: Callable
    inputs: Callable
    expected: Callable
    contenders: dict


OPERATIONS = {
    "attention": Operation(
        "attention forward, B x H x G x T x S x E",
        attention_cases, attention_inputs, attention_expected,
        {OURS: our_attention, "torch": torch_attention, "onnxruntime": onnx_attention}),
    "matmul": Operation(
        "matrix product, M x K x N: mh_matmul, torch.mm",
        matrix_cases, matrix_inputs, matrix_expected,
        {OURS: our_matmul, "torch": torch_mm}),
    "linear": Operation(
        "linear layer, M x K x N: mh_matmul_packed, torch.nn.Linear, the same prepacked",
        matrix_cases, matrix_inputs, matrix_expected,
        {OURS: our_linear, "torch": torch_linear, "torch-packed": torch_prepacked}),
}


# ---- help for contenders ---------------------------------------------------------------------

def tensor_view(tensor):
    """Our view of a PyTorch tensor's memory."""
    dtype = next(ours for theirs, ours in DTYPES.values() if theirs == tensor.dtype)
    return mh.view(tensor.data_ptr(), dtype, tensor.shape, tensor.stride())


def numpy_rows(tensor):
    """(B, H, T, E) as the (B, T, H*E) that ONNX Runtime's operators take."""
    if tensor.dtype != torch.float32:
        raise Unsupported("its CPU operators take f32")
    return tensor.transpose(1, 2).flatten(2).contiguous().numpy()


def onnx_node(name, inputs, outputs, **attributes):
    """A node of ONNX Runtime's own operators."""
    if onnxruntime is None:
        raise Unsupported("onnx and onnxruntime are not installed")
    return onnx.helper.make_node(name, list(inputs), outputs, domain="com.microsoft",
                                 **attributes)


def onnx_model(node, feeds):
    """A model of one node, as bytes."""
    def describe(name, array):
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return onnx.helper.make_tensor_value_info(name, kind, array.shape)

    inputs = [describe(name, array) for name, array in feeds.items()]
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
               for name in node.output]
    graph = onnx.helper.make_graph([node], "compare", inputs, outputs)
    versions = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=versions, ir_version=10)
    return model.SerializeToString()


def onnx_session(node, feeds, out, threads):
    """A call that runs the node, its inputs and first output bound in place."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads spin during a call, as by default, but not into the next contender's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(onnx_model(node, feeds), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(out)
    binding.bind_ortvalue_output(node.output[0], value)
    for name in node.output[1:]:
        binding.bind_output(name)
    return lambda: session.run_with_iobinding(binding)


# ---- measuring -------------------------------------------------------------------------------

def preemptions():
    """How often the system took a CPU away from a thread of ours, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Timing(NamedTuple):
    """A call's mean time over a few calls; disturbed if they did not have their CPUs alone."""
    seconds: float
    disturbed: bool


def time_calls(run, count=1):
    """The Timing of `count` calls in a row."""
    before, start = preemptions(), time.perf_counter()
    for _ in range(count):
        run()
    seconds = (time.perf_counter() - start) / count
    return Timing(seconds, preemptions() > before)


def take_turn(run, guess, effort):
    """The best Timing of a call in one turn; `guess` is the best one so far."""
    time.sleep(effort.pause)
    if guess.seconds < effort.turn:
        run()  # caches, threads that slept
    best, end, first = guess, time.perf_counter() + effort.turn, True
    while first or time.perf_counter() < end:
        best = min(best, time_calls(run, 1 + int(effort.repetition / best.seconds)))
        first = False
    return best


def interleave(calls, effort):
    """The best Timing of each call, over rounds in which all take their turns."""
    best = {name: time_calls(run) for name, run in calls.items()}
    start, enough = time.perf_counter(), 2 * effort.rounds * effort.turn * len(calls)
    for turn in range(effort.rounds):
        if turn >= 2 and time.perf_counter() - start > enough:
            break  # a call alone is longer than a turn
        for name, run in calls.items():
            best[name] = take_turn(run, best[name], effort)
    return best


def prepare(job, x, context, library):
    """The contenders that can do the job: name -> (call, result)."""
    ready = {}
    for name, make in OPERATIONS[job.operation].contenders.items():
        try:
            ready[name] = make(job, x, context, library)
        except Unsupported as why:
            say(f"    without {name}: {why}")
    return ready


def errors_of(ready, index, expected):
    """Each contender's largest error, relative to the largest value expected."""
    errors = {}
    for name, (run, result) in ready.items():
        run()
        worst = (result()[index].double() - expected).abs().max() / expected.abs().max()
        errors[name] = worst.item()
    return errors


def measure(job, library, effort):
    """One row: times, ratios and errors of a job."""
    operation = OPERATIONS[job.operation]
    torch.manual_seed(1)
    torch.set_num_threads(job.threads)
    x = operation.inputs(job.case.size, DTYPES[job.dtype][0])
    with library.context(job.threads) as context:
        ready = prepare(job, x, context, library)
        errors = errors_of(ready, *operation.expected(x))
        best = interleave({name: run for name, (run, _) in ready.items()}, effort)
    ms = {name: 1e3 * timing.seconds for name, timing in best.items()}
    limit = TOLERANCE[job.dtype]
    return {"operation": job.operation, "case": job.case.name, **job.case.size,
            "dtype": job.dtype, "threads": job.threads,
            "ms": ms, "ratio": {name: ms[name] / ms[OURS] for name in ms if name != OURS},
            "disturbed": [name for name, timing in best.items() if timing.disturbed],
            "error": errors, "wrong": [n for n, e in errors.items() if not e <= limit]}


# ---- the text table --------------------------------------------------------------------------

def say(text):
    """A line of progress."""
    print(f"compare: {text}", file=sys.stderr, flush=True)


def print_heading(name):
    """The title of an operation and its columns."""
    operation = OPERATIONS[name]
    peers = "".join(f" {peer + ' ms':>15} {'ratio':>6}" for peer in list(operation.contenders)[1:])
    print(f"\n{operation.title}")
    print(f"{'case':<13} {'shape':<23} {'mask':<6} {'dtype':<5} {'threads':>7} "
          f"{OURS + ' ms':>12}{peers} {'error':>8}")


def time_cell(row, name):
    """Milliseconds, marked if disturbed; - if the contender does not do the case."""
    mark = "~" if name in row["disturbed"] else ""
    return f"{mark}{row['ms'][name]:.3f}" if name in row["ms"] else "-"


def print_row(row, case):
    """One row; `error` is ours, others' are in the JSON file. A disturbed time has a ~."""
    cells = ""
    for peer in list(OPERATIONS[row["operation"]].contenders)[1:]:
        ratio = f"{row['ratio'][peer]:.2f}x" if peer in row["ratio"] else "-"
        cells += f" {time_cell(row, peer):>15} {ratio:>6}"
    mask = "causal" if row.get("causal") else "-"
    tail = f"{row['error'][OURS]:8.1e}"
    if row["wrong"]:
        tail += f"  WRONG: {', '.join(row['wrong'])}"
    print(f"{row['case']:<13} {case.shape():<23} {mask:<6} {row['dtype']:<5} "
          f"{row['threads']:>7} {time_cell(row, OURS):>12}{cells} {tail}", flush=True)


def geometric_means(rows):
    """The mean ratio of each operation, dtype, number of threads and peer."""
    groups = {}
    for row in rows:
        for peer in row["ratio"]:
            key = (row["operation"], row["dtype"], row["threads"], peer)
            groups.setdefault(key, []).append(row)
    names = ("operation", "dtype", "threads", "peer")
    return [dict(zip(names, key), **mean_ratio(key[-1], members))
            for key, members in groups.items()]


def mean_ratio(peer, rows):
    """The geometric mean over rows, and how many of them were disturbed."""
    logs = [math.log(row["ratio"][peer]) for row in rows]
    disturbed = sum(1 for row in rows if {OURS, peer} & set(row["disturbed"]))
    return {"cases": len(rows), "disturbed": disturbed,
            "ratio": math.exp(sum(logs) / len(logs))}


def print_means(means):
    """The geometric means."""
    print("\ngeometric mean of peer / multihead: above 1 multihead is faster, below 1 slower")
    print("~ and disturbed: other programs wanted the CPUs even during the best repetition")
    for m in means:
        disturbed = f", {m['disturbed']} disturbed" if m["disturbed"] else ""
        print(f"{m['operation']:<10} {m['dtype']:<5} {m['threads']} thread"
              f"{'s' if m['threads'] > 1 else ' '}  {m['peer']:<13} {m['ratio']:5.2f}x "
              f"over {m['cases']} case{'s' if m['cases'] > 1 else ''}"
              f"{disturbed}")


# ---- the run ---------------------------------------------------------------------------------

def tame_onednn():
    """Keeps PyTorch from crashing where a virtual machine shows AMX but hides its palette.

    oneDNN then loads an empty tile configuration, and its first tile instruction is illegal.
    Returns a note on what was done, or None.
    """
    if "ONEDNN_MAX_CPU_ISA" in os.environ:
        return f"ONEDNN_MAX_CPU_ISA={os.environ['ONEDNN_MAX_CPU_ISA']} was set by the caller"
    probe = "import torch; a = torch.ones(64, 64).bfloat16(); a @ a"
    code = subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True)
    if code.returncode != -signal.SIGILL:
        return None
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX10_1_512"
    return ("PyTorch's bf16 matrix product dies of an illegal instruction here (oneDNN, AMX in "
            "this virtual machine); oneDNN was held to AVX-512 (ONEDNN_MAX_CPU_ISA)")


def machine(library):
    """What it ran on; no names of hosts or users."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":")[1].strip() for line in text.splitlines()
              if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(), "cpus": os.cpu_count(),
            "features": library.cpu_features, "system": platform.system()}


def versions(library):
    """Whose time it is."""
    found = {OURS: library.version, "torch": torch.__version__, "numpy": np.__version__}
    if onnxruntime is not None:
        found["onnxruntime"] = onnxruntime.__version__
    return found


def write_whole(path, text):
    """A file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def words(known):
    """An argument type: a comma-separated list out of `known`."""
    def parse(text):
        found = text.split(",")
        for word in found:
            if word not in known:
                raise argparse.ArgumentTypeError(f"found '{word}', expected some of "
                                                 f"{','.join(known)}")
        return found
    return parse


def thread_counts(text):
    """An argument type: 1,2"""
    counts = [int(n) for n in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError("expected positive numbers")
    return counts


def parse_arguments():
    """The command line."""
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="compare", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=thread_counts, default=sorted({1, cpus}),
                        metavar="N,...", help="numbers of threads (default: 1 and all CPUs)")
    parser.add_argument("--quick", action="store_true", help="less precise, a third of the time")
    parser.add_argument("--case", metavar="NAME", help="only cases with this in their name")
    parser.add_argument("--operation", type=words(OPERATIONS), default=list(OPERATIONS),
                        metavar="NAME,...", help="out of " + ", ".join(OPERATIONS))
    parser.add_argument("--dtype", type=words(DTYPES), default=list(DTYPES), metavar="NAME,...",
                        help="out of " + ", ".join(DTYPES))
    parser.add_argument("--library", type=Path, default=ROOT / "build" / "libmultihead.so",
                        metavar="FILE", help="default: build/libmultihead.so")
    parser.add_argument("--out", type=Path, default=ROOT / "build", metavar="DIR",
                        help="where compare.json and compare.svg go (default: build)")
    arguments = parser.parse_args()
    if not arguments.library.exists():
        parser.error(f"{arguments.library} does not exist: run `make`, or pass --library")
    return parser, arguments


def list_jobs(arguments):
    """Everything that is to be measured, in the order of the table."""
    wanted = arguments.case or ""
    return [Job(name, case, dtype, threads)
            for name in arguments.operation
            for dtype in arguments.dtype
            for threads in arguments.threads
            for case in OPERATIONS[name].cases() if wanted in case.name]


def run_jobs(jobs, library, effort):
    """Measures, and prints each row as soon as it is there."""
    rows = []
    for i, job in enumerate(jobs):
        say(f"[{i + 1}/{len(jobs)}] {job.operation} {job.case.name} {job.dtype} x{job.threads}")
        if i == 0 or job.operation != jobs[i - 1].operation:
            print_heading(job.operation)
        rows.append(measure(job, library, effort))
        print_row(rows[-1], job.case)
    return rows


def write_files(out, rows, means, about):
    """compare.json and compare.svg"""
    report = {**about, "rows": rows, "geometric_means": means}
    write_whole(out / "compare.json", json.dumps(report, indent=1) + "\n")
    write_whole(out / "compare.svg", compare_chart.draw(rows))
    say(f"wrote {out / 'compare.json'} and {out / 'compare.svg'}")


def main():
    """Returns 1 if a contender's result is wrong."""
    parser, arguments = parse_arguments()
    jobs = list_jobs(arguments)
    if not jobs:
        parser.error(f"--case: no case has '{arguments.case}' in its name")
    note = tame_onednn() if "bf16" in arguments.dtype else None
    library = mh.Library(str(arguments.library.resolve()))
    about = {"machine": machine(library), "versions": versions(library), "note": note}
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    print(f"{about['machine']['cpu']}, {about['machine']['cpus']} CPUs")
    if note:
        print(f"note: {note}")
    with torch.inference_mode():
        rows = run_jobs(jobs, library, QUICK if arguments.quick else FULL)
    means = geometric_means(rows)
    print_means(means)
    write_files(arguments.out, rows, means, about)
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
