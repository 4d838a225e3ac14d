# SPDX-License-Identifier: MIT
"""llama.cpp through ctypes: batches of tokens in, logits out, as its examples `batched` and
`simple` do it.

The library is that of the npm package @node-llama-cpp/linux-x64, which has kernels for every
generation of CPUs; without npm that of the Python package xllamacpp, whose kernels end at AVX2.
Of its option structures only the first members, which do not change, are known here: default
options come from the library, and the structures here are larger than any version's.

    llama = Llama(folder)
    model = llama.model("model-f32.gguf", threads=2)
    model.generate(prompts, 64)     # lists of ids -> (sequences, 64) ids, greedy
"""

import ctypes
import importlib.util
import subprocess
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_uint32, c_void_p
from pathlib import Path

import numpy as np

PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"


class ModelParams(ctypes.Structure):
    """llama_model_params, of which only the defaults are used."""
    _fields_ = [("rest", c_int8 * 512)]


class ContextParams(ctypes.Structure):
    """llama_context_params"""
    _fields_ = [("n_ctx", c_uint32), ("n_batch", c_uint32), ("n_ubatch", c_uint32),
                ("n_seq_max", c_uint32), ("rest", c_int8 * 496)]


class Batch(ctypes.Structure):
    """llama_batch"""
    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", c_void_p),
                ("pos", POINTER(c_int32)), ("n_seq_id", POINTER(c_int32)),
                ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8))]


LOG = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
PROTOTYPES = {
    "llama_log_set": (None, [LOG, c_void_p]),
    "llama_backend_init": (None, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, ModelParams]),
    "llama_model_free": (None, [c_void_p]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_init_from_model": (c_void_p, [c_void_p, ContextParams]),
    "llama_free": (None, [c_void_p]),
    "llama_set_n_threads": (None, [c_void_p, c_int32, c_int32]),
    "llama_get_memory": (c_void_p, [c_void_p]),
    "llama_memory_clear": (None, [c_void_p, c_bool]),
    "llama_batch_init": (Batch, [c_int32, c_int32, c_int32]),
    "llama_batch_free": (None, [Batch]),
    "llama_decode": (c_int32, [c_void_p, Batch]),
    "llama_get_logits_ith": (POINTER(c_float), [c_void_p, c_int32]),
}


# ---- the library -----------------------------------------------------------------------------

def from_npm(folder):
    """Where libllama.so is, after a download; None without npm."""
    unpacked = folder / "package" / "bins" / "linux-x64"
    try:
        if not unpacked.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True,
                           capture_output=True)
            archive = next(folder.glob("*.tgz"))
            subprocess.run(["tar", "xzf", archive.name], cwd=folder, check=True)
        return next(unpacked.glob("libllama.v*.so"), None) or next(unpacked.glob("libllama.so"))
    except (OSError, subprocess.CalledProcessError, StopIteration):
        return None


def from_pip():
    """The module of xllamacpp, which contains and exports llama.cpp; None without it."""
    found = importlib.util.find_spec("xllamacpp")
    return next(Path(found.origin).parent.glob("xllamacpp*.so"), None) if found else None


class Llama:
    """A loaded library; OSError if there is none."""

    def __init__(self, folder):
        path = from_npm(folder)
        self.source = PACKAGE if path else "xllamacpp"
        path = path or from_pip()
        if not path:
            raise OSError("neither npm nor xllamacpp has llama.cpp for this machine")
        self.c = ctypes.CDLL(str(path))
        for name, (restype, argtypes) in PROTOTYPES.items():
            function = getattr(self.c, name)
            function.restype, function.argtypes = restype, argtypes
        self.quiet = LOG(lambda level, text, user: None)
        self.c.llama_log_set(self.quiet, None)
        if self.source == PACKAGE:
            backends = ctypes.CDLL(str(next(path.parent.glob("libggml.v*.so"))))
            backends.ggml_backend_load_all_from_path(str(path.parent).encode())
        self.c.llama_backend_init()

    def model(self, path, threads):
        """A LlamaModel."""
        return LlamaModel(self.c, path, threads)


# ---- a model ---------------------------------------------------------------------------------

BATCH = 512  # tokens of a call


class LlamaModel:
    """A model, with a context for each number of sequences that is asked for."""

    def __init__(self, library, path, threads):
        self.c = library
        self.model = library.llama_model_load_from_file(str(path).encode(),
                                                        library.llama_model_default_params())
        if not self.model:
            raise OSError(f"llama.cpp cannot load {path}")
        self.vocabulary = library.llama_vocab_n_tokens(library.llama_model_get_vocab(self.model))
        self.threads, self.contexts = threads, {}
        self.batch = library.llama_batch_init(BATCH, 0, 1)

    def context(self, sequences, tokens):
        """A context for so many sequences, of up to so many tokens, made once."""
        key = sequences, 256 if tokens <= 256 else 512
        if key not in self.contexts:
            params = self.c.llama_context_default_params()
            params.n_ctx, params.n_seq_max = max(512, key[1] * sequences), sequences
            params.n_batch = params.n_ubatch = BATCH
            made = self.c.llama_init_from_model(self.model, params)
            if not made:
                raise OSError("llama.cpp cannot make a context")
            self.c.llama_set_n_threads(made, self.threads, self.threads)
            self.contexts[key] = made
        return self.contexts[key]

    def fill(self, tokens):
        """The batch: (sequence, position, id, whether logits are wanted) of each token."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (sequence, position, token, wanted) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence

    def step(self, context, tokens):
        """Runs the tokens; the likeliest next ids where they are wanted."""
        self.fill(tokens)
        if self.c.llama_decode(context, self.batch):
            raise RuntimeError("llama_decode failed")
        rows = (self.c.llama_get_logits_ith(context, i) for i, t in enumerate(tokens) if t[3])
        return [int(np.ctypeslib.as_array(row, (self.vocabulary,)).argmax()) for row in rows]

    def generate(self, prompts, count):
        """Greedy: `count` new ids per prompt, whatever they are."""
        context = self.context(len(prompts), max(map(len, prompts)) + count)
        self.c.llama_memory_clear(self.c.llama_get_memory(context), False)
        first = [(s, i, token, i == len(ids) - 1)
                 for s, ids in enumerate(prompts) for i, token in enumerate(ids)]
        next_ids = [token for at in range(0, len(first), BATCH)
                    for token in self.step(context, first[at:at + BATCH])]
        found = [next_ids]
        for n in range(count - 1):
            next_ids = self.step(context, [(s, len(prompts[s]) + n, token, True)
                                           for s, token in enumerate(next_ids)])
            found.append(next_ids)
        return np.array(found).T

    def close(self):
        """Frees everything."""
        for context in self.contexts.values():
            self.c.llama_free(context)
        self.c.llama_batch_free(self.batch)
        self.c.llama_model_free(self.model)
