# SPDX-License-Identifier: MIT
"""Compares transcription by Whisper tiny.en with OpenAI's own package, openai-whisper.

    check_speech.py MULTIHEAD PEER_SPEECH MODEL [--golden FILE]

MODEL has tiny.en.pt, gpt2.tiktoken and beckett.wav. Recordings are those of tests/models/speech_recordings.py, with
speech of espeak-ng's voices at several speeds and rates, the longest of 90 seconds. Their package reads the samples that
our resampler makes of them: it has none of its own. On each:

  greedy      temperature 0 without fallback: tokens are equal; one may differ where the best two are within 1e-3 nats of
              each other; mean log-probabilities, compression and no-speech probabilities within 2e-4
  words       begin and end within 0.1 s
  beam        tokens of beam search with 5 hypotheses
  fallback    which windows are accepted, tried again and skipped, by the default rules

and besides: the log-mel spectrogram's error against float64 is at most twice that of theirs, and our resampler's
error beside soxr's. --golden writes their greedy tokens and words on short recordings as tests/models/check_recordings.py
needs them.
"""
import argparse
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import wave

import numpy as np
import soxr
import torch
import whisper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
import speech_recordings  # noqa: E402

RATE = 16000
TIES, MEASURES, WORD_TIME = 1e-3, 2e-4, 0.1


def speak(folder):
    """Recordings by espeak-ng, at the rates and with the channels of SPOKEN."""
    names = speech_recordings.speak(folder)
    if not names:
        print("check_speech: espeak-ng is not installed: fewer recordings (Debian: espeak-ng)", file=sys.stderr)
    for name in names:
        *_, rate, channels = speech_recordings.SPOKEN[name]
        path = folder / f"{name}.wav"
        samples, found = read_wav(path)
        if (rate, channels) != (found, 1):
            samples = soxr.resample(samples, found, rate, quality="VHQ") * 32767
            speech_recordings.write(path, np.repeat(samples, channels), rate, channels)
    return names


def read_wav(path):
    """Mono samples and the rate, by the definition of the format."""
    with wave.open(str(path)) as file:
        data = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float64) / 32768
        return data.reshape(-1, file.getnchannels()).mean(1).astype(np.float32), file.getframerate()


# ---- both sides -----------------------------------------------------------------------------------------------


def ours(arguments, path, *options):
    command = [arguments.multihead, "transcribe", "-q", "-m", arguments.model, "--json", *options, path]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["segments"]


class Ties:
    """Notes the lead of the likeliest token over the next at every greedy step of theirs."""

    def __init__(self):
        self.leads = {}

    def __enter__(self):
        self.update = whisper.decoding.GreedyDecoder.update

        def update(decoder, tokens, logits, sums):
            if decoder.temperature == 0:
                best = logits[0].log_softmax(-1).topk(2).values
                key = tuple(tokens[0].tolist()[-8:])
                self.leads[key] = min(self.leads.get(key, np.inf), (best[0] - best[1]).item())
            return self.update(decoder, tokens, logits, sums)

        whisper.decoding.GreedyDecoder.update = update
        return self

    def __exit__(self, *_):
        whisper.decoding.GreedyDecoder.update = self.update

    def lead_after(self, tokens):
        """The smallest lead of steps that begin with these tokens' end."""
        for n in range(min(8, len(tokens)), 1, -1):
            found = [v for k, v in self.leads.items() if k[-n:] == tuple(tokens[-n:])]
            if found:
                return min(found)
        return np.inf


def theirs(model, samples, **options):
    """Without the segments that their program keeps without tokens: those without text or duration."""
    segments = whisper.transcribe(model, samples, language="en", fp16=False, verbose=None, **options)["segments"]
    return [s for s in segments if s["tokens"]]


# ---- comparisons ----------------------------------------------------------------------------------------------


def tokens_of(segments):
    return [t for s in segments for t in s["tokens"]]


def words_of(segments):
    return [w for s in segments for w in s.get("words", [])]


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None if len(a) == len(b) else min(len(a), len(b)))


