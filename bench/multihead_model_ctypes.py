# SPDX-License-Identifier: MIT
"""Published models of libmultihead-model through ctypes: pretrained.h, generate.h, speech.h.

The library refuses options whose size is not that of its own structure.

    with Library("build/libmultihead-model.so").context(threads=2) as context:
        model = Model(context, "all-MiniLM-L6-v2")
        model.embedder(ids, out)()      # (B, T) int32 -> (B, D) float32, NumPy arrays
        model.generate(ids, 64)         # (B, T) int32 -> (B, 64)
        model.picture_classifier(pixels, out)()   # (B, height, width, 3) uint8 -> (B, labels)
        model.transcriber(samples, 16000)()       # (N) float32 -> ids of the text
"""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_size_t
from ctypes import c_uint64, c_void_p

import numpy as np

from multihead_ctypes import F32, TENSOR, declare, default_options, view

PRECISIONS = {"f32": 1, "bf16": 2}            # mh_precision
POOLING_MEAN = 0                              # mh_pooling


class ModelOptions(ctypes.Structure):
    """mh_model_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("precision", c_int),
        ("trainable", c_bool),
    ]


class ModelInput(ctypes.Structure):
    """mh_model_input"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("sequences", c_size_t),
        ("starts", c_void_p),
        ("ids", c_void_p),
        ("types", c_void_p),
        ("taps", c_void_p),
        ("tap_count", c_size_t),
        ("disabled_heads", c_void_p),
        ("tape", c_void_p),
    ]


