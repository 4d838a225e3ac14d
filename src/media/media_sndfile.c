// SPDX-License-Identifier: MIT
// Sound by libsndfile: FLAC, OGG (Vorbis, Opus), MP3, compressed WAV, AIFF, AU, CAF and the others
// that it knows by their content. It reads the caller's bytes through functions, so that it opens
// no file. Its MP3 decoder may print a warning on stderr, which it has no function to prevent.
#include "media/media_decoders.h"
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sound_job {
    const unsigned char *bytes;
    sf_count_t size, at;
    SNDFILE *file;
    int channels;
} sound_job;

// ---- the bytes as a file ------------------------------------------------------------------------

static sf_count_t job_size(void *user) { return ((const sound_job *)user)->size; }
static sf_count_t job_tell(void *user) { return ((const sound_job *)user)->at; }

static sf_count_t job_seek(sf_count_t offset, int whence, void *user)
{
    sound_job *job = user;
    const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? job->at : job->size;
    if (offset < -from || offset > job->size - from)
        return -1;
    return job->at = from + offset;
}

static sf_count_t job_read(void *to, sf_count_t count, void *user)
{
    sound_job *job = user;
    const sf_count_t left = job->size - job->at;
    const sf_count_t taken = count < 0 ? 0 : count < left ? count : left;
    memcpy(to, job->bytes + job->at, (size_t)taken);
    job->at += taken;
    return taken;
}

static sf_count_t job_write(const void *from, sf_count_t count, void *user)
{
    (void)from;
    (void)count;
    (void)user;
    return 0;
}

// ---- the decoder --------------------------------------------------------------------------------

static void sound_say(char *message, int error)
{
    snprintf(message, MH_MEDIA_MESSAGE, "%s", sf_error_number(error));
    message[strcspn(message, "\n")] = 0;
}

static void sound_close(void *handle)
{
    sound_job *job = handle;
    if (job->file)
        sf_close(job->file);
    free(job);
}

static void *sound_open(const unsigned char *bytes, size_t size, mh_media_sound *sound,
                        char *message)
{
    SF_VIRTUAL_IO io = {job_size, job_seek, job_read, job_write, job_tell};
    SF_INFO info = {0};
    sound_job *job = calloc(1, sizeof *job);
    if (!job) {
        snprintf(message, MH_MEDIA_MESSAGE, "out of memory");
        return NULL;
    }
    *job = (sound_job){.bytes = bytes, .size = (sf_count_t)size};
    job->file = sf_open_virtual(&io, SFM_READ, &info, job);
    if (!job->file || info.frames < 0 || info.channels < 1 || info.samplerate < 1) {
        sound_say(message, job->file ? SF_ERR_MALFORMED_FILE : sf_error(NULL));
        sound_close(job);
        return NULL;
    }
    job->channels = info.channels;
    const bool known = info.frames < SF_COUNT_MAX; // a pipe's writer does not know it
    *sound = (mh_media_sound){.frames = known ? (size_t)info.frames : 0,
                              .channels = (size_t)info.channels,
                              .rate = (size_t)info.samplerate};
    return job;
}

static size_t sound_read(void *handle, float *samples, size_t frames, char *message)
{
    sound_job *job = handle;
    const sf_count_t count = sf_readf_float(job->file, samples, (sf_count_t)frames);
    if (count < (sf_count_t)frames && sf_error(job->file))
        sound_say(message, sf_error(job->file));
    return count > 0 ? (size_t)count : 0;
}

const mh_media_sounds mh_media_sndfile = {
    .open = sound_open,
    .read = sound_read,
    .close = sound_close,
};