def compare_greedy(name, mine, other, ties):
    """The number of tokens, or how they differ: a tie ends the comparison."""
    a, b = tokens_of(mine), tokens_of(other)
    at = first_difference(a, b)
    if at is not None:
        lead = ties.lead_after(b[:at])
        if lead > TIES:
            raise SystemExit(f"{name}: token {at}: found {a[at:at + 3]}, expected {b[at:at + 3]}, which leads by {lead:.2g}")
        return f"{len(b)}, the same up to a tie at {at}"
    for x, y in zip(mine, other):
        for key in ("avg_logprob", "compression_ratio", "no_speech_prob"):
            if abs(x[key] - y[key]) > MEASURES:
                raise SystemExit(f"{name}: {key}: found {x[key]}, expected {y[key]}")
    return str(len(b))


def compare_words(name, mine, other):
    a, b = words_of(mine), words_of(other)
    if [w["word"] for w in a] != [w["word"] for w in b]:
        raise SystemExit(f"{name}: other words: {[w['word'] for w in a]}, {[w['word'] for w in b]}")
    worst = max((max(abs(x["start"] - y["start"]), abs(x["end"] - y["end"])) for x, y in zip(a, b)), default=0.0)
    if worst > WORD_TIME:
        raise SystemExit(f"{name}: times of words differ by {worst:.2f} s")
    return len(b), worst


def compare_rules(name, mine, other):
    """The first windows that begin at the same time: accepted at 0, or tried again by both. Samples differ."""
    a, b = ([(round(s["start"], 2), s["temperature"]) for s in side] for side in (mine, other))
    for x, y in zip(a, b):
        if (x[1] == 0) != (y[1] == 0):
            raise SystemExit(f"{name}: found temperatures {a}, expected {b}")
        if x[1] > 0:
            return "tried again"
        if x != y:
            raise SystemExit(f"{name}: found {a}, expected {b}")
    if len(a) != len(b):
        raise SystemExit(f"{name}: found {len(a)} segments, expected {len(b)}")
    return "accepted" if b else "skipped"


# ---- spectrogram and resampler ----------------------------------------------------------------------------------


def run_peer(arguments, samples, *options):
    """What peer_speech makes of f32 samples."""
    result = subprocess.run([arguments.peer, *map(str, options)], input=samples.astype(np.float32).tobytes(), check=True,
                            capture_output=True)
    return np.frombuffer(result.stdout, np.float32)


