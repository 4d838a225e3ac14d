// SPDX-License-Identifier: MIT
// Sound files that libmultihead-media decodes. Memory follows what has been decoded: the header
// gets as much as a file of that size can usually mean, the rest once its samples are there.
#include "audio/audio_internal.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "support/media_library.h"
#include <string.h>

enum {
    FRAMES_PER_BYTE = 64, // of speech at the lowest rates that are in use
    BLOCK_SAMPLES = 16384,
};

typedef struct sound_reader {
    const mh_source *source;
    const mh_media_sounds *decoder;
    void *handle;
    mh_media_sound sound;
    float *block; // (block_frames, channels)
    size_t block_frames;
    size_t count; // of audio->samples that are filled
    char message[MH_MEDIA_MESSAGE];
} sound_reader;

static mh_status resize(mh_context *context, size_t filled, size_t count, mh_audio *audio)
{
    mh_audio other;
    MH_TRY(mh_audio_create(context, count, audio->rate, &other));
    memcpy(other.samples, audio->samples, mh_smaller(filled, count) * sizeof(float));
    mh_audio_free(context, audio);
    *audio = other;
    return MH_OK;
}

// The block's frames to those of `mono` from reader->count on.
static mh_status mix(const sound_reader *reader, size_t frames, float *mono)
{
    const float *samples = reader->block;
    const size_t channels = reader->sound.channels;
    for (size_t i = reader->count; i < reader->count + frames; i++) {
        double sum = 0;
        for (size_t c = 0; c < channels; c++)
            sum += (double)*samples++;
        MH_TRY(mh_audio_sample(reader->source, i, sum / (double)channels, &mono[i]));
    }
    return MH_OK;
}

static mh_status invalid(const sound_reader *reader)
{
    return mh_source_fail(reader->source, MH_ERROR_FORMAT, "not a valid sound file: %s",
                          reader->message);
}

// All blocks into audio->samples, which grows when there are more than expected.
static mh_status read_blocks(sound_reader *reader, mh_audio *audio)
{
    mh_context *context = reader->source->context;
    for (;;) {
        const size_t frames = reader->decoder->read(reader->handle, reader->block,
                                                    reader->block_frames, reader->message);
        if (reader->message[0])
            return invalid(reader);
        if (frames == 0)
            break;
        const size_t needed = reader->count + frames;
        MH_TRY(mh_audio_check(reader->source, needed, reader->sound.rate));
        if (needed > audio->count)
            MH_TRY(resize(context, reader->count, mh_smaller(2 * needed, MH_AUDIO_SAMPLES_MAX),
                          audio));
        MH_TRY(mix(reader, frames, audio->samples));
        reader->count = needed;
    }
    if (reader->count == 0 && reader->sound.frames > 0) {
        strcpy(reader->message, "no sample could be decoded");
        return invalid(reader);
    }
    return reader->count == audio->count ? MH_OK
                                         : resize(context, reader->count, reader->count, audio);
}

static mh_status read_sound(sound_reader *reader, mh_audio *audio)
{
    const mh_media_sound *sound = &reader->sound;
    mh_context *context = reader->source->context;
    MH_TRY(mh_audio_check(reader->source, sound->frames, sound->rate));
    reader->block_frames = mh_larger(1, BLOCK_SAMPLES / sound->channels);
    const size_t block_bytes = reader->block_frames * sound->channels * sizeof(float);
    reader->block = mh_alloc(context, block_bytes);
    if (!reader->block)
        return MH_ERROR_MEMORY;
    const size_t usual = reader->source->size > MH_AUDIO_SAMPLES_MAX / FRAMES_PER_BYTE
                             ? MH_AUDIO_SAMPLES_MAX
                             : reader->source->size * FRAMES_PER_BYTE;
    mh_status status =
        mh_audio_create(context, mh_smaller(sound->frames, usual), sound->rate, audio);
    if (!status)
        status = read_blocks(reader, audio);
    if (status)
        mh_audio_free(context, audio);
    mh_free(context, reader->block, block_bytes);
    return status;
}

static mh_status refuse(const mh_source *source, const char *message)
{
    return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                          "expected a sound file: WAV, FLAC, OGG, MP3 or another that libsndfile "
                          "reads (%s)",
                          message);
}

static const mh_media_sounds *find_decoder(void)
{
    const mh_media *media = mh_media_load();
    return media ? media->sounds : NULL;
}

bool mh_audio_can_decode(void) { return find_decoder() != NULL; }

mh_status mh_audio_decode_by(const mh_source *source, const mh_media_sounds *decoder,
                             mh_audio *audio)
{
    sound_reader reader = {.source = source, .decoder = decoder};
    reader.handle = decoder->open(source->bytes, source->size, &reader.sound, reader.message);
    if (!reader.handle)
        return refuse(source, reader.message);
    const mh_status status = read_sound(&reader, audio);
    decoder->close(reader.handle);
    return status;
}

// Whether the first bytes are those of a sound file. An MP3 file without ID3 begins with a frame:
// 11 bits that are set, and behind the version layer III or II.
static bool looks_like_sound(const mh_source *source)
{
    static const char *const magics[] = {"fLaC", "OggS", "ID3", ".snd", "caff", "RF64", "riff"};
    const unsigned char *b = source->bytes;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (source->size >= strlen(magics[i]) && memcmp(b, magics[i], strlen(magics[i])) == 0)
            return true;
    const bool aiff =
        source->size >= 12 && memcmp(b, "FORM", 4) == 0 && memcmp(b + 8, "AIF", 3) == 0;
    const unsigned layer = source->size >= 2 ? b[1] >> 1 & 3 : 0;
    return aiff || (layer > 0 && layer < 3 && b[0] == 0xff && (b[1] & 0xe0) == 0xe0);
}

mh_status mh_audio_refuse(const mh_source *source)
{
    if (!looks_like_sound(source))
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "found an unknown kind of file, expected a sound file: WAV, and "
                              "with " MH_MEDIA_LIBRARY " FLAC, OGG, MP3 and others");
    return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                          "is not a WAV file of PCM or float samples; FLAC, OGG, MP3 and others "
                          "need " MH_MEDIA_LIBRARY
                          " with libsndfile ('make media' builds it), or convert it, for "
                          "instance by ffmpeg -i FILE talk.wav");
}

mh_status mh_audio_decode(const mh_source *source, mh_audio *audio)
{
    const mh_media_sounds *decoder = find_decoder();
    return decoder ? mh_audio_decode_by(source, decoder, audio) : mh_audio_refuse(source);
}
