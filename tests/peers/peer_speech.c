// SPDX-License-Identifier: MIT
// For check_speech.py: f32 samples from standard input to standard output,
//
//     peer_speech log-mel               of 16 kHz, as (80, frames)
//     peer_speech resample RATE RATE    from one rate to another
#include <multihead/audio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t read_samples(float **samples)
{
    size_t count = 0, capacity = 0, got;
    do {
        capacity = 2 * capacity + 65536;
        *samples = realloc(*samples, capacity * sizeof **samples);
        if (!*samples)
            exit(4);
        got = fread(*samples + count, sizeof **samples, capacity - count, stdin);
        count += got;
    } while (count == capacity);
    return count;
}

static mh_status write_log_mel(mh_context *context, const mh_audio *audio)
{
    const size_t frames = mh_log_mel_frames(audio->count);
    float *values = malloc(80 * frames * sizeof *values);
    mh_tensor features = mh_tensor_2d(values, MH_F32, 80, frames);
    const mh_status status = mh_log_mel(context, audio->samples, audio->count, &features);
    if (!status)
        fwrite(values, sizeof *values, 80 * frames, stdout);
    free(values);
    return status;
}

static mh_status write_resampled(mh_context *context, const mh_audio *audio, size_t rate)
{
    mh_audio other;
    const mh_status status = mh_audio_resample(context, audio, rate, &other);
    if (!status)
        fwrite(other.samples, sizeof *other.samples, other.count, stdout);
    mh_audio_free(context, &other);
    return status;
}

int main(int argc, char **argv)
{
    mh_context *context;
    mh_audio audio = {.rate = 16000};
    const bool mel = argc == 2 && strcmp(argv[1], "log-mel") == 0;
    const bool resample = argc == 4 && strcmp(argv[1], "resample") == 0;
    if ((!mel && !resample) || mh_context_create(NULL, &context, NULL, 0)) {
        fprintf(stderr, "usage: peer_speech log-mel|resample RATE RATE <SAMPLES\n");
        return 2;
    }
    audio.count = read_samples(&audio.samples);
    if (resample)
        audio.rate = strtoul(argv[2], NULL, 10);
    const mh_status status = mel ? write_log_mel(context, &audio)
                                 : write_resampled(context, &audio, strtoul(argv[3], NULL, 10));
    if (status)
        fprintf(stderr, "peer_speech: %s\n", mh_error_message(context));
    free(audio.samples);
    mh_context_free(context);
    return status ? 1 : 0;
}