def log_mel_float64(samples):
    """By formula, with torch's transform in double precision."""
    window = torch.hann_window(400, dtype=torch.float64)
    spectrum = torch.stft(torch.from_numpy(samples).double(), 400, 160, window=window, return_complex=True)
    mels = np.linspace(0, 15 + 27 * np.log(8000 / 1000) / np.log(6.4), 82)
    hertz = np.where(mels < 15, mels * 200 / 3, 1000 * 6.4 ** ((mels - 15) / 27))
    at = np.arange(201) * 40.0
    rise = (at - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    fall = (hertz[2:, None] - at) / (hertz[2:] - hertz[1:-1])[:, None]
    filters = np.maximum(0, np.minimum(rise, fall)) * (2 / (hertz[2:] - hertz[:-2]))[:, None]
    power = torch.from_numpy(filters) @ spectrum[:, :-1].abs() ** 2
    log = power.clamp(min=1e-10).log10()
    return ((torch.maximum(log, log.max() - 8) + 4) / 4).numpy()


def check_log_mel(arguments, samples):
    exact = log_mel_float64(samples)
    mine = run_peer(arguments, samples, "log-mel").reshape(80, -1)
    other = whisper.log_mel_spectrogram(torch.from_numpy(samples)).numpy()
    errors = [float(np.sqrt(np.mean((x.astype(np.float64) - exact) ** 2))) for x in (mine, other)]
    print(f"log-mel: error against float64 {errors[0]:.2e} (RMS), theirs {errors[1]:.2e}")
    if errors[0] > 2 * errors[1]:
        raise SystemExit("log-mel: the error is more than twice theirs")


def check_resampler(arguments):
    """Of a second of noise below 0.8 of the lower half rate, whose spectrum says what it is at any rate."""
    generator = np.random.default_rng(1)
    for rate in (8000, 11025, 22050, 44100, 48000, 96000):
        low, most = min(rate, RATE), max(rate, RATE)
        spectrum = np.zeros(most // 2 + 1, complex)
        count = int(0.4 * low)
        spectrum[1:count] = generator.standard_normal(count - 1) + 1j * generator.standard_normal(count - 1)
        sound, exact = (np.fft.irfft(spectrum[:n // 2 + 1], n) * n for n in (rate, RATE))
        scale = 0.3 / exact.std()
        sound, exact = (scale * sound).astype(np.float32), scale * exact
        inside = slice(RATE // 10, -RATE // 10)
        mine = run_peer(arguments, sound, "resample", rate, RATE)
        other = soxr.resample(sound, rate, RATE, quality="VHQ")
        errors = [float(np.abs(x[:RATE] - exact)[inside].max()) for x in (mine, other)]
        print(f"resampler: {rate} to {RATE} Hz: error {errors[0]:.1e}, soxr's {errors[1]:.1e}")
        if len(mine) != RATE or errors[0] > 1e-5:
            raise SystemExit(f"resampler: found {len(mine)} samples within {errors[0]:.1e}, expected {RATE} within 1e-5")


# ---- all ------------------------------------------------------------------------------------------------------


def check_recording(arguments, model, path):
    name = path.stem
    samples, rate = read_wav(path)
    if rate != RATE:
        samples = run_peer(arguments, samples, "resample", rate, RATE).copy()
    with Ties() as ties:
        other = theirs(model, samples, temperature=0, word_timestamps=True)
    mine = ours(arguments, path, "--no-fallback", "--word-times")
    tokens = compare_greedy(name, mine, other, ties)
    words, worst = compare_words(name, mine, other) if "tie" not in tokens else (0, 0.0)
    golden = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "tokens": tokens_of(other),
              "words": [[w["word"], round(float(w["start"]), 2), round(float(w["end"]), 2)] for w in words_of(other)]}
    found = ours(arguments, path, "--no-fallback", "--beam", "5")
    expected = theirs(model, samples, temperature=0, beam_size=5)
    beam = "equal" if tokens_of(found) == tokens_of(expected) else "other"
    rules = compare_rules(name, ours(arguments, path), theirs(model, samples))
    print(f"| {name} | {len(samples) / RATE:.0f} s, {rate} Hz | {tokens} | {words} | {worst:.2f} s | {beam} | {rules} |",
          flush=True)
    return golden, beam


def main():
    parser = argparse.ArgumentParser()
    for name in ("multihead", "peer", "model"):
        parser.add_argument(name)
    parser.add_argument("--golden")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    beckett = pathlib.Path(arguments.model) / "beckett.wav"
    samples, _ = read_wav(beckett)
    check_log_mel(arguments, samples)
    check_resampler(arguments)
    model = whisper.load_model(str(pathlib.Path(arguments.model) / "tiny.en.pt"), device="cpu")
    model.set_alignment_heads(whisper._ALIGNMENT_HEADS["tiny.en"])  # as for a model that is loaded by its name
    goldens, beams = {}, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(beckett, folder)
        plain = ["beckett", *speech_recordings.make(beckett, folder)]
        print("| recording | | tokens | words | times within | beam 5 | rules |\n|---|---|---|---|---|---|---|")
        for name in plain + speak(folder):
            found, beam = check_recording(arguments, model, folder / f"{name}.wav")
            beams.append(beam)
            if name in speech_recordings.SHORT:
                goldens[name] = found
    if beams.count("other") > len(beams) // 10:
        raise SystemExit(f"beam search: {beams.count('other')} of {len(beams)} recordings have other tokens")
    if arguments.golden:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in goldens.items())
        pathlib.Path(arguments.golden).write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
