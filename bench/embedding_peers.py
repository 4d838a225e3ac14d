# SPDX-License-Identifier: MIT
"""Peers of bench/compare_models.py: a BERT sentence encoder in PyTorch, ONNX Runtime and OpenVINO.

All compute what ours does: token ids and a mask in; tokens' means, scaled to length 1, out. Pooling
is part of the ONNX graphs. A peer is a function (ids, threads) -> {way: (call, result)}.
"""

import numpy as np
import onnx
import onnxruntime
import openvino
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

from compare_run import say

NAMES = ["input_ids", "attention_mask", "token_type_ids"]


class SentenceEncoder(torch.nn.Module):
    """Means over tokens, scaled to length 1."""

    def __init__(self, directory):
        super().__init__()
        self.bert = AutoModel.from_pretrained(directory, attn_implementation="eager")

    def forward(self, ids, mask, types):
        """(B, T) -> (B, D)"""
        hidden = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types)[0]
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=-1)


def feed(ids):
    """What encoders take, by name: int64, no padding, one segment."""
    return dict(zip(NAMES, (ids.astype(np.int64), np.ones(ids.shape, np.int64),
                            np.zeros(ids.shape, np.int64))))


def export_onnx(directory, path):
    """The encoder as ONNX, with any batch and length."""
    axes = {name: {0: "batch", 1: "tokens"} for name in NAMES}
    inputs = tuple(torch.from_numpy(x) for x in feed(np.arange(24).reshape(2, 12)).values())
    torch.onnx.export(SentenceEncoder(directory).eval(), inputs, str(path), input_names=NAMES,
                      output_names=["embeddings"], dynamo=False, opset_version=17,
                      dynamic_axes={**axes, "embeddings": {0: "batch"}})


class Files:
    """The ONNX files, made once in a directory."""

    def __init__(self, model, folder):
        self.plain, self.fused = folder / "plain.onnx", folder / "fused.onnx"
        self.int8 = folder / "int8.onnx"
        export_onnx(model, self.plain)
        fused = optimizer.optimize_model(str(self.plain), model_type="bert", num_heads=12,
                                         hidden_size=384)
        fused.save_model_to_file(str(self.fused))
        counts = fused.get_fused_operator_statistics()
        say("ONNX Runtime's optimizer: " + ", ".join(f"{n} {k}" for k, n in counts.items() if n))
        quantize_dynamic(str(self.fused), str(self.int8), weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


def onnx_session(path, ids, threads):
    """A call of ONNX Runtime with inputs and the output bound in place."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads spin during a call, as by default, but not into the next contender's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding, inputs = session.io_binding(), feed(ids)
    known = {x.name for x in session.get_inputs()}
    for name in known:
        binding.bind_cpu_input(name, inputs[name])
    binding.bind_output("embeddings")

    def run():
        session.run_with_iobinding(binding)
    run.memory = inputs, session
    return run, lambda: binding.copy_outputs_to_cpu()[0]


def openvino_request(path, ids, threads, static):
    """A call of OpenVINO, f32; `static`: compiled for this batch and length."""
    core = openvino.Core()
    model = core.read_model(str(path))
    if static:
        model.reshape({port.any_name: list(ids.shape) for port in model.inputs})
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
    request, inputs = compiled.create_infer_request(), feed(ids)
    for port in compiled.inputs:
        request.set_tensor(port, openvino.Tensor(inputs[port.any_name], shared_memory=True))

    def run():
        request.infer()
    run.memory = inputs, compiled
    return run, lambda: np.array(request.get_output_tensor(0).data)


def torch_call(model, ids):
    """A call of sentence-transformers, from token ids."""
    inputs = {name: torch.from_numpy(x) for name, x in feed(ids).items()}
    results = {}

    def run():
        results["embeddings"] = model(dict(inputs))["sentence_embedding"]
    return run, lambda: results["embeddings"].numpy()


def make_peers(directory, folder):
    """name -> (ids, threads) -> {way: (call, result)}; the first three are f32."""
    files = Files(directory, folder)
    sentences = SentenceTransformer(str(directory), device="cpu").eval()
    return {
        "onnxruntime": lambda ids, threads: {
            "fused": onnx_session(files.fused, ids, threads),
            "plain": onnx_session(files.plain, ids, threads)},
        "openvino": lambda ids, threads: {
            "static shape": openvino_request(files.plain, ids, threads, True),
            "dynamic shape": openvino_request(files.plain, ids, threads, False)},
        "sentence-transformers": lambda ids, threads: {"eager": torch_call(sentences, ids)},
        "onnxruntime int8": lambda ids, threads: {
            "dynamic": onnx_session(files.int8, ids, threads)},
    }


def versions():
    """Whose time it is."""
    import sentence_transformers  # pylint: disable=import-outside-toplevel
    return {"torch": torch.__version__, "onnxruntime": onnxruntime.__version__,
            "openvino": openvino.__version__.split("-", maxsplit=1)[0],
            "sentence-transformers": sentence_transformers.__version__}
