// SPDX-License-Identifier: MIT
// Fuzzes sound: each input as a file, as samples without a header whose rate and channels are its
// first bytes, and by a decoder that lies about it. What was read is resampled, and its spectrogram
// made.
#include "audio/audio_internal.h"
#include "fuzz_context.h"

enum { MOST_SAMPLES = 1 << 10 };

static size_t number_at(const uint8_t *bytes, size_t size, size_t at)
{
    size_t number = 0;
    for (size_t i = 0; i < 4 && at + i < size; i++)
        number = number << 8 | bytes[at + i];
    return number;
}

static void make_log_mel(mh_context *context, const mh_audio *audio)
{
    static float values[128 * (16 * MOST_SAMPLES / MH_SPEECH_HOP + 1)];
    const size_t mels = audio->count % 2 ? 80 : 128;
    mh_tensor features = mh_tensor_2d(values, MH_F32, mels, mh_log_mel_frames(audio->count));
    const mh_status status = mh_log_mel(context, audio->samples, audio->count, &features);
    if (status != MH_OK && audio->count > 200)
        abort();
    for (size_t i = 0; status == MH_OK && i < mh_tensor_count(&features); i++)
        if (!(values[i] >= -1.6f && values[i] < 30))
            abort();
}

static void hear(mh_context *context, mh_audio *audio)
{
    mh_audio speech;
    for (size_t i = 0; i < audio->count; i++)
        if (!(audio->samples[i] >= -1 && audio->samples[i] <= 1))
            abort();
    audio->count = audio->count < MOST_SAMPLES ? audio->count : MOST_SAMPLES;
    if (mh_audio_resample(context, audio, MH_SPEECH_RATE, &speech) != MH_OK)
        abort();
    if (speech.count != (audio->count * MH_SPEECH_RATE + audio->rate - 1) / audio->rate)
        abort();
    if (speech.count > 0)
        make_log_mel(context, &speech);
    mh_audio_free(context, &speech);
}

static void expect_error(mh_context *context, mh_status status, const mh_audio *audio)
{
    if ((status != MH_ERROR_FORMAT && status != MH_ERROR_UNSUPPORTED &&
         status != MH_ERROR_ARGUMENT && status != MH_ERROR_MEMORY) ||
        audio->samples || mh_error_message(context)[0] == '\0')
        abort();
}

static void finish(mh_context *context, mh_status status, mh_audio *audio)
{
    mh_audio whole = *audio;
    if (status == MH_OK)
        hear(context, audio);
    else
        expect_error(context, status, audio);
    mh_audio_free(context, &whole);
}

// ---- a decoder that lies ------------------------------------------------------------------------

// Frames, channels and rate are the input's first bytes; each read gives as many frames as one of
// the others says, or an error.
typedef struct liar {
    const uint8_t *bytes;
    size_t size, at, channels;
} liar;

static liar the_liar;

static void *liar_open(const unsigned char *bytes, size_t size, mh_media_sound *sound,
                       char *message)
{
    the_liar = (liar){bytes, size, 12, number_at(bytes, size, 4) % 70 + 1};
    *sound = (mh_media_sound){.frames = number_at(bytes, size, 0),
                              .channels = the_liar.channels,
                              .rate = number_at(bytes, size, 8)};
    message[0] = 0;
    return &the_liar;
}

static size_t liar_read(void *handle, float *samples, size_t frames, char *message)
{
    liar *l = handle;
    const size_t says = l->at < l->size ? l->bytes[l->at++] : 0;
    const size_t count = says * frames / 200 < frames ? says * frames / 200 : frames;
    for (size_t i = 0; i < count * l->channels; i++)
        memset(&samples[i], l->at < l->size ? l->bytes[l->at] : (uint8_t)i, sizeof *samples);
    if (says == 13)
        memcpy(message, "unlucky", sizeof "unlucky");
    return count;
}

static void liar_close(void *handle)
{
    if (handle != &the_liar)
        abort();
}

static const mh_media_sounds lies = {.open = liar_open, .read = liar_read, .close = liar_close};

// LeakSanitizer asks for this: libsndfile does not free the state of its decoders for a file that
// it rejects.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libsndfile\nleak:libvorbis\nleak:libogg\nleak:libopus\nleak:libFLAC\n"
           "leak:libmpg123\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    const size_t before = fuzz_memory.live;
    const mh_source source = {context, "fuzz", bytes, size};
    mh_audio audio = {0};
    finish(context, mh_audio_parse(context, "fuzz", bytes, size, &audio), &audio);
    const size_t rate = number_at(bytes, size, 0) % 200000,
                 channels = number_at(bytes, size, 4) % 9;
    mh_status status = mh_audio_parse_pcm(context, "fuzz", bytes, size, rate, channels, &audio);
    finish(context, status, &audio);
    audio = (mh_audio){0};
    status = mh_audio_decode_by(&source, &lies, &audio);
    finish(context, status, &audio);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
