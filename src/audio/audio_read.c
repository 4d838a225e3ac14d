// SPDX-License-Identifier: MIT
// Sound files and bytes to mono samples.
#include "audio/audio_internal.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "support/buffer.h"
#include "support/file.h"
#include <math.h>
#include <string.h>

// ---- samples ------------------------------------------------------------------------------------

static double read_float(const unsigned char *b, size_t bytes)
{
    float f;
    double d;
    if (bytes == sizeof d) {
        memcpy(&d, b, sizeof d);
        return d;
    }
    memcpy(&f, b, sizeof f);
    return (double)f;
}

// A sample of 1 to 4 bytes as a fraction of full scale.
static double read_integer(const unsigned char *b, size_t bytes)
{
    if (bytes == 1)
        return (b[0] - 128) / 128.0;
    uint32_t bits = 0;
    for (size_t i = 0; i < bytes; i++)
        bits |= (uint32_t)b[i] << (8 * (4 - bytes + i));
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return value / 2147483648.0;
}

mh_status mh_audio_check(const mh_source *source, size_t count, size_t rate)
{
    if (rate < MH_AUDIO_RATE_MIN || rate > MH_AUDIO_RATE_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found %zu samples per second, expected %d to %d", rate,
                              MH_AUDIO_RATE_MIN, MH_AUDIO_RATE_MAX);
    if (count > MH_AUDIO_SAMPLES_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found %zu samples, expected at most %d per channel", count,
                              MH_AUDIO_SAMPLES_MAX);
    return MH_OK;
}

mh_status mh_audio_sample(const mh_source *source, size_t frame, double mean, float *sample)
{
    if (!isfinite(mean))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "sample %zu is NaN or infinite, expected a finite number", frame);
    *sample = mean > 1 ? 1 : mean < -1 ? -1 : (float)mean;
    return MH_OK;
}

mh_status mh_audio_from_pcm(const mh_source *source, const mh_pcm *pcm, mh_audio *audio)
{
    MH_TRY(mh_audio_check(source, pcm->frames, pcm->rate));
    MH_TRY(mh_audio_create(source->context, pcm->frames, pcm->rate, audio));
    const unsigned char *b = pcm->bytes;
    mh_status status = MH_OK;
    for (size_t i = 0; i < pcm->frames && !status; i++) {
        double sum = 0;
        for (size_t c = 0; c < pcm->channels; c++, b += pcm->sample_bytes)
            sum +=
                pcm->floats ? read_float(b, pcm->sample_bytes) : read_integer(b, pcm->sample_bytes);
        status = mh_audio_sample(source, i, sum / (double)pcm->channels, &audio->samples[i]);
    }
    if (status)
        mh_audio_free(source->context, audio);
    return status;
}

// ---- files --------------------------------------------------------------------------------------

// A compressed WAV file is one for libmultihead-media, where there is one.
static mh_status audio_parse_source(const mh_source *source, mh_audio *audio)
{
    mh_pcm pcm;
    if (source->size == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT, "the file is empty, expected a sound");
    if (!mh_is_wav(source))
        return mh_audio_decode(source, audio);
    const mh_status status = mh_wav_parse(source, &pcm);
    if (status == MH_ERROR_UNSUPPORTED && mh_audio_can_decode())
        return mh_audio_decode(source, audio);
    return status ? status : mh_audio_from_pcm(source, &pcm, audio);
}

mh_status mh_audio_parse(mh_context *context, const char *name, const void *bytes, size_t size,
                         mh_audio *audio)
{
    MH_TRY(MH_NEED(context, {"bytes", bytes}, {"audio", audio}));
    *audio = (mh_audio){0};
    const mh_source source = {context, name ? name : "sound", bytes, size};
    return audio_parse_source(&source, audio);
}

mh_status mh_audio_parse_pcm(mh_context *context, const char *name, const void *bytes, size_t size,
                             size_t rate, size_t channels, mh_audio *audio)
{
    MH_TRY(MH_NEED(context, {"bytes", bytes}, {"audio", audio}));
    *audio = (mh_audio){0};
    if (channels < 1 || channels > 65535)
        return mh_fail(context, MH_ERROR_ARGUMENT, "channels: found %zu, expected 1 to 65535",
                       channels);
    const mh_source source = {context, name ? name : "sound", bytes, size};
    const mh_pcm pcm = {.bytes = bytes,
                        .frames = size / (2 * channels),
                        .channels = channels,
                        .rate = rate,
                        .sample_bytes = 2};
    return mh_audio_from_pcm(&source, &pcm, audio);
}

mh_status mh_audio_read(mh_context *context, const char *path, mh_audio *audio)
{
    mh_mapping mapping;
    MH_TRY(MH_NEED(context, {"path", path}, {"audio", audio}));
    *audio = (mh_audio){0};
    MH_TRY(mh_file_map(context, path, &mapping));
    const mh_source source = {context, path, mapping.data, mapping.size};
    const mh_status status = audio_parse_source(&source, audio);
    mh_file_unmap(&mapping);
    return status;
}
