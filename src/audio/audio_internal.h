// SPDX-License-Identifier: MIT
// Internals of sound.
#ifndef MH_AUDIO_AUDIO_INTERNAL_H
#define MH_AUDIO_AUDIO_INTERNAL_H

#include "support/media_library.h"
#include "support/source.h"
#include <multihead/audio.h>

// Samples as a file has them, channels interleaved.
typedef struct mh_pcm {
    const unsigned char *bytes;
    size_t frames, channels, rate;
    size_t sample_bytes; // 1 (unsigned), 2, 3, 4; 4 or 8 of floats
    bool floats;
} mh_pcm;

// Whether the bytes begin as a WAV file does.
bool mh_is_wav(const mh_source *source);

// The samples of a WAV file. Errors: MH_ERROR_FORMAT; MH_ERROR_UNSUPPORTED for a compressed one.
mh_status mh_wav_parse(const mh_source *source, mh_pcm *pcm);

// Checks sizes, and makes mono floats of the samples.
mh_status mh_audio_from_pcm(const mh_source *source, const mh_pcm *pcm, mh_audio *audio);

// The limits of audio.h. Errors: MH_ERROR_FORMAT.
mh_status mh_audio_check(const mh_source *source, size_t count, size_t rate);

// *sample = the mean of frame `frame`'s channels within full scale. Errors: MH_ERROR_FORMAT if it
// is not finite.
mh_status mh_audio_sample(const mh_source *source, size_t frame, double mean, float *sample);

// Whether libmultihead-media is there and decodes sound.
bool mh_audio_can_decode(void);

// Sound of any format that libmultihead-media decodes, mixed to mono. Errors: MH_ERROR_FORMAT,
// MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
mh_status mh_audio_decode(const mh_source *source, mh_audio *audio);

// The same by this decoder.
mh_status mh_audio_decode_by(const mh_source *source, const mh_media_sounds *decoder,
                             mh_audio *audio);

// The error for a file that only libmultihead-media can read, or nothing. MH_ERROR_UNSUPPORTED.
mh_status mh_audio_refuse(const mh_source *source);

// MH_ERROR_ARGUMENT unless all samples are finite.
mh_status mh_audio_check_finite(mh_context *context, const char *name, const float *samples,
                                size_t count);

// New samples for `count` and `rate`, not initialised.
mh_status mh_audio_create(mh_context *context, size_t count, size_t rate, mh_audio *audio);

// ---- the spectrogram ----------------------------------------------------------------------------

// 400 samples at a time, of several frames beside each other, so that the compiler vectorises over
// frames.
enum { MH_DFT_SIZE = 400, MH_DFT_BINS = MH_DFT_SIZE / 2 + 1, MH_DFT_LANES = 16 };

typedef float mh_lanes[MH_DFT_LANES];

typedef struct mh_dft mh_dft; // its constants

mh_dft *mh_dft_create(mh_context *context); // NULL: out of memory
void mh_dft_free(mh_context *context, mh_dft *dft);

// power = |DFT of x|^2 for x (400) and power (201) of each lane; `scratch` has 800.
void mh_dft_power(const mh_dft *dft, const mh_lanes *x, mh_lanes *power, mh_lanes *scratch);

#endif
