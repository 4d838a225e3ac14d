// SPDX-License-Identifier: MIT
// The memory of samples.
#include "audio/audio_internal.h"

mh_status mh_audio_create(mh_context *context, size_t count, size_t rate, mh_audio *audio)
{
    *audio = (mh_audio){0};
    float *samples = mh_alloc(context, (count ? count : 1) * sizeof(float));
    if (!samples)
        return MH_ERROR_MEMORY;
    *audio = (mh_audio){count, rate, samples};
    return MH_OK;
}

void mh_audio_free(mh_context *context, mh_audio *audio)
{
    if (!audio || !audio->samples)
        return;
    mh_free(context, audio->samples, (audio->count ? audio->count : 1) * sizeof(float));
    *audio = (mh_audio){0};
}