class GenerateOptions(ctypes.Structure):
    """mh_generate_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_tokens", c_size_t),
        ("max_length", c_size_t),
        ("temperature", c_double),
        ("top_k", c_size_t),
        ("top_p", c_double),
        ("min_p", c_double),
        ("repetition_penalty", c_double),
        ("seed", c_uint64),
        ("beam", c_size_t),
        ("length_penalty", c_double),
        ("stop", c_void_p),
        ("stop_count", c_size_t),
        ("top_logprobs", c_size_t),
        ("ignore_eos", c_bool),
        ("add_special_tokens", c_bool),
        ("cache_dtype", c_int),
        ("segment", c_size_t),
        ("batch", c_size_t),
        ("disabled_heads", c_void_p),
        ("on_token", c_void_p),
        ("user", c_void_p),
    ]


class Generation(ctypes.Structure):
    """mh_generation, as far as its ids."""
    _fields_ = [
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("ids", POINTER(c_int32)),
        ("logprobs", c_void_p),
        ("top", c_void_p),
        ("count", c_size_t),
    ]


class Image(ctypes.Structure):
    """mh_image"""
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("channels", c_size_t),
                ("pixels", c_void_p)]


class Audio(ctypes.Structure):
    """mh_audio"""
    _fields_ = [("count", c_size_t), ("rate", c_size_t), ("samples", c_void_p)]


class TranscribeOptions(ctypes.Structure):
    """mh_transcribe_options"""
    _fields_ = [
        ("struct_size", c_size_t),
        ("language", c_char_p),
        ("translate", c_bool),
        ("timestamps", c_bool),
        ("word_times", c_bool),
        ("beam", c_size_t),
        ("best_of", c_size_t),
        ("temperatures", c_size_t),
        ("seed", c_uint64),
        ("max_compression_ratio", c_double),
        ("min_logprob", c_double),
        ("max_no_speech", c_double),
        ("condition_on_previous", c_bool),
        ("prompt", c_char_p),
        ("prompt_size", c_size_t),
        ("on_window", c_void_p),
        ("user", c_void_p),
    ]


class SpeechSegment(ctypes.Structure):
    """mh_speech_segment, as far as its ids."""
    _fields_ = [
        ("begin", c_double),
        ("end", c_double),
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("ids", POINTER(c_int32)),
        ("count", c_size_t),
    ]


PROTOTYPES = {
    "mh_model_load": (c_int, [c_void_p, c_char_p, POINTER(ModelOptions), POINTER(c_void_p)]),
    "mh_model_free": (None, [c_void_p]),
    "mh_model_embed": (c_int, [c_void_p, c_void_p, c_int, c_bool, POINTER(ModelInput), TENSOR]),
    "mh_generate": (c_int, [c_void_p, c_void_p, POINTER(GenerateOptions), c_void_p, c_void_p,
                            c_size_t, POINTER(c_void_p)]),
    "mh_generations_at": (POINTER(Generation), [c_void_p, c_size_t]),
    "mh_generations_free": (None, [c_void_p]),
    "mh_model_classify_pictures": (c_int, [c_void_p, c_void_p, POINTER(Image), c_size_t, TENSOR]),
    "mh_transcribe": (c_int, [c_void_p, c_void_p, POINTER(TranscribeOptions), POINTER(Audio),
                              POINTER(c_void_p)]),
    "mh_transcription_count": (c_size_t, [c_void_p]),
    "mh_transcription_segment": (POINTER(SpeechSegment), [c_void_p, c_size_t]),
    "mh_transcription_free": (None, [c_void_p]),
}


class Model:
    """An mh_model in a context, which frees it."""

    def __init__(self, context, directory, precision="f32"):
        declare(context.c, PROTOTYPES)
        self.context, self.pointer = context, c_void_p()
        options = default_options(ModelOptions, precision=PRECISIONS[precision])
        context.call("model_load", str(directory).encode(), options, byref(self.pointer))()
        context.owned.append((context.c.mh_model_free, self.pointer))

    def embedder(self, ids, out):
        """A call: out (B, D) = means over the tokens of ids (B, T), scaled to length 1."""
        starts = np.arange(ids.shape[0] + 1, dtype=np.int64) * ids.shape[1]
        model_input = default_options(ModelInput, sequences=ids.shape[0],
                                      starts=starts.ctypes.data, ids=ids.ctypes.data)
        result = view(out.ctypes.data, F32, out.shape)
        run = self.context.call("model_embed", self.pointer, POOLING_MEAN, True, model_input,
                                result)
        run.memory = starts, ids, model_input, result, out
        return run

    def generate(self, ids, count):
        """(B, count): the likeliest ids after ids (B, T), all sequences at once, without end."""
        starts = np.arange(ids.shape[0] + 1, dtype=np.int64) * ids.shape[1]
        options = default_options(GenerateOptions, max_tokens=count, top_p=1, beam=1,
                                  repetition_penalty=1, length_penalty=1, ignore_eos=True,
                                  add_special_tokens=True, cache_dtype=F32, segment=512,
                                  batch=ids.shape[0])
        result, c = c_void_p(), self.context.c
        self.context.call("generate", self.pointer, options, starts.ctypes.data, ids.ctypes.data,
                          ids.shape[0], byref(result))()
        try:
            return np.array([c.mh_generations_at(result, b).contents.ids[:count]
                             for b in range(ids.shape[0])])
        finally:
            c.mh_generations_free(result)

    def picture_classifier(self, pixels, out):
        """A call: out (B, labels) = logits of pixels (B, height, width, 3), which it normalises."""
        count, height, width, channels = pixels.shape
        images = (Image * count)(*(Image(width, height, channels, picture.ctypes.data)
                                   for picture in pixels))
        result = view(out.ctypes.data, F32, out.shape)
        run = self.context.call("model_classify_pictures", self.pointer, images, count, result)
        run.memory = images, pixels, result, out
        return run

    def transcriber(self, samples, rate):
        """A call that gives the ids of the text of samples (N): English, greedy, no fallback."""
        options = default_options(TranscribeOptions, language=b"en", timestamps=False, beam=1,
                                  best_of=1, temperatures=1, max_compression_ratio=2.4,
                                  min_logprob=-1, max_no_speech=0.6, prompt=b"")
        audio = Audio(len(samples), rate, samples.ctypes.data)
        result, c = c_void_p(), self.context.c
        call = self.context.call("transcribe", self.pointer, options, audio, byref(result))

        def run():
            call()
            try:
                segments = (c.mh_transcription_segment(result, i).contents
                            for i in range(c.mh_transcription_count(result)))
                return [token for s in segments for token in s.ids[:s.count]]
            finally:
                c.mh_transcription_free(result)
        run.memory = options, audio, samples
        return run
