# SPDX-License-Identifier: MIT
"""Peers of bench/compare_vision.py: the same ViT in transformers, ONNX Runtime and OpenVINO, f32.

A contender is (name, way): (call, result).
"""

import numpy as np
import onnxruntime
import openvino
import torch
import transformers

LABELS = 1000


class Logits(torch.nn.Module):
    """A classifier as a function of tensors, for the export."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixels):
        """(B, 3, 224, 224) -> (B, labels)"""
        return self.model(pixel_values=pixels).logits


def make_model():
    """ViT-B/16 with random weights, of which the classifier's are not near 0."""
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(num_labels=LABELS, attn_implementation="sdpa")).eval()
    torch.nn.init.normal_(model.classifier.weight, std=0.1)
    return model


def export_onnx(model, path):
    """For any number of pictures."""
    model.set_attn_implementation("eager")
    torch.onnx.export(Logits(model), (torch.zeros(2, 3, 224, 224),), str(path), dynamo=False,
                      input_names=["pixels"], output_names=["logits"], opset_version=17,
                      dynamic_axes={"pixels": {0: "batch"}, "logits": {0: "batch"}})
    model.set_attn_implementation("sdpa")


def onnx_call(path, values, threads):
    """ONNX Runtime with input and output bound in place."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads spin during a call, as by default, but not into the next contender's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("pixels", values)
    binding.bind_output("logits")

    def run():
        session.run_with_iobinding(binding)
    return run, lambda: binding.copy_outputs_to_cpu()[0]


def openvino_call(path, values, threads, static):
    """OpenVINO, f32; `static`: compiled for this number of pictures."""
    core = openvino.Core()
    model = core.read_model(str(path))
    if static:
        model.reshape(list(values.shape))
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(values, shared_memory=True))

    def run():
        request.infer()
    run.memory = values, compiled
    return run, lambda: np.array(request.get_output_tensor(0).data)


def torch_call(model, values):
    """transformers, eager, with PyTorch's scaled_dot_product_attention."""
    pixels, results = torch.from_numpy(values), {}

    def run():
        results["logits"] = model(pixel_values=pixels).logits
    return run, lambda: results["logits"].numpy()


def make_calls(model, path, values, threads):
    """All of them."""
    return {("onnxruntime", "plain"): onnx_call(path, values, threads),
            ("openvino", "static shape"): openvino_call(path, values, threads, True),
            ("openvino", "dynamic shape"): openvino_call(path, values, threads, False),
            ("transformers", "sdpa"): torch_call(model, values)}


def versions():
    """Whose time it is."""
    return {"torch": torch.__version__, "transformers": transformers.__version__,
            "onnxruntime": onnxruntime.__version__,
            "openvino": openvino.__version__.split("-", maxsplit=1)[0]}
