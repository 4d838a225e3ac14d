# SPDX-License-Identifier: MIT
"""Peers of bench/compare_generation.py: transformers, CTranslate2 and llama.cpp.

A contender is a function (ids, count) -> (B, count) ids, greedy, that does not stop at the end of a
text. make_peers gives those of a precision: {name: contender}, and says which ones cannot run.
"""

import contextlib

import ctranslate2
import numpy as np
import torch
import transformers

from compare_run import say
from llama_ctypes import Llama

# precision: [(name, kind)]; each precision's fastest is the best peer
PEERS = {
    "f32": [("transformers", "float32"), ("ctranslate2", "float32"), ("llama.cpp", "f32")],
    "bf16": [("transformers", "bfloat16"), ("ctranslate2", "bfloat16"), ("llama.cpp", "bf16"),
             ("llama.cpp", "f16")],
    "int8": [("ctranslate2", "int8"), ("llama.cpp", "q4_1")],
}


def transformers_generator(files, kind, threads):
    """generate() with its cache; attention is PyTorch's scaled_dot_product_attention."""
    torch.set_num_threads(threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        files.hugging_face(), dtype=getattr(torch, kind), attn_implementation="sdpa").eval()

    def run(ids, count):
        inputs = torch.from_numpy(ids.astype(np.int64))
        with torch.inference_mode():
            found = model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False,
                                   max_new_tokens=count, eos_token_id=None, pad_token_id=0)
        return found[:, ids.shape[1]:].numpy()
    return run


def ctranslate2_generator(files, kind, threads):
    """generate_batch; its end of text is suppressed, as it knows no other way to go on."""
    generator = ctranslate2.Generator(str(files.ctranslate2()), compute_type=kind,
                                      inter_threads=1, intra_threads=threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(files.hugging_face())

    def run(ids, count):
        prompts = [tokenizer.convert_ids_to_tokens(row) for row in ids.tolist()]
        found = generator.generate_batch(prompts, beam_size=1, sampling_topk=1, max_length=count,
                                         min_length=count, include_prompt_in_result=False)
        return np.array([result.sequences_ids[0][:count] for result in found])
    return run


def llama_generator(llama, files, kind, threads):
    """llama_decode, and the largest logit of each row."""
    path = files.source if kind == "q4_1" else files.gguf(kind)
    model = llama.model(path, threads)

    def run(ids, count):
        return model.generate(ids.tolist(), count)
    return run, model.close


def open_llama(folder):
    """llama.cpp, or None."""
    try:
        return Llama(folder)
    except OSError as error:
        say(f"without llama.cpp: {error}")
        return None


@contextlib.contextmanager
def make_peers(files, llama, precisions, threads):
    """{(name, kind, precision): contender}"""
    made = {}
    with contextlib.ExitStack() as stack:
        for name, kind, precision in ((*p, q) for q in precisions for p in PEERS[q]):
            key = name, kind, precision
            if name == "llama.cpp" and (not llama or kind == "q4_1" and files.name != "smollm2"):
                continue
            try:
                if name == "transformers":
                    made[key] = transformers_generator(files, kind, threads)
                elif name == "ctranslate2":
                    made[key] = ctranslate2_generator(files, kind, threads)
                else:
                    made[key], close = llama_generator(llama, files, kind, threads)
                    stack.callback(close)
            except (OSError, RuntimeError, ValueError) as error:
                say(f"without {name} {kind}: {error}")
        yield made


def versions(llama):
    """Whose time it is."""
    found = {"torch": torch.__version__, "transformers": transformers.__version__,
             "ctranslate2": ctranslate2.__version__}
    if llama:
        found["llama.cpp of"] = llama.source
    return found
