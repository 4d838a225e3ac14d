// SPDX-License-Identifier: MIT
// multihead/audio.h: sound: reading files, resampling, and the log-mel spectrogram of Whisper.
//
//     mh_audio_read(context, "talk.wav", &audio);                     // mono, at the file's rate
//     mh_audio_resample(context, &audio, MH_SPEECH_RATE, &speech);    // 16 kHz
//     mh_log_mel(context, speech.samples, speech.count, &features);   // (mels, frames)
//
// Files are untrusted input. All arithmetic is plain C without libm's functions, so that results
// have the same bits on every machine.
//
// Part of libmultihead-model. Stability: experimental.
#ifndef MULTIHEAD_AUDIO_H
#define MULTIHEAD_AUDIO_H

#include <multihead/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MH_SPEECH_RATE = 16000,         // samples per second that Whisper hears
    MH_SPEECH_HOP = 160,            // samples per frame of its spectrogram
    MH_AUDIO_RATE_MIN = 1000,       // rates that are read and resampled
    MH_AUDIO_RATE_MAX = 192000,     //
    MH_AUDIO_SAMPLES_MAX = 1 << 30, // of one channel
};

// Mono sound. A caller may fill it in to describe samples of its own.
typedef struct mh_audio {
    size_t count;
    size_t rate;    // samples per second
    float *samples; // (count), full scale is -1 to 1
} mh_audio;

// Reads a sound file, and mixes its channels to their mean, clipped to full scale. WAV: PCM of 8,
// 16, 24 or 32 bits, floats of 32 or 64 bits. With libmultihead-media, which is loaded when it is
// needed, whatever libsndfile reads: FLAC, OGG, MP3, compressed WAV, AIFF and others. *audio is
// new, to be freed with mh_audio_free, and all zeros after an error. Errors: MH_ERROR_FILE,
// MH_ERROR_FORMAT (invalid, empty, with samples that are not finite, or larger than the limits),
// MH_ERROR_UNSUPPORTED (another kind of file), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_audio_read(mh_context *context, const char *path,
                                             mh_audio *audio);

// The same for bytes in memory; `name` (or NULL) replaces the path in messages.
MH_API MH_MUST_CHECK mh_status mh_audio_parse(mh_context *context, const char *name,
                                              const void *bytes, size_t size, mh_audio *audio);

// Samples without a header: 16 bits, little-endian, `channels` interleaved.
MH_API MH_MUST_CHECK mh_status mh_audio_parse_pcm(mh_context *context, const char *name,
                                                  const void *bytes, size_t size, size_t rate,
                                                  size_t channels, mh_audio *audio);

// Frees samples that were read or made with this context, or with one of the same allocator. All
// zeros and NULL are allowed.
MH_API void mh_audio_free(mh_context *context, mh_audio *audio);

// *resampled = the same sound at another rate, new: ceil(count * rate / audio->rate) samples of a
// polyphase filter, a sinc with a Kaiser window. Frequencies up to 0.91 of what both rates can
// represent are unchanged within 0.01 dB; what the new rate cannot represent is 100 dB down.
// Errors: MH_ERROR_ARGUMENT (rates; samples that are not finite), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_audio_resample(mh_context *context, const mh_audio *audio,
                                                 size_t rate, mh_audio *resampled);

// Frames of the spectrogram of `samples` samples at 16 kHz: one per hop.
static inline size_t mh_log_mel_frames(size_t samples) { return samples / MH_SPEECH_HOP; }

// features (mels, frames) f32 contiguous = Whisper's log-mel spectrogram of sound at 16 kHz:
//
//     power   |DFT of 400 samples, weighted by a Hann window, every 160 samples|^2, the ends
//             reflected
//     mel     triangular filters on Slaney's mel scale, of equal area, 0 to 8 kHz
//     log     max(log10(max(mel, 1e-10)), largest - 8) / 4 + 1
//
// frames = mh_log_mel_frames(count); mels 80 or 128 as the model has them. Errors:
// MH_ERROR_ARGUMENT (shape; fewer than 201 samples, which cannot be reflected; samples that are not
// finite), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_log_mel(mh_context *context, const float *samples, size_t count,
                                          mh_tensor *features);

#ifdef __cplusplus
}
#endif
#endif
