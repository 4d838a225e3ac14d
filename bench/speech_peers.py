# SPDX-License-Identifier: MIT
"""Peers of bench/compare_speech.py: faster-whisper, f32 and int8, and whisper.cpp, with the weights of
OpenAI's file.

OpenAI's tiny.en.pt becomes a Hugging Face folder, and CTranslate2's converter makes its own of that.
whisper.cpp gets a file that whisper_cpp_peer.py writes.
"""

import re

import ctranslate2
import faster_whisper
import torch
import transformers
import whisper_cpp_peer
from transformers.convert_slow_tokenizer import TikTokenConverter

COMPUTE = {"faster-whisper": "float32", "faster-whisper int8": "int8"}
# OpenAI's names: Hugging Face's
NAMES = [(r"\.blocks\.", ".layers."), (r"cross_attn_ln", "encoder_attn_layer_norm"),
         (r"attn_ln", "self_attn_layer_norm"), (r"cross_attn", "encoder_attn"),
         (r"\.attn\.", ".self_attn."), (r"\.query\.", ".q_proj."), (r"\.key\.", ".k_proj."),
         (r"\.value\.", ".v_proj."), (r"\.out\.", ".out_proj."), (r"mlp_ln", "final_layer_norm"),
         (r"mlp\.0", "fc1"), (r"mlp\.2", "fc2"), (r"token_embedding", "embed_tokens"),
         (r"\.ln(_post)?\.", ".layer_norm."), (r"positional_embedding", "embed_positions.weight")]
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>",
           *(f"<|{code}|>" for code in faster_whisper.tokenizer._LANGUAGE_CODES[:99]),
           "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
           "<|notimestamps|>", *(f"<|{0.02 * i:.2f}|>" for i in range(1501))]


def rename(name):
    """Of a tensor."""
    for theirs, other in NAMES:
        name = re.sub(theirs, other, name)
    return "model." + name


def read_openai(file):
    """Sizes and tensors."""
    read = torch.load(file, map_location="cpu", weights_only=True)
    return read["dims"], read["model_state_dict"]


def save_hugging_face(file, folder):
    """Weights and configuration of an English model of OpenAI."""
    dims, tensors = read_openai(file)
    config = transformers.WhisperConfig(
        vocab_size=dims["n_vocab"], num_mel_bins=dims["n_mels"], d_model=dims["n_audio_state"],
        encoder_layers=dims["n_audio_layer"], encoder_attention_heads=dims["n_audio_head"],
        decoder_layers=dims["n_text_layer"], decoder_attention_heads=dims["n_text_head"],
        encoder_ffn_dim=4 * dims["n_audio_state"], decoder_ffn_dim=4 * dims["n_audio_state"],
        max_source_positions=dims["n_audio_ctx"], max_target_positions=dims["n_text_ctx"],
        bos_token_id=50256, eos_token_id=50256, pad_token_id=50256, decoder_start_token_id=50257,
        suppress_tokens=[], begin_suppress_tokens=[220, 50256])
    model = transformers.WhisperForConditionalGeneration(config)
    weights = {rename(name): tensor.float() for name, tensor in tensors.items()}
    missing, unknown = model.load_state_dict(weights, strict=False)
    if unknown or set(missing) - {"proj_out.weight"}:
        raise SystemExit(f"compare: tensors {missing} are missing, {unknown} are not known")
    model.save_pretrained(folder)


def save_tokenizer(ranks, folder):
    """tokenizer.json of a .tiktoken file, with Whisper's special tokens."""
    tokenizer = TikTokenConverter(vocab_file=str(ranks), extra_special_tokens=SPECIAL).converted()
    transformers.WhisperTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def save_random_base(folder):
    """Whisper of the base size, for English, with random weights: its text never ends."""
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=51864, d_model=512, encoder_layers=6, encoder_attention_heads=8,
        decoder_layers=6, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
        bos_token_id=50256, eos_token_id=50256, pad_token_id=50256, decoder_start_token_id=50257,
        suppress_tokens=[], begin_suppress_tokens=[220, 50256])
    model = transformers.WhisperForConditionalGeneration(config)
    with torch.no_grad():  # scores that tell tokens apart
        model.model.decoder.embed_tokens.weight.mul_(5)
        model.model.decoder.embed_positions.weight.normal_(0, 0.5)
    model.save_pretrained(folder)


def convert(file, ranks, folder):
    """The folder that faster-whisper loads; file None: of the base size with random weights, beside
    Hugging Face's folder with a vocabulary for us."""
    if file:
        save_hugging_face(file, folder / "hf")
    else:
        save_random_base(folder / "hf")
    save_tokenizer(ranks, folder / "hf")
    ctranslate2.converters.TransformersConverter(
        str(folder / "hf"), copy_files=["tokenizer.json"]).convert(str(folder / "ct2"))
    return folder / "ct2"


def convert_for_cpp(file, ranks, path):
    """The file that whisper.cpp loads."""
    return whisper_cpp_peer.write(*read_openai(file), ranks, path)


def make_call(model, name, samples, threads):
    """A call that gives the ids of the text: English, greedy, no fallback, no timestamps."""
    whisper = faster_whisper.WhisperModel(str(model), device="cpu", compute_type=COMPUTE[name],
                                          cpu_threads=threads, local_files_only=True)

    def run():
        segments, _ = whisper.transcribe(
            samples, language="en", beam_size=1, temperature=0, without_timestamps=True,
            condition_on_previous_text=False, log_prob_threshold=None, no_speech_threshold=None,
            compression_ratio_threshold=None)
        return [token for s in segments for token in s.tokens]
    return run


def versions():
    """Whose time it is."""
    return {"faster-whisper": faster_whisper.__version__, "ctranslate2": ctranslate2.__version__,
            "pywhispercpp": whisper_cpp_peer.version()}
